#include "paceline/launch/environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <vector>

namespace paceline {
namespace {

constexpr int kMaxSize = 65536;

template <class Number>
std::optional<Number> parse(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

int whole_number(const std::string& name, const std::string& text, int low, int high) {
  const auto value = parse<int>(text);
  if (value && *value >= low && *value <= high) return *value;
  throw Error(Code::invalid, fmt::format("{} is '{}' but must be a whole number from {} to {}", name, text, low, high));
}

Duration positive_seconds(const std::string& name, const std::string& text) {
  const auto value = parse<double>(text);
  if (value && *value > 0 && *value <= 1e9) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*value));
  }
  throw Error(Code::invalid, fmt::format("{} is '{}' but must be a positive number of seconds", name, text));
}

Address store_address(const std::string& text) {
  try {
    const Address address = parse_address(text);
    if (address.port != 0) return address;
  } catch (const Error&) {  // the sentence below also names the variable
  }
  throw Error(Code::invalid,
              fmt::format("PACELINE_STORE is '{}' but must be host:port, for example 127.0.0.1:4711", text));
}

void demand_all(const std::vector<std::string>& names, const Lookup& lookup) {
  std::vector<std::string> set;
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    const auto value = lookup(name);
    value ? set.push_back(fmt::format("{}={}", name, *value)) : missing.push_back(name);
  }
  if (missing.empty()) return;
  throw Error(Code::invalid, fmt::format("{} set but not {}: a worker needs PACELINE_RANK, PACELINE_SIZE and "
                                         "PACELINE_STORE, or none of them to run alone",
                                         fmt::join(set, " and "), fmt::join(missing, " and ")));
}

}  // namespace

PortRange parse_ports(const std::string& name, const std::string& text) {
  const std::size_t dash = text.find('-');
  const auto first = parse<std::uint16_t>(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse<std::uint16_t>(text.substr(dash + 1));
  if (first && last && *first >= 1024 && *first <= *last) return {*first, *last};
  throw Error(
      Code::invalid,
      fmt::format("{} is '{}' but must be a range of ports from 1024 to 65535, for example 7000-7100", name, text));
}

Environment read_common(const Lookup& lookup) {
  Environment environment;
  if (const auto text = lookup("PACELINE_JOIN_TIMEOUT")) {
    environment.join_timeout = positive_seconds("PACELINE_JOIN_TIMEOUT", *text);
  }
  NetworkChoice& network = environment.network;
  network.device = lookup("PACELINE_DEVICE").value_or("");
  network.transports = lookup("UCX_TLS").value_or("");
  if (const auto text = lookup("PACELINE_PORTS")) network.ports = parse_ports("PACELINE_PORTS", *text);
  if (const auto text = lookup("PACELINE_SILENCE")) network.silence = positive_seconds("PACELINE_SILENCE", *text);
  if (const auto text = lookup("PACELINE_LINK")) network.link = parse_link(*text);
  if (const auto text = lookup("PACELINE_SPLIT_HOST"))
    network.split_host = whole_number("PACELINE_SPLIT_HOST", *text, 1, kMaxSize);
  return environment;
}

std::optional<Environment> read_environment(const Lookup& lookup) {
  const std::vector<std::string> general = {"PACELINE_RANK", "PACELINE_SIZE", "PACELINE_STORE"};
  bool any = false;
  for (const std::string& name : general) any = any || lookup(name).has_value();
  if (!any) return std::nullopt;
  demand_all(general, lookup);

  Environment environment = read_common(lookup);
  environment.size = whole_number("PACELINE_SIZE", *lookup("PACELINE_SIZE"), 1, kMaxSize);
  if (const auto text = lookup("PACELINE_SERVERS"))
    environment.servers = whole_number("PACELINE_SERVERS", *text, 0, kMaxSize);
  environment.rank =
      whole_number("PACELINE_RANK", *lookup("PACELINE_RANK"), 0, environment.size + environment.servers - 1);
  environment.store = store_address(*lookup("PACELINE_STORE"));
  environment.secret = lookup("PACELINE_SECRET").value_or("");
  if (const auto text = lookup("PACELINE_LIFELINE")) {
    environment.lifeline = whole_number("PACELINE_LIFELINE", *text, 0, 1 << 20);
  }
  return environment;
}

}  // namespace paceline
