#include "paceline/data/open.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "paceline/core/error.hpp"
#include "paceline/data/digits.hpp"
#include "paceline/data/idx.hpp"
#include "paceline/data/synthetic.hpp"

namespace paceline {
namespace {

constexpr int kMnistClasses = 10;  // of MNIST and of Fashion-MNIST
constexpr const char* kInstalledFashion = "/usr/share/datasets/fashion-mnist";

DataSplit open_installed_fashion() {
  std::error_code ignored;
  if (!std::filesystem::is_directory(kInstalledFashion, ignored)) {
    throw Error(Code::invalid, fmt::format("Fashion-MNIST is not in {}: install the Debian package "
                                           "dataset-fashion-mnist, or name another folder with fashion:DIR",
                                           kInstalledFashion));
  }
  return read_idx_folder(kInstalledFashion, "fashion", kMnistClasses);
}

DataSplit open_folder(const std::string& name, const std::string& folder) {
  if (folder.empty()) throw Error(Code::invalid, fmt::format("{} needs the folder of its files: {}:DIR", name, name));
  return read_idx_folder(folder, name, kMnistClasses);
}

DataSplit open_digits(bool alone) {
  if (!alone) throw Error(Code::invalid, "digits are built in: nothing may follow the name");
  return read_digits();
}

}  // namespace

DataSplit open_data(const std::string& spec) {
  const std::size_t colon = spec.find(':');
  const bool alone = colon == std::string::npos;
  const std::string name = spec.substr(0, colon);
  const std::string rest = alone ? "" : spec.substr(colon + 1);
  if (name == "fashion" && alone) return open_installed_fashion();
  if (name == "fashion" || name == "mnist") return open_folder(name, rest);
  if (name == "digits") return open_digits(alone);
  if (name == "synthetic") return make_synthetic(parse_synthetic(rest));
  throw Error(Code::invalid, fmt::format("no data are called '{}': there are {}", name, data_help()));
}

std::string data_help() {
  return "fashion[:DIR], mnist:DIR, digits, synthetic[:CxHxW,classes=N,train=N,test=N,seed=N]";
}

}  // namespace paceline
