#include "paceline/cli/doctor_host.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "paceline/cli/doctor_devices.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSettings[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"};

std::string content_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string line_of(const fs::path& file) {
  const std::string text = content_of(file);
  return text.substr(0, text.find('\n'));
}

// "model name	: AMD EPYC" → "AMD EPYC". Other architectures than x86 write other names, or none.
std::string cpu_model() {
  std::istringstream lines(content_of("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    const bool names = line.starts_with("model name") || line.starts_with("Model") || line.starts_with("cpu model");
    if (names && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string control_group() {
  std::istringstream lines(content_of("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "/";
}

// A control group can allow less than there is. What it holds of files, it can let go of.
void apply_memory_limits(HostReport& host) {
  fs::path group = fs::path("/sys/fs/cgroup" + control_group()).lexically_normal();
  for (; group.string().starts_with("/sys/fs/cgroup"); group = group.parent_path()) {
    const std::uint64_t limit = number_after("limit " + line_of(group / "memory.max"), "limit");
    if (limit == 0 || limit >= host.memory_bytes) continue;
    const std::uint64_t current = number_after("current " + line_of(group / "memory.current"), "current");
    const std::uint64_t files = number_after(content_of(group / "memory.stat"), "inactive_file");
    const std::uint64_t used = current - std::min(current, files);
    host.memory_bytes = limit;
    host.available_bytes = std::min(host.available_bytes, limit - std::min(limit, used));
  }
}

void look_at_memory(HostReport& host) {
  const std::string text = content_of("/proc/meminfo");
  host.memory_bytes = number_after(text, "MemTotal:") << 10;
  host.available_bytes = number_after(text, "MemAvailable:") << 10;
  apply_memory_limits(host);
}

std::map<std::string, std::string> thread_settings() {
  std::map<std::string, std::string> settings;
  for (const char* name : kSettings) {
    if (const char* value = std::getenv(name)) settings[name] = value;
  }
  return settings;
}

}  // namespace

std::uint64_t number_after(const std::string& text, const std::string& name) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::uint64_t number = 0;
    if (word == name && words >> number) return number;
  }
  return 0;
}

int threads_by(const std::map<std::string, std::string>& settings) {
  int most = 1;
  for (const auto& [name, value] : settings) most = std::max(most, std::atoi(value.c_str()));
  return most;
}

// user nice system idle iowait irq softirq steal: all but idle and iowait is work, steal that of another machine.
double busy_ticks(const std::string& text, const Cores& cores) {
  double total = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("cpu") || line.starts_with("cpu ")) continue;
    std::istringstream fields(line.substr(3));
    int core = -1;
    std::array<double, 8> ticks = {};
    fields >> core;
    for (double& tick : ticks) fields >> tick;
    if (!std::binary_search(cores.begin(), cores.end(), core)) continue;
    total += ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
  }
  return total;
}

double busy_seconds(const Cores& cores) {
  return busy_ticks(content_of("/proc/stat"), cores) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

HostReport look_at_host() {
  HostReport host;
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  host.system_name = name.data();
  host.machine = line_of("/proc/sys/kernel/random/boot_id");
  host.cpu = cpu_model();
  host.cores = static_cast<int>(allowed_cores().size());
  host.quota = core_quota().value_or(0);
  host.settings = thread_settings();
  host.threads = threads_by(host.settings);
  look_at_memory(host);
  host.devices = device_reports();
  return host;
}

}  // namespace paceline
