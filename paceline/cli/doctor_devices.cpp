#include "paceline/cli/doctor_devices.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if_arp.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>

#include "paceline/core/error.hpp"
#include "paceline/fabric/address.hpp"
#include "paceline/launch/devices.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// 0 where the kernel gives no number, or -1.
int number_in(const fs::path& file) {
  int number = 0;
  std::ifstream(file) >> number;
  return std::max(0, number);
}

int bits_of(const sockaddr* mask) {
  if (mask->sa_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in*>(mask)->sin_addr;
    return prefix_bits(reinterpret_cast<const unsigned char*>(&four), sizeof four);
  }
  const auto& six = reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr;
  return prefix_bits(reinterpret_cast<const unsigned char*>(&six), sizeof six);
}

// By address.
std::map<std::string, int> all_prefixes() {
  std::map<std::string, int> bits;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) throw system_error("cannot list the network devices", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(found, freeifaddrs);
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) bits[ip_text(entry->ifa_addr)] = bits_of(entry->ifa_netmask);
  }
  return bits;
}

// "ucx over eth0" and whatever else is said after it → "eth0".
std::string device_in(const std::string& network) {
  const std::string over = "over ";
  const std::size_t begin = network.find(over);
  if (begin == std::string::npos) return {};
  const std::string rest = network.substr(begin + over.size());
  return rest.substr(0, rest.find_first_of(", "));
}

}  // namespace

int prefix_bits(const unsigned char* mask, std::size_t bytes) {
  int bits = 0;
  for (const unsigned char byte : std::span(mask, bytes)) bits += std::popcount(byte);
  return bits;
}

std::string device_kind(const std::string& folder) {
  const fs::path device(folder);
  const int type = number_in(device / "type");
  if (type == ARPHRD_LOOPBACK) return "loopback";
  if (type == ARPHRD_INFINIBAND) return "infiniband";
  if (fs::exists(device / "wireless") || fs::exists(device / "phy80211")) return "wireless";
  if (fs::exists(device / "bridge")) return "bridge";
  if (fs::exists(device / "tun_flags") || type == ARPHRD_NONE || type == ARPHRD_TUNNEL) return "tunnel";
  if (type != ARPHRD_ETHER) return "unknown";
  std::error_code ignored;
  const bool made_up = fs::canonical(device, ignored).string().find("/virtual/") != std::string::npos;
  return made_up ? "virtual" : "ethernet";
}

std::vector<DeviceReport> device_reports() {
  std::vector<DeviceReport> reports;
  const auto prefixes = all_prefixes();
  for (const auto& device : network_devices()) {
    const std::string folder = "/sys/class/net/" + device.name;
    const auto bits = prefixes.find(device.address);
    reports.push_back({.name = device.name,
                       .address = device.address,
                       .prefix_bits = bits == prefixes.end() ? 0 : bits->second,
                       .kind = device.loopback ? "loopback" : device_kind(folder),
                       .mbit = number_in(folder + "/speed"),
                       .mtu = number_in(folder + "/mtu")});
  }
  return reports;
}

std::string network_of(const std::string& address, int bits) {
  std::array<unsigned char, 16> bytes = {};
  const int family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  if (inet_pton(family, address.c_str(), bytes.data()) != 1) return {};
  for (int bit = bits; bit < 128; ++bit) {
    bytes[static_cast<std::size_t>(bit / 8)] &= static_cast<unsigned char>(~(0x80 >> (bit % 8)));
  }
  std::array<char, INET6_ADDRSTRLEN> text = {};
  inet_ntop(family, bytes.data(), text.data(), text.size());
  return fmt::format("{}/{}", text.data(), bits);
}

void name_device(HostReport& host, const std::string& network, const std::string& asked) {
  host.network = network;
  if (!network.empty()) {
    host.device = device_in(network);
    host.why = asked.empty() ? "it leads to the rendezvous store" : "it was asked for";
    return;
  }
  try {
    host.device = outward_device(network_devices(), asked).name;
    host.why = asked.empty() ? "it leads out of this host" : "it was asked for";
  } catch (const Error& error) {
    host.why = error.what();
  }
}

}  // namespace paceline
