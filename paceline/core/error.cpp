#include "paceline/core/error.hpp"

#include <cstring>
#include <system_error>

namespace paceline {

std::string_view name(Code code) {
  switch (code) {
    case Code::invalid: return "invalid";
    case Code::mismatch: return "mismatch";
    case Code::peer_lost: return "peer lost";
    case Code::timeout: return "timeout";
    case Code::cancelled: return "cancelled";
    case Code::system: return "system";
    case Code::refused: return "refused";
    case Code::unsound: return "unsound";
  }
  return "unknown";
}

Error system_error(const std::string& what, int error_number) {
  return Error(Code::system, what + ": " + std::generic_category().message(error_number));
}

}  // namespace paceline
