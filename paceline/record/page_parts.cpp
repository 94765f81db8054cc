#include "paceline/record/page_parts.hpp"

#include "paceline/core/check.hpp"

namespace paceline {

std::string filled_page(std::string_view page, const PageParts& parts) {
  std::string result;
  while (true) {
    const std::size_t open = page.find("{{");
    result += page.substr(0, open);
    if (open == std::string_view::npos) return result;
    const std::size_t close = page.find("}}", open);
    CHECK(close != std::string_view::npos, "a page has {{ without }}");
    const auto part = parts.find(page.substr(open + 2, close - open - 2));
    CHECK(part != parts.end(), "a page names a part that does not exist");
    result += part->second;
    page.remove_prefix(close + 2);
  }
}

}  // namespace paceline
