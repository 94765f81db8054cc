// TrainRun: a folder for one run of `paceline train`, and the processes that belong to it. Removes the folder at its
// end.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/launch/command.hpp"

namespace paceline {

using Words = std::vector<std::string>;

class TrainRun {
 public:
  TrainRun();
  TrainRun(const TrainRun&) = delete;
  TrainRun& operator=(const TrainRun&) = delete;
  ~TrainRun();

  // Not there before the run.
  const std::string& folder() const { return folder_; }
  std::string path(const std::string& file) const { return folder_ + "/" + file; }

  // `paceline train --json --out FOLDER ARGUMENTS…`
  Command start(const Words& arguments) const;
  // Until its end, which is expected to be good.
  Ended train(const Words& arguments) const;
  // The words of any command, with the mark by which its processes are found.
  Command start_marked(const Words& command) const;
  Words environment() const { return {mark_}; }

  // All that carry the mark and are not zombies.
  std::vector<pid_t> processes() const;
  // Waits for the worker to be there; -1 if it does not come.
  pid_t worker(int rank) const;
  void expect_nothing_left() const;

 private:
  std::string folder_;
  std::string mark_;  // NAME=value, inherited by whatever a run starts
};

// `words` and, before them, the options that they do not name: each may be given once only.
Words with_defaults(const Words& words, const std::vector<std::pair<std::string, std::string>>& defaults);
// Where `more` does not say otherwise: a small model on 1497 + 300 images of 8x8, and two workers, who make 12 steps an
// epoch.
Words small_run(const Words& more = {});

Words lines_of(const std::string& text);
// Each line as JSON; one that is none fails the test.
std::vector<nlohmann::json> json_lines(const std::string& text);
// The last line of a small run that went well.
nlohmann::json last_line(const TrainRun& run, const Words& words);
// The bytes of a file; a missing one fails the test.
std::string bytes_of(const std::string& path);
// What a repetition must reproduce: epoch, step, losses and accuracies, of all lines but the last.
std::vector<nlohmann::json> results_of(const std::string& json_output);
// Fails unless `errors` is one sentence of paceline's for a person.
void expect_one_sentence(const std::string& errors);

}  // namespace paceline
