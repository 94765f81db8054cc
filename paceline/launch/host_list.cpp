#include "paceline/launch/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <sstream>
#include <string_view>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

constexpr int kMostWorkers = 65536;

int checked_count(std::int64_t count) {
  if (count <= kMostWorkers) return static_cast<int>(count);
  throw Error(Code::invalid, fmt::format("{} workers are more than {}", count, kMostWorkers));
}

int parse_count(const std::string& text) {
  int count = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, count);
  if (parsed.ec == std::errc() && parsed.ptr == end && count >= 1 && count <= kMostWorkers) return count;
  throw Error(Code::invalid, fmt::format("'{}' is not a number of workers from 1 to {}", text, kMostWorkers));
}

// A name that begins with a dash would be an option to ssh.
std::string checked_name(const std::string& name) {
  const auto odd = [](unsigned char letter) {
    return letter <= ' ' || letter == 127 || letter == '[' || letter == ']';
  };
  if (name.empty()) throw Error(Code::invalid, "the name of the host is missing");
  if (name.front() != '-' && std::none_of(name.begin(), name.end(), odd)) return name;
  throw Error(Code::invalid, fmt::format("'{}' is not the name of a host", name));
}

// "[fe80::2]" or "[fe80::2]:4"
HostEntry parse_bracketed(const std::string& text) {
  const std::size_t end = text.find(']');
  if (end == std::string::npos) throw Error(Code::invalid, "the bracket is not closed");
  const std::string rest = text.substr(end + 1);
  if (!rest.empty() && rest.front() != ':') throw Error(Code::invalid, fmt::format("'{}' follows the bracket", rest));
  HostEntry entry{.name = checked_name(text.substr(1, end - 1)), .workers = {}};
  if (!rest.empty()) entry.workers = parse_count(rest.substr(1));
  return entry;
}

HostEntry parse_entry(const std::string& text) {
  if (text.starts_with('[')) return parse_bracketed(text);
  const std::size_t colon = text.find(':');
  if (colon != text.rfind(':')) throw Error(Code::invalid, "an IPv6 address is written in brackets: [fe80::2]:4");
  HostEntry entry{.name = checked_name(text.substr(0, colon)), .workers = {}};
  if (colon != std::string::npos) entry.workers = parse_count(text.substr(colon + 1));
  return entry;
}

void add_up(std::vector<HostEntry>& entries, HostEntry entry) {
  const auto same = [&](const HostEntry& other) { return other.name == entry.name; };
  const auto found = std::find_if(entries.begin(), entries.end(), same);
  if (found == entries.end()) {
    entries.push_back(std::move(entry));
  } else {
    found->workers = checked_count(found->workers.value_or(1) + entry.workers.value_or(1));
  }
}

// "b slots=4", without comment
std::optional<HostEntry> parse_line(const std::string& text) {
  constexpr std::string_view kSlots = "slots=";
  std::istringstream words(text);
  std::string name, slots, more;
  words >> name >> slots >> more;
  if (name.empty()) return std::nullopt;
  HostEntry entry = parse_entry(name);
  if (slots.empty()) return entry;
  if (!slots.starts_with(kSlots) || !more.empty()) {
    throw Error(Code::invalid, fmt::format("'{}' is not understood: a line is `a`, `a:4` or `a slots=4`",
                                           more.empty() ? slots : more));
  }
  if (entry.workers) throw Error(Code::invalid, "the number of workers is given twice");
  entry.workers = parse_count(slots.substr(kSlots.size()));
  return entry;
}

std::vector<Host> spread(const std::vector<HostEntry>& entries, int workers) {
  const int hosts = static_cast<int>(entries.size());
  std::vector<Host> placed;
  for (int i = 0; i < std::min(hosts, workers); ++i) {
    placed.push_back({entries[static_cast<std::size_t>(i)].name, workers / hosts + (i < workers % hosts ? 1 : 0)});
  }
  return placed;
}

}  // namespace

std::vector<std::string> parse_server_hosts(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream stream(text + ",");
  for (std::string entry; std::getline(stream, entry, ',');) {
    try {
      const HostEntry host = parse_entry(entry);
      if (host.workers) throw Error(Code::invalid, "how many servers there are is said by --where server:N");
      if (std::find(names.begin(), names.end(), host.name) != names.end())
        throw Error(Code::invalid, "the host is named twice");
      names.push_back(host.name);
    } catch (const Error& error) {
      throw Error(Code::invalid, fmt::format("entry '{}' of --servers-on {}: {}", entry, text, error.what()));
    }
  }
  return names;
}

std::vector<HostEntry> parse_host_list(const std::string& text) {
  std::vector<HostEntry> entries;
  std::istringstream stream(text + ",");
  for (std::string entry; std::getline(stream, entry, ',');) {
    try {
      add_up(entries, parse_entry(entry));
    } catch (const Error& error) {
      throw Error(Code::invalid, fmt::format("entry '{}' of --hosts {}: {}", entry, text, error.what()));
    }
  }
  return entries;
}

std::vector<HostEntry> parse_host_file(const std::string& text, const std::string& file) {
  std::vector<HostEntry> entries;
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    try {
      if (auto entry = parse_line(line.substr(0, line.find('#')))) add_up(entries, std::move(*entry));
    } catch (const Error& error) {
      throw Error(Code::invalid, fmt::format("line {} of {}: {}", number, file, error.what()));
    }
  }
  if (entries.empty()) throw Error(Code::invalid, fmt::format("{} names no host", file));
  return entries;
}

std::vector<Host> place_workers(const std::vector<HostEntry>& entries, std::optional<int> workers) {
  const bool counted = std::any_of(entries.begin(), entries.end(), [](const auto& entry) { return entry.workers; });
  if (workers && !counted) return spread(entries, *workers);
  std::vector<Host> hosts;
  for (const HostEntry& entry : entries) hosts.push_back({entry.name, entry.workers.value_or(1)});
  const int sum = workers_of(hosts);
  if (!workers || *workers == sum) return hosts;
  throw Error(Code::invalid,
              fmt::format("-n {} but the hosts have {} workers together: leave one of the two out", *workers, sum));
}

void place_servers(std::vector<Host>& hosts, const std::vector<std::string>& names, int servers) {
  for (int server = 0; server < servers; ++server) {
    const std::string& name = names[static_cast<std::size_t>(server) % names.size()];
    auto host = std::find_if(hosts.begin(), hosts.end(), [&](const Host& one) { return one.name == name; });
    if (host == hosts.end()) host = hosts.insert(host, {.name = name, .workers = 0});
    host->servers.push_back(server);
  }
}

int workers_of(const std::vector<Host>& hosts) {
  std::int64_t sum = 0;
  for (const Host& host : hosts) sum += host.workers;
  return checked_count(sum);
}

}  // namespace paceline
