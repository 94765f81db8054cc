// What cannot be done is refused with one sentence and exit code 2, before workers start.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "tests/train/train_run.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;

struct Refusal {
  const char* name;
  Words words;
  const char* says;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class Refused : public testing::TestWithParam<Refusal> {};

// Workers write into the folder as soon as they are there, and the launcher says so when they end.
void expect_refused(const TrainRun& run, const Words& words, const std::string& says) {
  const Ended ended = run.start(words).wait();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.output, "");
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, says)) << ended.errors;
  EXPECT_FALSE(fs::exists(run.path("config.json")));
  run.expect_nothing_left();
}

TEST_P(Refused, WithOneSentence) {
  const TrainRun run;
  expect_refused(run, small_run(GetParam().words), GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    Words, Refused,
    testing::Values(
        Refusal{"Model", {"--model", "resnet"}, "resnet"},
        Refusal{"OptionTwice", {"--epochs", "1", "--epochs", "2"}, "--epochs is given 2 times; once is enough"},
        Refusal{"SettingOfAnOptimizer", {"--optimizer", "sgd:beta=1"}, "beta"},
        Refusal{"NumberOfASchedule", {"--schedule", "step:x"}, "step:x"},
        Refusal{"Augmentation", {"--augment", "rotate"}, "rotate"},
        Refusal{"Noise", {"--noise", "fisher:8"}, "fisher:8"},
        Refusal{"NoiseOfALargerBatch", {"--noise", "fisher-diag:5000"}, "5000"},
        Refusal{"NoiseOfALateGradient", {"--noise", "fisher-diag:8", "--when", "delayed:1"}, "delayed"},
        Refusal{"StreamOfLateGradients", {"--online", "100", "--when", "delayed:1"}, "--online"},
        Refusal{"Delay", {"--when", "delayed:0"}, "delayed"},
        Refusal{"AsynchronousRing", {"--where", "ring", "--when", "async"}, "use where=gossip when=async"},
        Refusal{"SynchronousHogwild", {"--where", "hogwild", "--when", "bsp"}, "use where=hogwild when=async"},
        Refusal{"HogwildOnSeveralHosts", {"--where", "hogwild", "--hosts", "a:1,b:1"}, "--where gossip"},
        Refusal{"NoiseWithoutAGradientOfAll", {"--noise", "fisher-diag:8", "--when", "local:2"}, "--when bsp"},
        Refusal{"StreamOfLocalSteps", {"--online", "100", "--when", "local:2"}, "--online"},
        Refusal{"PostLocalAlone", {"--post-local", "2"}, "--when local"},
        Refusal{"MomentumOfAveragesAlone", {"--slow-momentum", "0.5"}, "when=local"},
        Refusal{"ParticipationAlone", {"--participate", "50%"}, "when=local"},
        Refusal{"Participation", {"--when", "local:2", "--participate", "150%"}, "150%"},
        Refusal{"Shard", {"--shard", "by-size"}, "by-size"},
        Refusal{"Handicap", {"--handicap", "random"}, "random:FACTOR"},
        Refusal{"HandicapOfNobody", {"--handicap", "fixed:2:3"}, "worker 2"},
        Refusal{"GhostsWithoutBatchNorm", {"--ghost-batch", "8"}, "batch norm"},
        Refusal{"WeightsThatAreNotThere", {"--init", "/no/such/file"}, "/no/such/file"},
        Refusal{"Precision", {"--precision", "fp8"}, "fp8"},
        Refusal{"TextForImages", {"--model", "transformer"}, "transformer"},
        Refusal{"ModelForSmallImages", {"--model", "lenet"}, "lenet needs images of at least 12x12"},
        Refusal{"Data", {"--data", "imagenet"}, "imagenet"},
        Refusal{"MissingFolder", {"--data", "mnist:/no/such/folder"}, "/no/such/folder"},
        Refusal{"BatchLargerThanData", {"--batch", "2000"}, "1497"},
        Refusal{"MoreWorkersThanExamples", {"--workers", "1498", "--batch", "1"}, "1498 workers"},
        Refusal{"FolderBelowAFile", {"--out", "/etc/passwd/run"}, "/etc/passwd"},
        Refusal{"FolderInProc", {"--out", "/proc/x/run"}, "/proc/x"},
        Refusal{"NothingToResume", {"--resume"}, "no checkpoint"}, Refusal{"Until", {"--until", "speed=3"}, "speed=3"},
        Refusal{"UntilAbove1", {"--until", "accuracy=12"}, "accuracy=12"},
        Refusal{"Valid", {"--valid", "110%"}, "110%"}, Refusal{"Where", {"--where", "moon"}, "moon"},
        Refusal{"Flag", {"--no-such-flag"}, "--no-such-flag"}, Refusal{"Optimizer", {"--optimizer", "lion"}, "lion"},
        Refusal{"Schedule", {"--schedule", "linear"}, "linear"}, Refusal{"Bucket", {"--bucket", "3zz"}, "3zz"},
        Refusal{"LrNan", {"--lr", "nan"}, "--lr"}, Refusal{"LrInf", {"--lr", "inf"}, "--lr"},
        Refusal{"LrWord", {"--lr", "fast"}, "--lr"},
        Refusal{"WeightDecayNan", {"--weight-decay", "nan"}, "--weight-decay"},
        Refusal{"ClipNan", {"--clip", "nan"}, "--clip"}, Refusal{"EpochsNone", {"--epochs", "0"}, "--epochs"}),
    [](const auto& test) { return test.param.name; });

TEST_F(Refused, AFolderThatHoldsARunAlready) {
  const TrainRun run;
  run.train(small_run({"--steps", "1"}));
  const std::string config = bytes_of(run.path("config.json"));
  const Ended ended = run.start(small_run({"--steps", "2"})).wait();
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(ended.output, "");
  expect_one_sentence(ended.errors);
  EXPECT_TRUE(contains(ended.errors, run.folder() + " holds a run already")) << ended.errors;
  EXPECT_EQ(bytes_of(run.path("config.json")), config);
}

// ---- files of data

std::string big_endian(std::initializer_list<std::uint32_t> numbers) {
  std::string bytes;
  for (const std::uint32_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  }
  return bytes;
}

// The four files of MNIST with 64 images of 4x4 each; a test then spoils one.
class RefusedData : public testing::Test {
 protected:
  RefusedData() {
    fs::create_directories(data_);
    for (const std::string part : {"train", "t10k"}) {
      write(part + "-images-idx3-ubyte", big_endian({0x803, 64, 4, 4}) + std::string(64 * 16, 'x'));
      write(part + "-labels-idx1-ubyte", big_endian({0x801, 64}) + std::string(64, '\3'));
    }
  }
  ~RefusedData() override { fs::remove_all(data_); }

  void write(const std::string& file, const std::string& bytes) const {
    std::ofstream(data_ + "/" + file, std::ios::binary) << bytes;
  }
  Words words() const {
    return {"--model", "softmax", "--data", "mnist:" + data_, "--workers", "2", "--batch", "8", "--epochs", "1"};
  }
  void expect_refused_for(const std::string& file) const { expect_refused(run_, words(), data_ + "/" + file); }

  TrainRun run_;
  const std::string data_ = run_.folder() + "_data";
};

TEST_F(RefusedData, NotTheGood) { run_.train(words()); }

TEST_F(RefusedData, TruncatedGzip) {
  const std::string file = "train-images-idx3-ubyte";
  const std::string path = data_ + "/" + file + ".gz";
  const std::string plain = bytes_of(data_ + "/" + file);
  gzFile stream = gzopen(path.c_str(), "wb");
  gzwrite(stream, plain.data(), static_cast<unsigned>(plain.size()));
  gzclose(stream);
  fs::remove(data_ + "/" + file);
  fs::resize_file(path, fs::file_size(path) / 2);
  expect_refused_for(file + ".gz");
}

TEST_F(RefusedData, WrongMagic) {
  write("train-labels-idx1-ubyte", big_endian({0x802, 64}) + std::string(64, '\3'));
  expect_refused_for("train-labels-idx1-ubyte");
}

TEST_F(RefusedData, LabelOutOfRange) {
  write("t10k-labels-idx1-ubyte", big_endian({0x801, 64}) + std::string(63, '\3') + '\12');
  expect_refused_for("t10k-labels-idx1-ubyte");
}

TEST_F(RefusedData, FileThatEndsEarly) {
  write("t10k-images-idx3-ubyte", big_endian({0x803, 64, 4, 4}) + std::string(100, 'x'));
  expect_refused_for("t10k-images-idx3-ubyte");
}

TEST_F(RefusedData, MissingFile) {
  fs::remove(data_ + "/train-labels-idx1-ubyte");
  expect_refused_for("train-labels-idx1-ubyte");
}

}  // namespace
}  // namespace paceline
