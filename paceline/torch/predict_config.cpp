#include "paceline/torch/predict_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "paceline/core/error.hpp"
#include "paceline/data/open.hpp"
#include "paceline/record/atomic_file.hpp"
#include "paceline/torch/model_spec.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr Precision kAll[] = {Precision::fp32, Precision::bf16, Precision::int8};

Precision parse_precision(const std::string& word) {
  for (const Precision precision : kAll) {
    if (name(precision) == word) return precision;
  }
  throw Error(Code::invalid, fmt::format("--precision takes {}, not '{}'", fmt::join(precision_names(), ", "), word));
}

}  // namespace

std::string name(Precision precision) {
  return precision == Precision::fp32 ? "fp32" : precision == Precision::bf16 ? "bf16" : "int8";
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const Precision precision : kAll) names.push_back(name(precision));
  return names;
}

nlohmann::ordered_json to_json(const PredictConfig& c) {
  return {{"run", c.run},
          {"data", c.data},
          {"workers", c.workers},
          {"batch", c.batch},
          {"precision", name(c.precision)},
          {"force", c.force},
          {"output", c.output},
          {"json", c.json}};
}

PredictConfig predict_config_from(const nlohmann::json& json) try {
  return {.run = json.at("run").get<std::string>(),
          .data = json.at("data").get<std::string>(),
          .workers = json.at("workers").get<int>(),
          .batch = json.at("batch").get<int>(),
          .precision = parse_precision(json.at("precision").get<std::string>()),
          .force = json.at("force").get<bool>(),
          .output = json.at("output").get<std::string>(),
          .json = json.at("json").get<bool>()};
} catch (const nlohmann::json::exception& error) {
  throw Error(Code::invalid, fmt::format("this is not the configuration of a prediction: {}", error.what()));
}

TrainConfig config_of_run(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!fs::is_regular_file(path))
    throw Error(Code::invalid, fmt::format("{} is not the folder of a training run: it has no config.json", folder));
  const auto json = nlohmann::json::parse(read_file(path), nullptr, false);
  if (!json.is_object()) throw Error(Code::invalid, fmt::format("{} is damaged: it is not a JSON object", path));
  TrainConfig config = train_config_from(json);
  if (!fs::is_regular_file(folder + "/model.safetensors") && !fs::is_regular_file(folder + "/model.pt"))
    throw Error(Code::invalid, fmt::format("{} has no model: the run has not ended; --resume lets it go on", folder));
  if (keeps_rows_on_servers(parse_model(config.model)) && !fs::is_regular_file(folder + "/" + kModelRows))
    throw Error(Code::invalid, fmt::format("{} has no {} with the rows of its {}; --resume writes it", folder,
                                           kModelRows, config.model));
  return config;
}

PredictData open_for_prediction(const PredictConfig& config, const TrainConfig& trained) {
  if (config.precision != Precision::fp32 && keeps_rows_on_servers(parse_model(trained.model)))
    throw Error(Code::invalid,
                fmt::format("{} has rows of fp32, and predicts in fp32; leave --precision out", trained.model));
  const DataSplit own = open_data(trained.data);
  if (config.data.empty() || config.data == trained.data) return {own.test, own.normalisation, trained.data};
  const DataSplit asked = open_data(config.data);
  if (asked.test.form() != own.train.form())
    throw Error(Code::invalid, fmt::format("the model was trained on {} ({}); {} has {}", to_string(own.train.form()),
                                           trained.data, config.data, to_string(asked.test.form())));
  if (asked.vocabulary != own.vocabulary)
    throw Error(Code::invalid,
                fmt::format("the text of {} has other characters than that of {}, on which the model was trained",
                            config.data, trained.data));
  // The model knows pixels as they were in training.
  return {asked.test, own.normalisation, config.data};
}

}  // namespace paceline
