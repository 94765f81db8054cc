#include "paceline/launch/host_protocol.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace paceline {
namespace {

using Json = nlohmann::json;
constexpr std::string_view kGreeting = "paceline host-agent ";
constexpr std::string_view kSignal = "signal ";

// Arguments and variables are bytes, JSON is Unicode: byte b becomes the character with that number.
std::string as_text(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) text.push_back(static_cast<char>(0xC0 | byte >> 6));
    text.push_back(static_cast<char>(byte < 0x80 ? byte : 0x80 | (byte & 0x3F)));
  }
  return text;
}

std::string as_bytes(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      bytes.push_back(text[i]);
    } else if (lead == 0xC2 || lead == 0xC3) {  // the parser has seen to it that another one follows
      bytes.push_back(static_cast<char>((lead & 0x03) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F)));
    } else {
      throw Error(Code::invalid, "a text holds a character that is not a byte");
    }
  }
  return bytes;
}

Json texts(const std::vector<std::string>& list) {
  Json json = Json::array();
  for (const std::string& bytes : list) json.push_back(as_text(bytes));
  return json;
}

std::vector<std::string> byte_strings(const Json& json) {
  std::vector<std::string> list;
  for (const Json& text : json) list.push_back(as_bytes(text.get<std::string>()));
  return list;
}

Json optional_number(const std::optional<int>& number) { return number ? Json(*number) : Json(); }
std::optional<int> number_or_none(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional<int>(json.get<int>());
}

Bind bind_from(int number) {
  const auto bind = static_cast<Bind>(number);
  if (bind == Bind::none || bind == Bind::core || bind == Bind::numa) return bind;
  throw Error(Code::invalid, fmt::format("binding {} is unknown", number));
}

Json json_of(const ServerShare& servers) {
  return {{"command", texts(servers.command)}, {"own", servers.own}, {"all", servers.all}};
}
ServerShare servers_from(const Json& json) {
  return {.command = byte_strings(json.at("command")),
          .own = json.at("own").get<std::vector<int>>(),
          .all = json.at("all").get<int>()};
}
bool sound(const ServerShare& servers) {
  const auto known = [&](int number) { return number >= 0 && number < servers.all; };
  return servers.own.empty() ||
         (!servers.command.empty() && std::all_of(servers.own.begin(), servers.own.end(), known));
}

HostJob job_from(const Json& json) {
  return {.command = byte_strings(json.at("command")),
          .environment = byte_strings(json.at("environment")),
          .host = as_bytes(json.at("host").get<std::string>()),
          .folder = as_bytes(json.at("folder").get<std::string>()),
          .first_rank = json.at("first_rank").get<int>(),
          .workers = json.at("workers").get<int>(),
          .size = json.at("size").get<int>(),
          .servers = servers_from(json.at("servers")),
          .store = json.at("store").get<std::string>(),
          .secret = json.at("secret").get<std::string>(),
          .threads = number_or_none(json.at("threads")),
          .bind = bind_from(json.at("bind").get<int>()),
          .grace = Duration(json.at("grace_ns").get<Duration::rep>()),
          .prefix = json.at("prefix").get<bool>(),
          .follower_code = number_or_none(json.at("follower_code"))};
}

Failure failure_from(const Json& json) {
  const int exit_code = json.at("exit_code").get<int>();
  if (exit_code < 1 || exit_code > 255) throw Error(Code::invalid, fmt::format("{} is no failure", exit_code));
  return {.sentence = as_bytes(json.at("sentence").get<std::string>()),
          .exit_code = exit_code,
          .is_cause = json.at("is_cause").get<bool>(),
          .others_remain = json.at("others_remain").get<bool>()};
}

Report report_from(const Json& json) {
  Report report;
  if (json.contains("failure")) report.failure = failure_from(json.at("failure"));
  report.ended = json.value("ended", false);
  return report;
}

// What a message makes sense as, or an Error in place of the parser's.
template <class Read>
auto read(std::string_view line, const char* what, const Read& from) {
  try {
    return from(Json::parse(line));
  } catch (const Json::exception& error) {
    throw Error(Code::invalid, fmt::format("{} is malformed: {}", what, error.what()));
  }
}

}  // namespace

const char* own_version() { return PACELINE_VERSION; }

std::string greeting_line() { return fmt::format("{}{}\n", kGreeting, own_version()); }

std::optional<std::string> greeting_version(std::string_view line) {
  if (!line.starts_with(kGreeting) || line.size() == kGreeting.size()) return std::nullopt;
  return std::string(line.substr(kGreeting.size()));
}

std::string job_line(const HostJob& job) {
  const Json json = {{"command", texts(job.command)},
                     {"environment", texts(job.environment)},
                     {"host", as_text(job.host)},
                     {"folder", as_text(job.folder)},
                     {"first_rank", job.first_rank},
                     {"workers", job.workers},
                     {"size", job.size},
                     {"servers", json_of(job.servers)},
                     {"store", job.store},
                     {"secret", job.secret},
                     {"threads", optional_number(job.threads)},
                     {"bind", static_cast<int>(job.bind)},
                     {"grace_ns", job.grace.count()},
                     {"prefix", job.prefix},
                     {"follower_code", optional_number(job.follower_code)}};
  return json.dump() + "\n";
}

HostJob parse_job(std::string_view line) {
  HostJob job = read(line, "the job that the launcher sent", job_from);
  const bool some = job.workers >= 1 || (job.workers == 0 && !job.servers.own.empty());
  const bool fits = some && job.first_rank >= 0 && job.size >= 1 && job.size >= job.workers &&
                    job.first_rank <= job.size - job.workers;
  if (job.command.empty() || !fits || !sound(job.servers) || job.grace < Duration(0))
    throw Error(Code::invalid, "the job that the launcher sent makes no sense");
  return job;
}

std::string signal_line(int number) { return fmt::format("{}{}\n", kSignal, number); }

std::optional<int> parse_signal(std::string_view line) {
  if (!line.starts_with(kSignal)) return std::nullopt;
  line.remove_prefix(kSignal.size());
  int number = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != line.data() + line.size()) return std::nullopt;
  for (const int known : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGKILL}) {
    if (number == known) return number;
  }
  return std::nullopt;
}

std::string report_line(const Report& report) {
  Json json = Json::object();
  if (report.ended) json["ended"] = true;
  if (const auto& failure = report.failure) {
    json["failure"] = {{"sentence", as_text(failure->sentence)},
                       {"exit_code", failure->exit_code},
                       {"is_cause", failure->is_cause},
                       {"others_remain", failure->others_remain}};
  }
  return kReportTag + json.dump() + "\n";
}

Report parse_report(std::string_view line) { return read(line, "a report", report_from); }

}  // namespace paceline
