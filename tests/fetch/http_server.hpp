// HttpServer: a web server on the loopback interface, in a thread of the test, which can also behave badly. It answers
// one request at a time.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "paceline/fabric/descriptor.hpp"

namespace paceline {

struct Page {
  std::string body;
  int status = 200;
  bool ranges = true;                           // whether it can begin in the middle
  std::optional<std::size_t> stops_after = {};  // so many bytes of the answer
  enum class Then { close, wait } then = Then::close;
};

class HttpServer {
 public:
  HttpServer();
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url() const;  // ends in a slash
  void put(const std::string& name, Page page);
  // "NAME" or "NAME from 123", in the order in which they came.
  std::vector<std::string> requests() const;

 private:
  void run();
  void answer(int connection);

  Descriptor listening_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, Page> pages_;  // guarded by mutex_
  std::vector<std::string> requests_;  // guarded by mutex_
  std::jthread thread_;
};

}  // namespace paceline
