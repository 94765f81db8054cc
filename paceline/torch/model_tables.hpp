// ModelTables: the tables of a model whose rows live on servers, one TableEmbedding each, all looked up by the same
// keys. The model is made before there are servers; its rows are there while an Opened lives, or, to predict, in this
// process's own memory once they are loaded. Owned by the worker's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paceline/torch/table_embedding.hpp"

namespace paceline {

class SparseRows;

class ModelTables {
 public:
  explicit ModelTables(std::vector<TableSpec> specs);

  ModelTables(const ModelTables&) = delete;
  ModelTables& operator=(const ModelTables&) = delete;
  ~ModelTables();

  // The rows of the keys: their shape, and the table's width more. Throws Error{invalid} while the rows are nowhere.
  torch::Tensor forward(std::size_t table, const torch::Tensor& keys);
  void prefetch(const torch::Tensor& keys);
  void flush();
  Duration waited() const;   // for rows, in all
  std::string text() const;  // "16 floats by adagrad:0.05, 1 float by ftrl:0.1"
  std::vector<std::string> names() const;
  std::vector<Table> tables() const;  // while they are open

  // All rows of a file into memory, to be read only; those that it does not have are as the seed makes them. Throws
  // Error{invalid} naming the file.
  void load(const std::string& path, std::uint64_t seed);

  // Opens the tables; all workers do so alike. The Session and the ModelTables outlive it.
  class Opened {
   public:
    Opened(ModelTables& tables, Session& session, std::uint64_t seed);
    ~Opened();
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    ModelTables& tables_;
  };

 private:
  std::vector<TableSpec> specs_;
  std::vector<std::unique_ptr<TableEmbedding>> layers_;  // while they are open
  std::vector<std::unique_ptr<SparseRows>> loaded_;
};

}  // namespace paceline
