// `paceline fetch` as a user calls it, against a server of the test.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "paceline/data/data_test_support.hpp"
#include "tests/fetch/http_server.hpp"
#include "tests/launch/command.hpp"

namespace paceline {
namespace {

using Words = std::vector<std::string>;
constexpr std::size_t kImages = 9'912'422;  // bytes of MNIST's first file

class FetchCommand : public testing::Test {
 protected:
  Command start(const Words& arguments, const Words& before = {}) const {
    Words words = before;
    for (const std::string& word : Words{PACELINE_PROGRAM, "fetch"}) words.push_back(word);
    words.insert(words.end(), arguments.begin(), arguments.end());
    return Command(words, {"no_proxy=127.0.0.1"});
  }
  Ended fetch_mnist() const { return start({"mnist", "--to", folder_.path(), "--from", server_.url()}).wait(); }
  bool nothing_left() const { return std::filesystem::is_empty(folder_.path()); }

  HttpServer server_;
  TemporaryFolder folder_;
};

void expect_sentence(const Ended& ended, int exit_code, const std::string& part) {
  EXPECT_EQ(ended.exit_code, exit_code);
  EXPECT_TRUE(ended.errors.starts_with("paceline: ") && ended.errors.find('\n') == ended.errors.size() - 1)
      << ended.errors;
  EXPECT_TRUE(says(ended.errors, part));
}

TEST_F(FetchCommand, AnUnknownSetIsAnsweredWithThoseThatThereAre) {
  expect_sentence(start({"imagenet"}).wait(), 2, "'imagenet' cannot be fetched: there are mnist, fashion, cifar10");
  expect_sentence(start({}).wait(), 2, "name");
}

TEST_F(FetchCommand, ARefusalIsOneSentence) {
  expect_sentence(fetch_mnist(), 1, "train-images-idx3-ubyte.gz: the server answers 404");
  EXPECT_TRUE(nothing_left());
}

TEST_F(FetchCommand, AWrongFileIsRemoved) {
  server_.put("train-images-idx3-ubyte.gz", {.body = std::string(kImages, 'x')});
  expect_sentence(fetch_mnist(), 1, "instead of 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609");
  EXPECT_TRUE(nothing_left());
}

TEST_F(FetchCommand, CtrlCEndsItWithoutAHalfFile) {
  for (const int number : {SIGINT, SIGTERM}) {
    server_.put("train-images-idx3-ubyte.gz",
                {.body = std::string(kImages, 'x'), .stops_after = 70'000, .then = Page::Then::wait});
    const std::string part = folder_.path() + "/train-images-idx3-ubyte.gz.part";
    std::filesystem::remove(part);
    Command command = start({"mnist", "--to", folder_.path(), "--from", server_.url()});
    EXPECT_TRUE(eventually([&] {
      std::error_code ignored;
      return std::filesystem::exists(part) && std::filesystem::file_size(part, ignored) == 70'000;
    }));
    command.signal(number);
    expect_sentence(command.wait(), 128 + number, "interrupted after 70000 of 9912422 bytes");
    EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/train-images-idx3-ubyte.gz"));
  }
}

TEST_F(FetchCommand, AFullDiskIsOneSentence) {
  const auto on_small_disk = [&](const std::string& then) {
    return Words{"/bin/sh", "-c",
                 fmt::format("exec unshare -m sh -c 'mount -t tmpfs -o size=64k none {} && \"$@\"; code=$?; ls {}; "
                             "exit $code' sh \"$@\"",
                             folder_.path(), folder_.path()),
                 "sh", then};
  };
  if (Command(on_small_disk("true")).wait().exit_code != 0) GTEST_SKIP() << "needs root and mount namespaces";
  server_.put("train-images-idx3-ubyte.gz", {.body = std::string(kImages, 'x')});
  const Ended ended = start({"mnist", "--to", folder_.path(), "--from", server_.url()}, on_small_disk("env")).wait();
  expect_sentence(ended, 1, "No space left on device");
  EXPECT_EQ(ended.output, "");  // of ls: nothing is left
}

}  // namespace
}  // namespace paceline
