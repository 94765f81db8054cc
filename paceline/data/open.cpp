#include "paceline/data/open.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string_view>

#include "paceline/core/error.hpp"
#include "paceline/data/cifar10.hpp"
#include "paceline/data/criteo.hpp"
#include "paceline/data/digits.hpp"
#include "paceline/data/idx.hpp"
#include "paceline/data/synthetic.hpp"
#include "paceline/data/table.hpp"
#include "paceline/data/text.hpp"

namespace paceline {
namespace {

constexpr int kMnistClasses = 10;  // of MNIST and of Fashion-MNIST
constexpr const char* kInstalledFashion = "/usr/share/datasets/fashion-mnist";

// What follows the name and a colon; nothing where there is no colon.
using Rest = std::optional<std::string>;

const std::string& require_folder_name(const std::string& name, const Rest& folder) {
  if (folder && !folder->empty()) return *folder;
  throw Error(Code::invalid, fmt::format("{0} needs the folder of its files: {0}:DIR", name));
}

DataSplit open_idx(const std::string& name, const Rest& folder) {
  return read_idx_folder(require_folder_name(name, folder), name, kMnistClasses);
}

DataSplit open_cifar10(const std::string& name, const Rest& folder) {
  return read_cifar10_folder(require_folder_name(name, folder));
}

DataSplit open_fashion(const std::string& name, const Rest& folder) {
  if (folder) return open_idx(name, folder);
  std::error_code ignored;
  if (!std::filesystem::is_directory(kInstalledFashion, ignored)) {
    throw Error(Code::invalid, fmt::format("Fashion-MNIST is not in {}: install the Debian package "
                                           "dataset-fashion-mnist, or name another folder with fashion:DIR",
                                           kInstalledFashion));
  }
  return read_idx_folder(kInstalledFashion, name, kMnistClasses);
}

DataSplit open_digits(const std::string&, const Rest& rest) {
  if (rest) throw Error(Code::invalid, "digits are built in: nothing may follow the name");
  return read_digits();
}

DataSplit open_synthetic(const std::string&, const Rest& rest) {
  return make_synthetic(parse_synthetic(rest.value_or("")));
}

DataSplit open_text(const std::string&, const Rest& rest) { return read_text(parse_text_options(rest.value_or(""))); }

DataSplit open_csv(const std::string&, const Rest& rest) { return read_table(parse_table_options(rest.value_or(""))); }

DataSplit open_criteo(const std::string&, const Rest& rest) {
  return read_criteo(parse_criteo_options(rest.value_or("")));
}

// One row for each kind of data: a new reader is a new row.
struct Source {
  std::string_view name;
  std::string_view form;  // as help shows it
  DataSplit (*open)(const std::string& name, const Rest& rest);
};
constexpr Source kSources[] = {
    {"fashion", "fashion[:DIR]", open_fashion},
    {"mnist", "mnist:DIR", open_idx},
    {"cifar10", "cifar10:DIR", open_cifar10},
    {"digits", "digits", open_digits},
    {"csv", "csv:FILE[,target=COLUMN,test=SHARE|FILE,predict=class|number]", open_csv},
    {"criteo", "criteo:FILE[,hash-bits=N,test=SHARE|FILE]", open_criteo},
    {"text", "text:FILE[,length=N,test=SHARE]", open_text},
    {"synthetic", "synthetic[:CxHxW,classes=N,train=N,test=N,seed=N]", open_synthetic},
};

}  // namespace

DataSplit open_data(const std::string& spec) {
  const std::size_t colon = spec.find(':');
  const std::string name = spec.substr(0, colon);
  for (const Source& source : kSources) {
    if (source.name != name) continue;
    return source.open(name, colon == std::string::npos ? Rest{} : spec.substr(colon + 1));
  }
  throw Error(Code::invalid, fmt::format("no data are called '{}': there are {}", name, data_help()));
}

std::string data_help() {
  std::string forms;
  for (const Source& source : kSources) forms += fmt::format("{}{}", forms.empty() ? "" : ", ", source.form);
  return forms;
}

}  // namespace paceline
