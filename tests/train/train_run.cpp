#include "tests/train/train_run.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// As in an environment: each variable ends with a zero byte.
std::string environ_of(pid_t process) {
  return '\0' + contents(fs::path("/proc") / std::to_string(process) / "environ");
}

bool has_variable(const std::string& environ, const std::string& variable) {
  return contains(environ, '\0' + variable + '\0');
}

}  // namespace

TrainRun::TrainRun() {
  static int count = 0;  // one thread makes them
  const std::string name = "paceline_train_" + std::to_string(getpid()) + "_" + std::to_string(count++);
  folder_ = testing::TempDir() + name;
  mark_ = "PACELINE_TRAIN_TEST=" + name;
  fs::remove_all(folder_);
}

TrainRun::~TrainRun() {
  std::error_code stays;
  fs::remove_all(folder_, stays);
}

Command TrainRun::start(const Words& arguments) const {
  Words command = {PACELINE_PROGRAM, "train", "--json"};
  const Words rest = with_defaults(arguments, {{"--out", folder_}});
  command.insert(command.end(), rest.begin(), rest.end());
  return start_marked(command);
}

Command TrainRun::start_marked(const Words& command) const { return Command(command, {mark_}); }

Ended TrainRun::train(const Words& arguments) const {
  Ended ended = start(arguments).wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.errors;
  return ended;
}

std::vector<pid_t> TrainRun::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (has_variable(environ_of(std::stoi(name)), mark_)) found.push_back(std::stoi(name));
  }
  return found;
}

pid_t TrainRun::worker(int rank) const {
  pid_t found = -1;
  EXPECT_TRUE(eventually([&] {
    for (const pid_t process : processes()) {
      if (has_variable(environ_of(process), "PACELINE_RANK=" + std::to_string(rank))) found = process;
    }
    return found > 0;
  })) << "there is no worker "
      << rank;
  return found;
}

void TrainRun::expect_nothing_left() const {
  // The guardian leaves a moment after its launcher.
  EXPECT_TRUE(eventually([&] { return processes().empty(); })) << processes().size() << " processes are left";
}

Words with_defaults(const Words& words, const std::vector<std::pair<std::string, std::string>>& defaults) {
  Words all;
  for (const auto& [option, value] : defaults) {
    if (std::find(words.begin(), words.end(), option) == words.end()) all.insert(all.end(), {option, value});
  }
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Words small_run(const Words& more) {
  return with_defaults(more, {{"--model", "mlp:16"}, {"--data", "digits"}, {"--workers", "2"}});
}

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> all;
  for (const std::string& line : lines_of(text)) {
    all.push_back(nlohmann::json::parse(line, nullptr, false));
    EXPECT_TRUE(all.back().is_object()) << "not a JSON object: " << line;
    if (!all.back().is_object()) all.back() = nlohmann::json::object();
  }
  EXPECT_FALSE(all.empty()) << "there is no line";
  if (all.empty()) all.push_back(nlohmann::json::object());
  return all;
}

nlohmann::json last_line(const TrainRun& run, const Words& words) {
  return json_lines(run.train(small_run(words)).output).back();
}

std::string bytes_of(const std::string& path) {
  EXPECT_TRUE(fs::is_regular_file(path)) << path;
  return contents(path);
}

std::vector<nlohmann::json> results_of(const std::string& json_output) {
  std::vector<nlohmann::json> all;
  for (const nlohmann::json& line : json_lines(json_output)) {
    if (line.contains("final")) continue;
    nlohmann::json& result = all.emplace_back();
    for (const char* key : {"epoch", "step", "loss", "train_accuracy", "test_loss", "test_accuracy"})
      result[key] = line.value(key, nlohmann::json());
  }
  return all;
}

void expect_one_sentence(const std::string& errors) {
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
  EXPECT_TRUE(errors.starts_with("paceline: ") && errors.ends_with('\n')) << errors;
  for (const char* inside : {"json.exception", "terminate", "Exception raised", "frame #", "c10"})
    EXPECT_FALSE(contains(errors, inside)) << errors;
}

}  // namespace paceline
