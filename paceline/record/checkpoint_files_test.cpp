#include "paceline/record/checkpoint_files.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "paceline/core/clock.hpp"
#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"
#include "paceline/record/atomic_file.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    std::string pattern = testing::TempDir() + "paceline_checkpoint_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~FolderTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_)) result.push_back(entry.path().filename());
    std::sort(result.begin(), result.end());
    return result;
  }

  std::string folder_;
};

using AtomicFileTest = FolderTest;
class CheckpointFilesTest : public FolderTest {
 protected:
  void save(int keep, std::int64_t step, std::size_t count = 4) const {
    const std::vector<float> values(count, static_cast<float>(step));
    const NamedArray arrays[] = {{"w", "F32", {static_cast<std::int64_t>(count)}, std::as_bytes(std::span(values))},
                                 {"none", "I64", {0}, {}}};
    CheckpointFiles(folder_, keep).save(step, {{"epoch", step}, {"text", "\"checksum\":\""}}, arrays);
  }
  void save_pieces(int keep, std::int64_t step) const {
    const float value = static_cast<float>(step);
    std::vector<NamedArray> arrays = {{"w", "F32", {}, std::as_bytes(std::span(&value, 1))}};
    for (int i = 0; i < 2000; ++i) arrays.push_back({std::to_string(i), "F32", {}, arrays[0].bytes});
    CheckpointFiles(folder_, keep).save(step, {{"epoch", step}}, arrays);
  }
  // The step of the newest good checkpoint, -1 if there is none.
  std::int64_t latest() {
    refused_.clear();
    const auto found =
        CheckpointFiles(folder_, 1).load_latest([this](const std::string& sentence) { refused_.push_back(sentence); });
    if (!found) return -1;
    EXPECT_EQ(found->state.at("epoch"), found->step);
    EXPECT_TRUE(holds(*found));
    return found->step;
  }
  // All that save put into it.
  static bool holds(const Checkpoint& checkpoint) {
    const NamedArray* array = checkpoint.arrays.find("w");
    if (!array || array->dtype != "F32") return false;
    std::vector<float> values(array->bytes.size() / sizeof(float));
    std::copy(array->bytes.begin(), array->bytes.end(), std::as_writable_bytes(std::span(values)).begin());
    return values == std::vector<float>(values.size(), static_cast<float>(checkpoint.step));
  }
  // The sentence with which a file is refused, "" if it is not.
  std::string refusal(const std::string& name) const {
    try {
      CheckpointFiles(folder_, 1).load(path(name));
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid) << error.what();
      EXPECT_NE(std::string(error.what()).find(path(name)), std::string::npos) << error.what();
      return error.what();
    }
  }

  std::vector<std::string> refused_;
};

// Runs `work` in a child and gives its status; the child ends without this process's destructors.
template <class Work>
int in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      _exit(work() ? 0 : 1);
    } catch (...) {
      _exit(2);
    }
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

// The error that `work` throws, by its code and by a word of its sentence.
template <class Work>
bool throws(Code code, const std::string& word, Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code() == code && std::string(error.what()).find(word) != std::string::npos;
  }
  return false;
}

// A disk with room for 4 KiB per file.
void fill_disk() {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{4096, 4096};
  setrlimit(RLIMIT_FSIZE, &limit);
}

TEST_F(AtomicFileTest, IsReadAsWrittenAndReplaced) {
  for (const std::string& text : {std::string("first"), std::string(), std::string(100'000, 'x') + '\0' + "end"}) {
    write_atomically(path("a"), text);
    EXPECT_EQ(read_file(path("a")), text);
  }
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(AtomicFileTest, HasTheRightsThatTheUserGivesToNewFiles) {
  write_atomically(path("a"), "text");
  put("b", "text");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::status(path("b")).permissions());
}

TEST_F(AtomicFileTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  write_atomically(path("a"), "old");
  const auto work = [this] {
    fill_disk();
    return throws(Code::system, path("a"), [this] { write_atomically(path("a"), std::string(10'000, 'x')); });
  };
  EXPECT_EQ(in_child(work), 0);
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(AtomicFileTest, AnErrorNamesThePath) {
  EXPECT_TRUE(throws(Code::system, path("no/a"), [this] { write_atomically(path("no/a"), "text"); }));
  EXPECT_TRUE(throws(Code::system, path("no"), [this] { read_file(path("no")); }));
  EXPECT_TRUE(throws(Code::system, folder_, [this] { read_file(folder_); }));
}

TEST_F(AtomicFileTest, NeverTakesThePlaceOfAFolderOrADevice) {
  fs::create_directory(path("folder"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(throws(Code::invalid, path("folder"), [this] { write_atomically(path("folder"), "text"); }));
  EXPECT_TRUE(throws(Code::invalid, path("pipe"), [this] { write_atomically(path("pipe"), "text"); }));
  EXPECT_TRUE(throws(Code::system, path("pipe"), [this] { read_file(path("pipe")); }));
}

TEST_F(AtomicFileTest, FilesWithoutASizeAreRead) {
  EXPECT_NE(read_file("/proc/self/status").find("Pid"), std::string::npos);
}

TEST_F(AtomicFileTest, AWritableFolderIsMadeAndLeftEmpty) {
  for (const char* name : {"a/b/c", "d/e/", ""}) require_writable_folder(path(name));
  EXPECT_TRUE(fs::is_empty(path("a/b/c")));
  EXPECT_TRUE(fs::is_empty(path("d/e")));
}

TEST_F(AtomicFileTest, AFolderThatCannotBeUsedIsRefusedByName) {
  put("file", "");
  for (const std::string& name : {path("file"), path("file/inside")}) {
    EXPECT_TRUE(throws(Code::invalid, name, [&] { require_writable_folder(name); }));
  }
  EXPECT_TRUE(throws(Code::invalid, "empty", [] { require_writable_folder(""); }));
}

TEST_F(AtomicFileTest, AFolderWithoutPermissionIsRefused) {
  write_atomically(path("a"), "old");
  fs::permissions(folder_, fs::perms(0555));
  const auto work = [this] {
    const uid_t nobody = 65534;
    if (getuid() == 0 && setresuid(nobody, nobody, nobody) != 0) _exit(77);
    return throws(Code::system, "may use", [this] { write_atomically(path("a"), "new"); }) &&
           throws(Code::invalid, folder_, [this] { require_writable_folder(folder_); }) &&
           throws(Code::invalid, path("new"), [this] { require_writable_folder(path("new")); }) &&
           throws(Code::system, folder_, [this] { CheckpointFiles(folder_, 1).save(1, {}, {}); });
  };
  const int status = in_child(work);
  fs::permissions(folder_, fs::perms(0755));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this superuser cannot become an ordinary user";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(CheckpointFilesTest, ComesBackWithStepStateAndArrays) {
  save(2, 123);
  const auto found = CheckpointFiles(folder_, 2).load_latest(nullptr);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 123);
  EXPECT_EQ(found->path, path("step-000000123.ckpt"));
  EXPECT_EQ(found->state, json({{"epoch", 123}, {"text", "\"checksum\":\""}}));
  EXPECT_TRUE(holds(*found));
  EXPECT_EQ(found->arrays.arrays().size(), 2u);
}

TEST_F(CheckpointFilesTest, AFolderThatIsNotThereIsEmptyAndSaveMakesIt) {
  CheckpointFiles files(path("a/b"), 1);
  EXPECT_FALSE(files.load_latest(nullptr));
  EXPECT_TRUE(files.list().empty());
  EXPECT_FALSE(fs::exists(path("a")));
  files.save(0, {}, {});
  EXPECT_EQ(files.load_latest(nullptr)->step, 0);
}

TEST_F(CheckpointFilesTest, TheSameStepIsReplaced) {
  CheckpointFiles files(folder_, 3);
  files.save(7, {{"try", 1}}, {});
  files.save(7, {{"try", 2}}, {});
  EXPECT_EQ(files.list().size(), 1u);
  EXPECT_EQ(files.load_latest(nullptr)->state.at("try"), 2);
}

TEST_F(CheckpointFilesTest, TheLastOnesAreKept) {
  for (std::int64_t step = 8; step <= 12; ++step) save(3, step);
  const std::vector<std::string> expected = {path("step-000000012.ckpt"), path("step-000000011.ckpt"),
                                             path("step-000000010.ckpt")};
  EXPECT_EQ(CheckpointFiles(folder_, 3).list(), expected);
  save(1, 13);
  EXPECT_EQ(names(), std::vector<std::string>{"step-000000013.ckpt"});
}

TEST_F(CheckpointFilesTest, OrderIsThatOfStepsNotOfNames) {
  for (const std::int64_t step : {std::int64_t{999'999'999}, std::int64_t{1'000'000'000}, INT64_MAX}) save(9, step);
  EXPECT_EQ(latest(), INT64_MAX);
  save(2, INT64_MAX);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-1000000000.ckpt", "step-9223372036854775807.ckpt"}));
}

// Were the later file counted, the fresh checkpoint would be the one to go.
TEST_F(CheckpointFilesTest, ARunThatWentBackKeepsWhatItSaves) {
  put("step-000000300.ckpt", "damaged");
  save(1, 100);
  save(1, 200);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000000200.ckpt", "step-000000300.ckpt"}));
  EXPECT_EQ(latest(), 200);
  save(1, 300);
  EXPECT_EQ(names(), std::vector<std::string>{"step-000000300.ckpt"});
}

TEST_F(CheckpointFilesTest, StrangeNamesAreNeitherLoadedNorRemoved) {
  const std::vector<std::string> strange = {"step-.ckpt",
                                            "step-1.ckpt",
                                            "step--00000001.ckpt",
                                            "step-00000000x.ckpt",
                                            "step-99999999999999999999.ckpt",
                                            "step-0000000001.ckpt",
                                            "step-000000001.ckpt.bak",
                                            "step-.ckpt.tmp-1",
                                            "ckpt",
                                            "notes.txt.tmp-1"};
  for (const std::string& name : strange) put(name, "text");
  fs::create_directory(path("step-000000099.ckpt"));
  ASSERT_EQ(mkfifo(path("step-000000098.ckpt").c_str(), 0600), 0);
  for (std::int64_t step = 1; step <= 3; ++step) save(1, step);
  EXPECT_EQ(CheckpointFiles(folder_, 1).list(), std::vector<std::string>{path("step-000000003.ckpt")});
  EXPECT_EQ(latest(), 3);
  EXPECT_TRUE(refused_.empty());
  EXPECT_EQ(names().size(), strange.size() + 3);
}

TEST_F(CheckpointFilesTest, LeftOversOfACrashAreRemoved) {
  put("step-000000005.ckpt.tmp-4711-0", "part");
  put("step-000000001.ckpt.tmp-1-3", "");
  EXPECT_EQ(latest(), -1);
  save(1, 6);
  EXPECT_EQ(names(), std::vector<std::string>{"step-000000006.ckpt"});
}

TEST_F(CheckpointFilesTest, AFlippedBitAnywhereIsFound) {
  save(1, 1);
  const std::string name = "step-000000001.ckpt";
  const std::string bytes = read_file(path(name));
  // Changed in place: some file systems sync a file that is emptied and written again, 4000 times over.
  std::fstream file(path(name), std::ios::binary | std::ios::in | std::ios::out);
  const auto change = [&](std::size_t at, int flip) {
    file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(bytes[at] ^ flip)).flush();
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      change(i, 1 << bit);
      EXPECT_NE(refusal(name), "") << "bit " << bit << " of byte " << i;
    }
    change(i, 0);
  }
  EXPECT_EQ(refusal(name), "");
}

TEST_F(CheckpointFilesTest, ATruncatedOrLongerFileIsRefusedAtEveryLength) {
  save(1, 1);
  const std::string name = "step-000000001.ckpt";
  const std::string bytes = read_file(path(name));
  for (std::size_t length = bytes.size(); length-- > 0;) {
    fs::resize_file(path(name), length);
    EXPECT_NE(refusal(name).find("truncated"), std::string::npos) << length;
  }
  put(name, bytes + "x");
  EXPECT_NE(refusal(name), "");
}

TEST_F(CheckpointFilesTest, TheOneBeforeIsUsedWhenTheNewestAreDamaged) {
  for (std::int64_t step = 1; step <= 4; ++step) save(4, step);
  std::string bytes = read_file(path("step-000000004.ckpt"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  put("step-000000004.ckpt", bytes);
  put("step-000000003.ckpt", "Dear diary, today I trained a model.");
  EXPECT_EQ(latest(), 2);
  ASSERT_EQ(refused_.size(), 2u);
  EXPECT_EQ(refused_[0], path("step-000000004.ckpt") +
                             " cannot be loaded: its checksum does not match, it is damaged; use an earlier one");
  EXPECT_NE(refused_[1].find(path("step-000000003.ckpt")), std::string::npos);
}

TEST_F(CheckpointFilesTest, NothingIsLoadedWhenAllAreDamaged) {
  put("step-000000001.ckpt", "");
  put("step-000000002.ckpt", std::string(1000, '\xff'));
  EXPECT_EQ(latest(), -1);
  EXPECT_EQ(refused_.size(), 2u);
}

TEST_F(CheckpointFilesTest, FilesOfOthersAreRefusedWithTheReason) {
  const std::string digits(32, '0');
  const auto reason = [this](const std::map<std::string, std::string>& metadata) {
    write_safetensors(path("other"), {}, metadata);
    return refusal("other");
  };
  EXPECT_NE(reason({}).find("not a paceline checkpoint"), std::string::npos);
  EXPECT_NE(reason({{"format", "pt"}}).find("not a paceline checkpoint"), std::string::npos);
  EXPECT_NE(reason({{"format", "paceline checkpoint 3"}}).find("later format 3"), std::string::npos);
  EXPECT_NE(reason({{"format", "paceline checkpoint 1"}}).find("checksum"), std::string::npos);
  EXPECT_NE(reason({{"format", "paceline checkpoint 1"}, {"checksum", ""}}).find("checksum"), std::string::npos);
  EXPECT_NE(reason({{"format", "paceline checkpoint 1"}, {"checksum", digits}}).find("checksum"), std::string::npos);
}

TEST_F(CheckpointFilesTest, WhatCannotBeSavedIsRefused) {
  CheckpointFiles files(folder_, 1);
  json deep;
  for (int i = 0; i < 100; ++i) deep = json::array({deep});
  EXPECT_TRUE(throws(Code::invalid, "step -1", [&] { files.save(-1, {}, {}); }));
  EXPECT_TRUE(throws(Code::invalid, "NaN", [&] { files.save(1, {{"loss", std::nan("")}}, {}); }));
  EXPECT_TRUE(throws(Code::invalid, "NaN", [&] { files.save(1, {{"best", INFINITY}}, {}); }));
  EXPECT_TRUE(throws(Code::invalid, "deep", [&] { files.save(1, deep, {}); }));
  EXPECT_TRUE(throws(Code::invalid, "UTF-8", [&] { files.save(1, {{"name", "\xff"}}, {}); }));
  EXPECT_TRUE(throws(Code::invalid, "keep", [this] { CheckpointFiles(folder_, 0); }));
  EXPECT_TRUE(names().empty());
}

TEST_F(CheckpointFilesTest, AFullDiskLeavesTheFolderAsItWas) {
  save(1, 1);
  const auto work = [this] {
    fill_disk();
    return throws(Code::system, "step-000000002.ckpt", [this] { save(1, 2, 100'000); });
  };
  EXPECT_EQ(in_child(work), 0);
  EXPECT_EQ(names(), std::vector<std::string>{"step-000000001.ckpt"});
  EXPECT_EQ(latest(), 1);
}

// A child saves without end and tells each step once it is saved; it dies somewhere in the next one. Many small arrays
// are many writes, so that it often dies between two of them.
TEST_F(CheckpointFilesTest, AKilledWriterLeavesAlwaysAGoodNewestOne) {
  Random random(1);
  const SteadyClock clock;
  std::int64_t told = 0;
  for (int round = 0; round < 15; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      for (std::int64_t step = told + 1;; ++step) {
        save_pieces(2, step);
        if (write(ends[1], &step, sizeof(step)) != sizeof(step)) _exit(1);
      }
    }
    close(ends[1]);
    // At a moment spread over the time that one save takes here and now.
    ASSERT_EQ(read(ends[0], &told, sizeof(told)), ssize_t{sizeof(told)});
    const TimePoint start = clock.now();
    ASSERT_EQ(read(ends[0], &told, sizeof(told)), ssize_t{sizeof(told)});
    usleep(static_cast<useconds_t>(1e6 * random.uniform() * seconds(clock.now() - start)));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    while (read(ends[0], &told, sizeof(told)) > 0) {
    }
    close(ends[0]);
    const std::int64_t found = latest();
    EXPECT_TRUE(found == told || found == told + 1) << found << " after " << told;
    EXPECT_TRUE(refused_.empty()) << refused_.front();
    told = found;
  }
  save(2, told + 1);
  EXPECT_EQ(names().size(), 2u);
}

TEST(HashBytes, IsXxh3) {
  // The reference implementation's value for no bytes at all.
  EXPECT_EQ(hash_bytes({}), 0x2d06800538d394c2ULL);
  const std::string a = "a", b = "b";
  EXPECT_NE(hash_bytes(std::as_bytes(std::span(a))), hash_bytes(std::as_bytes(std::span(b))));
}

}  // namespace
}  // namespace paceline
