#include "paceline/torch/model_tables.hpp"

#include <fmt/format.h>

#include <utility>

#include "paceline/core/error.hpp"
#include "paceline/server/sparse_rows.hpp"
#include "paceline/torch/table_files.hpp"

namespace paceline {
namespace {

torch::Tensor read_loaded(SparseRows& rows, const torch::Tensor& keys) {
  const torch::Tensor given = keys.contiguous();
  const auto count = static_cast<std::size_t>(given.numel());
  std::vector<std::int64_t> shape = keys.sizes().vec();
  shape.push_back(static_cast<std::int64_t>(rows.options().width));
  const torch::Tensor values = torch::empty(shape);
  rows.read({reinterpret_cast<const std::uint64_t*>(given.data_ptr<std::int64_t>()), count},
            {values.data_ptr<float>(), count * rows.options().width});
  return values;
}

}  // namespace

ModelTables::ModelTables(std::vector<TableSpec> specs) : specs_(std::move(specs)) {}
ModelTables::~ModelTables() = default;

torch::Tensor ModelTables::forward(std::size_t table, const torch::Tensor& keys) {
  if (table < layers_.size()) return layers_[table]->forward(keys);
  if (table < loaded_.size()) return read_loaded(*loaded_[table], keys);
  throw Error(Code::invalid,
              fmt::format("the rows of table '{}' live on servers, and none are there", specs_.at(table).name));
}

void ModelTables::prefetch(const torch::Tensor& keys) {
  for (auto& layer : layers_) layer->prefetch(keys);
}

void ModelTables::flush() {
  for (auto& layer : layers_) layer->flush();
}

Duration ModelTables::waited() const {
  Duration sum{};
  for (const auto& layer : layers_) sum += layer->counters().waited;
  return sum;
}

std::vector<std::string> ModelTables::names() const {
  std::vector<std::string> names;
  for (const TableSpec& spec : specs_) names.push_back(spec.name);
  return names;
}

std::vector<Table> ModelTables::tables() const {
  std::vector<Table> tables;
  for (const auto& layer : layers_) tables.push_back(layer->table());
  return tables;
}

void ModelTables::load(const std::string& path, std::uint64_t seed) {
  loaded_.clear();
  for (TableSpec& spec : specs_) {
    spec.seed = seed;
    loaded_.push_back(std::make_unique<SparseRows>(
        SparseRowsOptions{.width = spec.width, .initial = parse_initializer(spec.init, spec.seed)}));
  }
  read_values(path, specs_, [this](std::size_t table, const TablePiece& piece) { loaded_[table]->put(piece.rows); });
}

std::string ModelTables::text() const {
  std::string all;
  for (const TableSpec& spec : specs_)
    all +=
        fmt::format("{}{} float{} by {}", all.empty() ? "" : ", ", spec.width, spec.width == 1 ? "" : "s", spec.rule);
  return all;
}

ModelTables::Opened::Opened(ModelTables& tables, Session& session, std::uint64_t seed) : tables_(tables) {
  for (TableSpec& spec : tables_.specs_) {
    spec.seed = seed;
    tables_.layers_.push_back(std::make_unique<TableEmbedding>(session, spec));
  }
}

ModelTables::Opened::~Opened() { tables_.layers_.clear(); }

}  // namespace paceline
