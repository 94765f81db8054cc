// AdaptiveBound: which S of ssp:S a worker should have now (when=auto), from how long it waits for others and how
// training goes. Fed once a step; decides after each window of steps, and says why.
//
// - Waits much: the bound is raised. Raised three times in vain, it goes back to where it was: then somebody is always
//   slower, and no finite bound helps.
// - Has hardly waited for some windows: lowered by one, since fresher reads then cost nothing. If it has to be raised
//   again, the next attempt comes after twice as many windows.
// - The loss has risen since the bound was raised: halved, and left alone for a while.
//
// Each worker may have its own bound: a read promises what the reader's bound says. A value without clock or I/O; one
// thread owns it.
#pragma once

#include <limits>
#include <optional>
#include <string>

namespace paceline {

class AdaptiveBound {
 public:
  struct Options {
    int most = 64;
    int window = 16;       // steps
    double much = 0.05;    // of the time
    double little = 0.01;  // of the time
    int calm = 4;          // windows
    double worse = 1.1;    // times the loss
  };
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  struct Step {
    double seconds = 0;  // of the whole step
    double waited = 0;   // of these, for others
    double loss = kUnknown;
  };
  struct Change {
    int from = 0;
    int to = 0;
    std::string why;
  };

  AdaptiveBound() : AdaptiveBound(Options{}) {}
  explicit AdaptiveBound(const Options& options) : options_(options), calm_needed_(options.calm) {}

  int bound() const { return bound_; }
  std::optional<Change> after(const Step& step);

 private:
  struct Window {
    int steps = 0;
    double seconds = 0;
    double waited = 0;
    double losses = 0;
    int known_losses = 0;

    double share() const { return seconds > 0 ? waited / seconds : 0; }
    double loss() const { return known_losses > 0 ? losses / known_losses : kUnknown; }
  };
  // The raises since the bound last was where it should be.
  struct Raise {
    int from = 0;      // before the first of them
    double share = 0;  // of waiting, then
    double loss = kUnknown;
    int in_vain = 0;
  };

  std::optional<Change> decide(const Window& window);
  std::optional<Change> go_back(const Window& window);
  std::optional<Change> raise(const Window& window);
  std::optional<Change> lower();
  Change change_to(int bound, std::string why);
  void leave_alone();

  const Options options_;
  int bound_ = 0;
  Window window_;
  std::optional<Raise> raised_;
  int calm_ = 0;          // windows in a row
  int calm_needed_;       // before the bound is lowered
  bool lowered_ = false;  // the last change was for calm
  int alone_ = 0;         // windows in which nothing is raised
  int next_alone_ = 8;
};

}  // namespace paceline
