#include "paceline/launch/devices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "paceline/core/error.hpp"
#include "paceline/fabric/address.hpp"
#include "paceline/fabric/descriptor.hpp"

namespace paceline {
namespace {

// fe80::… means nothing without the name of a device.
bool is_link_local(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::string list(const std::vector<NetworkDevice>& devices) {
  std::vector<std::string> names;
  for (const NetworkDevice& device : devices) names.push_back(fmt::format("{} ({})", device.name, device.address));
  return fmt::format("{}", fmt::join(names, ", "));
}

// The machine, as it was started, and a namespace of this process.
std::string key_of(const std::string& space) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat status = {};
  stat(("/proc/self/ns/" + space).c_str(), &status);
  return fmt::format("{}/{}", boot, status.st_ino);
}

constexpr auto kLinkPause = std::chrono::milliseconds(5);

bool is_in_operation(const std::string& device) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  device.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(socket.number(), SIOCGIFFLAGS, &request) != 0)
    throw system_error(fmt::format("cannot ask for the state of network device {}", device), errno);
  return (request.ifr_flags & IFF_RUNNING) != 0;
}

}  // namespace

std::vector<NetworkDevice> network_devices() {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) throw system_error("cannot list the network devices", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(found, freeifaddrs);
  std::vector<NetworkDevice> devices;
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if ((family != AF_INET && family != AF_INET6) || is_link_local(entry->ifa_addr)) continue;
    devices.push_back({entry->ifa_name, ip_text(entry->ifa_addr), (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  // IPv4 first: of a device with both, that is the one to listen at.
  std::stable_partition(devices.begin(), devices.end(),
                        [](const NetworkDevice& device) { return device.address.find(':') == std::string::npos; });
  return devices;
}

NetworkDevice choose_device(const std::vector<NetworkDevice>& devices, const std::string& asked,
                            const std::string& towards) {
  const std::string& wanted = asked.empty() ? towards : asked;
  const auto named = [&](const NetworkDevice& device) { return device.name == wanted || device.address == wanted; };
  const auto found = std::find_if(devices.begin(), devices.end(), named);
  if (found != devices.end()) return *found;
  throw Error(Code::invalid, asked.empty()
                                 ? fmt::format("no network device has the address {} by which the rendezvous store is "
                                               "reached; PACELINE_DEVICE chooses one of: {}",
                                               towards, list(devices))
                                 : fmt::format("there is no network device '{}' that is up and has an address; there "
                                               "is: {}",
                                               asked, list(devices)));
}

NetworkDevice outward_device(const std::vector<NetworkDevice>& devices, const std::string& asked) {
  if (!asked.empty()) return choose_device(devices, asked, {});
  const auto address = ip_towards(resolve({"192.0.2.1", 9}));  // RFC 5737: nobody's, so somewhere out there
  const auto leads_out = [&](const NetworkDevice& device) { return device.address == address; };
  auto found = std::find_if(devices.begin(), devices.end(), leads_out);
  if (found == devices.end())
    found = std::find_if(devices.begin(), devices.end(), [](const NetworkDevice& device) { return !device.loopback; });
  if (found == devices.end()) found = devices.begin();
  if (found == devices.end()) throw Error(Code::invalid, "this host has no network device that is up, not even lo");
  return *found;
}

void await_operation(const NetworkDevice& device, Duration patience, const Clock& clock) {
  const TimePoint deadline = clock.now() + patience;
  while (!is_in_operation(device.name)) {
    if (clock.now() >= deadline)
      throw Error(Code::timeout,
                  fmt::format("the network device {} ({}) is up, but nothing answers at the other end of "
                              "its cable (`ip link show {}` says NO-CARRIER or DORMANT); mend the link, "
                              "or choose another device with --device or PACELINE_DEVICE",
                              device.name, device.address, device.name));
    std::this_thread::sleep_for(kLinkPause);
  }
}

std::optional<std::string> rdma_device(const std::string& asked, const std::string& known) {
  const std::size_t colon = asked.find(':');
  const std::string name = asked.substr(0, colon), port = colon == std::string::npos ? "1" : asked.substr(colon + 1);
  if (name.empty() || name.find('/') != std::string::npos || name.starts_with('.')) return std::nullopt;
  if (!std::filesystem::is_directory(known + "/" + name)) return std::nullopt;
  if (port.find('/') != std::string::npos || !std::filesystem::is_directory(known + "/" + name + "/ports/" + port))
    throw Error(Code::invalid, fmt::format("the RDMA device {} has no port '{}'", name, port));
  return name + ":" + port;
}

std::string host_name() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string host_key() { return key_of("net"); }

std::string clock_key() { return key_of("time"); }

}  // namespace paceline
