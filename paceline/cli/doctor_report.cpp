#include "paceline/cli/doctor_report.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "paceline/core/check.hpp"

namespace paceline {
namespace {

// The names of members, once for both directions.
constexpr auto fields_of(const DeviceReport*) {
  using D = DeviceReport;
  return std::tuple(std::pair("name", &D::name), std::pair("address", &D::address),
                    std::pair("prefix_bits", &D::prefix_bits), std::pair("kind", &D::kind),
                    std::pair("mbit_per_s", &D::mbit), std::pair("mtu", &D::mtu));
}

constexpr auto fields_of(const HostReport*) {
  using H = HostReport;
  return std::tuple(
      std::pair("name", &H::name), std::pair("system_name", &H::system_name), std::pair("machine", &H::machine),
      std::pair("cpu", &H::cpu), std::pair("ranks", &H::ranks), std::pair("threads", &H::threads),
      std::pair("settings", &H::settings), std::pair("cores", &H::cores), std::pair("core_quota", &H::quota),
      std::pair("busy_cores", &H::busy_cores), std::pair("memory_bytes", &H::memory_bytes),
      std::pair("available_bytes", &H::available_bytes), std::pair("shares_memory", &H::shares_memory),
      std::pair("copy_one_gb_per_s", &H::copy_one), std::pair("copy_all_gb_per_s", &H::copy_all),
      std::pair("devices", &H::devices), std::pair("device", &H::device), std::pair("device_why", &H::why),
      std::pair("network", &H::network), std::pair("clock_ahead_s", &H::clock_ahead),
      std::pair("clock_error_s", &H::clock_error), std::pair("steady_clock_ahead_s", &H::steady_ahead));
}

constexpr auto fields_of(const LinkReport*) {
  using L = LinkReport;
  return std::tuple(std::pair("from", &L::from), std::pair("to", &L::to), std::pair("latency_us", &L::latency_us),
                    std::pair("gb_per_s", &L::gbps));
}

constexpr auto fields_of(const DoctorReport*) {
  using R = DoctorReport;
  return std::tuple(std::pair("version", &R::version), std::pair("cores", &R::cores), std::pair("hosts", &R::hosts),
                    std::pair("every_pair", &R::every_pair), std::pair("links", &R::links));
}

template <class T>
void write(Json& json, const T& value) {
  json = Json::object();
  std::apply([&](const auto&... field) { ((json[field.first] = value.*field.second), ...); }, fields_of(&value));
}

template <class T>
void read(const Json& json, T& value) {
  std::apply([&](const auto&... field) { (json.at(field.first).get_to(value.*field.second), ...); }, fields_of(&value));
}

}  // namespace

void to_json(Json& json, const DeviceReport& device) { write(json, device); }
void from_json(const Json& json, DeviceReport& device) { read(json, device); }
void to_json(Json& json, const LinkReport& link) { write(json, link); }
void from_json(const Json& json, LinkReport& link) { read(json, link); }
void to_json(Json& json, const HostReport& host) { write(json, host); }
void from_json(const Json& json, HostReport& host) { read(json, host); }
void to_json(Json& json, const DoctorReport& report) { write(json, report); }
void from_json(const Json& json, DoctorReport& report) { read(json, report); }

std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

const DeviceReport* HostReport::used_device() const {
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const auto& each) { return each.name == device; });
  return found == devices.end() ? nullptr : &*found;
}

int DoctorReport::workers() const {
  int total = 0;
  for (const HostReport& host : hosts) total += host.workers();
  return total;
}

const HostReport& DoctorReport::host_of(int rank) const {
  for (const HostReport& host : hosts) {
    if (std::find(host.ranks.begin(), host.ranks.end(), rank) != host.ranks.end()) return host;
  }
  CHECK(false, "a link's rank is on one of the hosts");
  return hosts.front();
}

}  // namespace paceline
