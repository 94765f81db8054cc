#include "paceline/cli/fetch.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "paceline/cli/download.hpp"
#include "paceline/cli/unpack.hpp"
#include "paceline/data/data_test_support.hpp"
#include "tests/fetch/http_server.hpp"

namespace paceline {
namespace {

using Words = std::vector<std::string>;

std::string content(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

Words names_in(const std::string& folder) {
  Words names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string sum_of(const std::string& text) {
  const TemporaryFolder folder;
  return sha256_of(folder.write("x", Bytes(text.begin(), text.end())));
}

std::string failure_of(const FetchSet& set, const FetchOptions& options, Code code = Code::system) {
  try {
    fetch(set, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "fetched";
}

// A set of one file, `a.gz`, and a folder for it.
class Fetch : public testing::Test {
 protected:
  Fetch() {
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    for (int i = 0; i < 300'000; ++i) body_.push_back(static_cast<char>(i * 7 + i / 256));
    set_ = {.name = "set", .from = server_.url(), .files = {{"a.gz", body_.size(), sum_of(body_)}}};
  }
  std::string path() const { return folder_.path() + "/a.gz"; }
  FetchOptions options() const { return {.to = folder_.path()}; }

  HttpServer server_;
  TemporaryFolder folder_;
  std::string body_;
  FetchSet set_;
};

TEST(Sha256, IsThatOfTheStandard) {  // FIPS 180-2, appendix B.1
  EXPECT_EQ(sum_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sum_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(FetchCatalogue, HasWholeChecksums) {
  for (const char* name : {"mnist", "fashion", "cifar10"}) {
    for (const FetchFile& file : find_fetch_set(name).files) {
      EXPECT_EQ(file.sha256.size(), 64U) << file.name;
      EXPECT_EQ(file.sha256.find_first_not_of("0123456789abcdef"), std::string::npos) << file.name;
    }
  }
  EXPECT_EQ(refusal([] { find_fetch_set("imagenet"); }),
            "'imagenet' cannot be fetched: there are mnist, fashion, cifar10");
}

TEST_F(Fetch, LeavesTheFileAndNothingElse) {
  server_.put("a.gz", {.body = body_});
  FetchOptions options = this->options();
  options.to += "/new/folder";
  std::uint64_t seen = 0;
  options.progress = [&](const FetchFile&, std::uint64_t done) { seen = done; };
  fetch(set_, options);
  EXPECT_EQ(content(options.to + "/a.gz"), body_);
  EXPECT_EQ(names_in(options.to), Words{"a.gz"});
  EXPECT_EQ(seen, body_.size());
}

TEST_F(Fetch, WhatIsThereAndRightIsLeftAlone) {
  server_.put("a.gz", {.body = body_});
  fetch(set_, options());
  fetch(set_, options());
  EXPECT_EQ(server_.requests(), Words{"a.gz"});
}

TEST_F(Fetch, WhatIsThereAndWrongIsFetchedAnew) {
  server_.put("a.gz", {.body = body_});
  folder_.write("a.gz", Bytes(body_.size()));
  fetch(set_, options());
  EXPECT_EQ(content(path()), body_);
}

TEST_F(Fetch, AnotherPlaceMayHaveTheFiles) {
  server_.put("mirror/a.gz", {.body = body_});
  FetchOptions options = this->options();
  options.from = server_.url() + "mirror";
  fetch(set_, options);
  EXPECT_EQ(content(path()), body_);
}

TEST_F(Fetch, GoesOnWhereTheConnectionBrokeOff) {
  server_.put("a.gz", {.body = body_, .stops_after = 100'000});
  EXPECT_TRUE(says(failure_of(set_, options()), "the connection broke off after 100000 of 300000 bytes of"));
  EXPECT_EQ(names_in(folder_.path()), Words{"a.gz.part"});
  server_.put("a.gz", {.body = body_});
  fetch(set_, options());
  EXPECT_EQ(content(path()), body_);
  EXPECT_EQ(server_.requests(), (Words{"a.gz", "a.gz from 100000"}));
  EXPECT_EQ(names_in(folder_.path()), Words{"a.gz"});
}

TEST_F(Fetch, BeginsAnewWhereTheServerCannotGoOn) {
  server_.put("a.gz", {.body = body_, .ranges = false});
  folder_.write("a.gz.part", Bytes(body_.begin(), body_.begin() + 1000));
  fetch(set_, options());
  EXPECT_EQ(content(path()), body_);
  EXPECT_EQ(server_.requests(), (Words{"a.gz from 1000", "a.gz"}));
}

TEST_F(Fetch, BeginsAnewWhereThePartIsOfAnotherFile) {
  server_.put("a.gz", {.body = body_});
  for (const std::size_t size : {std::size_t{1000}, body_.size(), body_.size() + 1}) {
    std::filesystem::remove(path());
    folder_.write("a.gz.part", Bytes(size, 1));
    fetch(set_, options());
    EXPECT_EQ(content(path()), body_);
    EXPECT_EQ(names_in(folder_.path()), Words{"a.gz"});
  }
}

TEST_F(Fetch, AWrongChecksumLeavesNothing) {
  std::string other = body_;
  other[1234] ^= 1;
  server_.put("a.gz", {.body = other});
  EXPECT_TRUE(says(failure_of(set_, options()), "has the SHA-256 sum " + sum_of(other) + " instead of"));
  EXPECT_EQ(names_in(folder_.path()), Words{});
}

TEST_F(Fetch, AnotherLengthLeavesNothing) {
  server_.put("a.gz", {.body = body_ + "x"});
  EXPECT_TRUE(says(failure_of(set_, options()), "is longer than the 300000 bytes that it should have"));
  EXPECT_EQ(names_in(folder_.path()), Words{});
  server_.put("a.gz", {.body = "short"});
  EXPECT_TRUE(says(failure_of(set_, options()), "has 5 bytes instead of 300000"));
  EXPECT_EQ(names_in(folder_.path()), Words{});
}

TEST_F(Fetch, AServersRefusalIsPassedOn) {
  EXPECT_TRUE(says(failure_of(set_, options()), "the server answers 404; --from URL names another place"));
  server_.put("a.gz", {.body = "", .status = 503});
  EXPECT_TRUE(says(failure_of(set_, options()), "the server answers 503"));
  EXPECT_EQ(names_in(folder_.path()), Words{});
}

TEST_F(Fetch, WithoutAConnectionItSaysSo) {
  FetchOptions options = this->options();
  { options.from = HttpServer().url(); }  // nobody listens there any more
  EXPECT_TRUE(says(failure_of(set_, options), "there is no connection"));
  EXPECT_EQ(names_in(folder_.path()), Words{});
  options.from = "ftp://127.0.0.1/";
  EXPECT_TRUE(says(failure_of(set_, options), "cannot fetch ftp://127.0.0.1/a.gz"));
}

TEST_F(Fetch, CanBeCancelled) {
  server_.put("a.gz", {.body = body_, .stops_after = 1000, .then = Page::Then::wait});
  FetchOptions options = this->options();
  bool some = false;
  options.progress = [&](const FetchFile&, std::uint64_t) { some = true; };
  options.cancelled = [&] { return some; };
  EXPECT_TRUE(says(failure_of(set_, options, Code::cancelled), "interrupted after 1000 of 300000 bytes"));
  EXPECT_EQ(names_in(folder_.path()), Words{"a.gz.part"});
}

TEST_F(Fetch, AFolderThatCannotBeMadeIsNamed) {
  folder_.write("file", {});
  FetchOptions options = this->options();
  options.to += "/file/below";
  EXPECT_TRUE(says(failure_of(set_, options, Code::invalid), "cannot make the folder " + options.to));
}

// One entry of a tar archive (POSIX.1-1988): a head of 512 bytes, then the content, filled up to blocks of 512.
std::string entry(const std::string& name, const std::string& body, char type = '0', const std::string& link = "") {
  std::string head(512, '\0');
  head.replace(0, name.size(), name);
  head.replace(100, 7, "0000644");
  head.replace(124, 11, fmt::format("{:011o}", body.size()));
  head.replace(136, 11, "00000000000");
  head.replace(148, 8, "        ");
  head[156] = type;
  head.replace(157, link.size(), link);
  head.replace(257, 8, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char letter : head) sum += static_cast<unsigned char>(letter);
  head.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  return head + body + std::string((512 - body.size() % 512) % 512, '\0');
}

class Unpack : public Fetch {
 protected:
  // Two empty blocks end an archive.
  std::string failure_of_unpacking(const std::string& entries, const std::string& end = std::string(1024, '\0')) {
    const Bytes packed = gzip(bytes_of(entries + end));
    const std::string archive = outside_.write("x.tar.gz", packed);
    try {
      unpack(archive, folder_.path(), files_, [] { return false; });
    } catch (const Error& error) {
      return error.what();
    }
    return "unpacked";
  }
  static Bytes bytes_of(const std::string& text) { return Bytes(text.begin(), text.end()); }

  TemporaryFolder outside_;
  std::vector<PackedFile> files_ = {{"one.bin", 3}, {"two.bin", 600}};
};

TEST_F(Unpack, TakesWhatIsWantedAndBelievesNoPath) {
  const std::string two(600, 'x');
  EXPECT_EQ(failure_of_unpacking(entry("set/", "", '5') + entry("set/readme", "hello") + entry("../../evil", "e") +
                                 entry("/var/../two.bin", two) + entry("set/one.bin", "abc")),
            "unpacked");
  EXPECT_EQ(names_in(folder_.path()), (Words{"one.bin", "two.bin"}));
  EXPECT_EQ(content(folder_.path() + "/one.bin"), "abc");
  EXPECT_EQ(content(folder_.path() + "/two.bin"), two);
}

TEST_F(Unpack, WhatIsMissingOrOfAnotherLengthIsRefused) {
  const std::string one = entry("one.bin", "abc");
  EXPECT_TRUE(says(failure_of_unpacking(one), "there is no file two.bin in"));
  EXPECT_TRUE(says(failure_of_unpacking(entry("two.bin", "short")), "two.bin in"));
  EXPECT_TRUE(says(failure_of_unpacking(entry("one.bin", "abcd")), "does not have the 3 bytes"));
  EXPECT_TRUE(says(failure_of_unpacking(entry("one.bin", "", '2', "/etc/passwd")), "there is no file one.bin in"));
  EXPECT_TRUE(says(failure_of_unpacking(entry("one.bin", "", '1', "/etc/passwd")), "there is no file one.bin in"));
  const std::string cut = entry("two.bin", std::string(600, 'x')).substr(0, 700);
  EXPECT_TRUE(says(failure_of_unpacking(cut, ""), "cannot unpack"));
  EXPECT_EQ(names_in(folder_.path()), Words{"one.bin"});
}

TEST_F(Unpack, AnArchiveIsFetchedUnpackedAndRemoved) {
  const std::string entries = entry("set/one.bin", "abc") + entry("set/two.bin", std::string(600, 'x'));
  const Bytes packed = gzip(bytes_of(entries + std::string(1024, '\0')));
  const std::string body(packed.begin(), packed.end());
  const FetchSet set{
      .name = "set", .from = server_.url(), .files = {{"x.tar.gz", body.size(), sum_of(body)}}, .packed = files_};
  server_.put("x.tar.gz", {.body = body});
  fetch(set, options());
  EXPECT_EQ(names_in(folder_.path()), (Words{"one.bin", "two.bin"}));
  fetch(set, options());
  EXPECT_EQ(server_.requests(), Words{"x.tar.gz"});
}

}  // namespace
}  // namespace paceline
