// PredictConfig: what `paceline predict` was asked for, as it goes to its workers. Without torch, so that the command
// can check it before they start.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "paceline/data/dataset.hpp"
#include "paceline/torch/train_config.hpp"

namespace paceline {

enum class Precision { fp32, bf16, int8 };
std::string name(Precision precision);
std::vector<std::string> precision_names();

struct PredictConfig {
  std::string run;        // the folder of a training run
  std::string data = {};  // as --data of train; empty: the run's own
  int workers = 1;
  int batch = 64;  // per worker
  Precision precision = Precision::fp32;
  bool force = false;       // also where a lower precision takes longer
  std::string output = {};  // a file of predictions; empty: none
  bool json = false;
};

// The key by which `paceline-train` knows that it is to predict; its value is the rest.
inline constexpr const char* kPredict = "predict";
nlohmann::ordered_json to_json(const PredictConfig& config);
PredictConfig predict_config_from(const nlohmann::json& json);  // Error{invalid}

// In the folder of a run, beside the model: the rows of its tables, if it has some.
inline constexpr const char* kModelRows = "model.rows";

// What RUN/config.json says. Error{invalid} if RUN is not the folder of a run with a model.
TrainConfig config_of_run(const std::string& folder);

// What is predicted: the test part of the data asked for, with what a model needs to read it as it read the data that
// it was trained on. Error{invalid} if that was of another form.
struct PredictData {
  Dataset examples;
  Normalisation normalisation;
  std::string name;
};
PredictData open_for_prediction(const PredictConfig& config, const TrainConfig& trained);

}  // namespace paceline
