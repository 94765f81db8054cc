// TwoHosts: two network namespaces with a cable between them and host names of their own, and a "login" from one to the
// other, so that mpirun starts its daemon there as it would over ssh. Needs root.
#pragma once

#include <string>
#include <vector>

namespace paceline {

class TwoHosts {
 public:
  TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  ~TwoHosts();

  // False where namespaces cannot be made.
  bool ready() const { return ready_; }
  // The words that run a command on the first host.
  std::vector<std::string> on_first(const std::vector<std::string>& command) const;
  // A program: LOGIN ADDRESS COMMAND…
  std::string login() const { return folder_ + "/login"; }
  static constexpr const char* kNetwork = "10.213.7.0/24";
  static constexpr const char* kAddresses[] = {"10.213.7.1", "10.213.7.2"};

 private:
  std::string folder_;
  std::string name_;  // of the namespaces, before their number
  bool ready_ = false;
};

}  // namespace paceline
