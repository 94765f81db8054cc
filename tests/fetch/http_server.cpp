#include "tests/fetch/http_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

struct Request {
  std::string name;
  std::size_t from = 0;

  std::string text() const { return from > 0 ? fmt::format("{} from {}", name, from) : name; }
};

std::string read_head(int connection) {
  std::string head;
  char letter = 0;
  while (!head.ends_with("\r\n\r\n") && recv(connection, &letter, 1, 0) == 1) head.push_back(letter);
  return head;
}

Request parse(const std::string& head) {
  Request request;
  const std::size_t slash = head.find('/');
  request.name = head.substr(slash + 1, head.find(' ', slash) - slash - 1);
  constexpr std::string_view kRange = "\r\nRange: bytes=";
  if (const std::size_t at = head.find(kRange); at != std::string::npos)
    request.from = std::strtoull(head.c_str() + at + kRange.size(), nullptr, 10);
  return request;
}

void send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the client has gone
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string head_of(const Page& page, std::size_t from) {
  if (page.status != 200) return fmt::format("HTTP/1.1 {} no\r\nContent-Length: 0\r\n", page.status);
  const std::size_t size = page.body.size();
  if (from == 0) return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", size);
  return fmt::format("HTTP/1.1 206 Partial\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{}\r\n", size - from,
                     from, size - 1, size);
}

}  // namespace

HttpServer::HttpServer() : listening_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (bind(listening_.number(), plain, size) != 0 || listen(listening_.number(), 16) != 0 ||
      getsockname(listening_.number(), plain, &size) != 0)
    throw system_error("a test cannot listen", errno);
  port_ = ntohs(address.sin_port);
  thread_ = std::jthread([this] { run(); });
}

HttpServer::~HttpServer() {
  shutdown(listening_.number(), SHUT_RDWR);  // ends accept
}

std::string HttpServer::url() const { return fmt::format("http://127.0.0.1:{}/", port_); }

void HttpServer::put(const std::string& name, Page page) {
  const std::lock_guard lock(mutex_);
  pages_.insert_or_assign(name, std::move(page));
}

std::vector<std::string> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::run() {
  for (;;) {
    const Descriptor connection(accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.valid()) return;
    answer(connection.number());
  }
}

void HttpServer::answer(int connection) {
  Request request = parse(read_head(connection));
  Page page{.body = "", .status = 404};
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request.text());
    if (const auto found = pages_.find(request.name); found != pages_.end()) page = found->second;
  }
  if (!page.ranges) request.from = 0;
  if (request.from > 0 && request.from >= page.body.size()) page.status = 416;
  send_all(connection, head_of(page, request.from) + "Connection: close\r\n\r\n");
  if (page.status != 200) return;
  std::string_view body = page.body;
  body.remove_prefix(request.from);
  send_all(connection, body.substr(0, page.stops_after.value_or(body.size())));
  char ignored = 0;
  if (page.stops_after && page.then == Page::Then::wait) recv(connection, &ignored, 1, 0);  // until the client goes
}

}  // namespace paceline
