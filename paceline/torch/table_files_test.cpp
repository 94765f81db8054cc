#include "paceline/torch/table_files.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <numeric>

#include "paceline/core/error.hpp"
#include "paceline/server/server_test_support.hpp"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using server_test::run_job;

const TableSpec kDense{.name = "d", .kind = TableSpec::Kind::dense, .rows = 70'000, .rule = "momentum:0.1"};
const TableSpec kSparse{.name = "s", .width = 3, .rule = "adam:0.1", .init = "normal:0.1"};

class TableFiles : public testing::Test {
 protected:
  TableFiles() {
    std::string pattern = testing::TempDir() + "paceline_tables_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    keys_.resize(500);
    std::iota(keys_.begin(), keys_.end(), 7);
  }
  ~TableFiles() override { fs::remove_all(folder_); }

  std::string path(const char* name = "tables.rows") const { return folder_ + "/" + name; }
  void on_servers(int servers, const std::function<void(Session&)>& body) const {
    run_job({.servers = servers, .policy = parse_policy("async")}, [&](Session& session, Endpoint&) { body(session); });
  }
  // Two steps of both tables.
  void train(Table& dense, Table& sparse) const {
    for (int step = 0; step < 2; ++step) {
      dense.push(RowRange{0, kDense.rows}, std::vector<float>(kDense.rows, 1)).wait();
      sparse.push(keys_, std::vector<float>(3 * keys_.size(), 0.5F)).wait();
    }
  }
  std::vector<float> values(Table& dense, Table& sparse) const {
    std::vector<float> all(kDense.rows + 3 * keys_.size());
    dense.pull(RowRange{0, kDense.rows}, std::span(all).first(kDense.rows)).wait();
    sparse.pull(keys_, std::span(all).subspan(kDense.rows)).wait();
    return all;
  }
  // Saves both as they are after two steps, while two more are made; returns what they are then.
  std::vector<float> write() const {
    std::vector<float> then;
    on_servers(2, [&](Session& session) {
      Table dense = session.open(kDense), sparse = session.open(kSparse);
      train(dense, sparse);
      TablesSnapshot snapshot({dense, sparse});
      train(dense, sparse);
      then = values(dense, sparse);
      RowsFileWriter file(path());
      snapshot.write(file);
      file.publish();
    });
    return then;
  }
  std::string refusal(const TableSpec& spec) const {
    std::string sentence;
    on_servers(1, [&](Session& session) {
      const Table table = session.open(spec);
      try {
        restore_tables(path(), {table});
      } catch (const Error& error) {
        sentence = error.what();
      }
    });
    return sentence;
  }

  std::string folder_;
  std::vector<std::uint64_t> keys_;
};

TEST_F(TableFiles, GoBackOntoOtherServersAndOnFromThere) {
  const std::vector<float> straight = write();
  on_servers(3, [&](Session& session) {
    Table dense = session.open(kDense), sparse = session.open(kSparse);
    EXPECT_TRUE(restore_tables(path(), {dense, sparse}).empty());
    train(dense, sparse);
    EXPECT_EQ(values(dense, sparse), straight);
  });
}

TEST_F(TableFiles, TellWhatTheyDoNotHaveAndRestoreTheRest) {
  write();
  on_servers(2, [&](Session& session) {
    TableSpec other = kSparse;
    other.name = "other";
    Table dense = session.open(kDense), more = session.open(other);
    EXPECT_EQ(restore_tables(path(), {more, dense}), std::vector<std::string>{"other"});
    float value = 0;
    dense.pull(RowRange{5, 6}, {&value, 1}).wait();
    EXPECT_NE(value, 0);
  });
}

TEST_F(TableFiles, OfTablesThatDifferAreRefusedByName) {
  write();
  TableSpec spec = kSparse;
  spec.width = 4;
  EXPECT_NE(refusal(spec).find(path() + " cannot be used: its table 's'"), std::string::npos) << refusal(spec);
  spec = kSparse;
  spec.rule = "adagrad:0.1";
  EXPECT_NE(refusal(spec).find("its table 's'"), std::string::npos);
  spec = kDense;
  spec.rows = 69'999;
  EXPECT_NE(refusal(spec).find("its table 'd'"), std::string::npos);
  spec = kSparse;
  spec.rule = "adam:0.2,beta1=0.8";  // rates may change
  EXPECT_EQ(refusal(spec), "");
}

TEST_F(TableFiles, ThatSayOtherThanTheyHoldAreRefused) {
  const auto write_records = [&](const std::vector<RowsFileReader::Record>& records) {
    RowsFileWriter file(path());
    for (const auto& record : records) file.append(record.name, record.content);
    file.publish();
  };
  const std::string description = R"([{"name":"s","kind":"sparse","width":3,"rule":"adam:0.1"}])";
  const std::string piece = encode(TablePiece{});
  write_records({{"s", piece}});
  EXPECT_NE(refusal(kSparse).find("does not say what tables"), std::string::npos);
  write_records({{"tables", "nonsense"}});
  EXPECT_NE(refusal(kSparse).find("cannot be used"), std::string::npos);
  write_records({{"tables", R"([{"name":"s","kind":"sparse","width":0,"rule":"adam"}])"}});
  EXPECT_NE(refusal(kSparse).find("cannot be used"), std::string::npos);
  write_records({{"tables", description}, {"other", piece}});
  EXPECT_NE(refusal(kSparse).find("rows of 'other'"), std::string::npos);
  write_records({{"tables", description}, {"s", "nonsense"}});
  EXPECT_NE(refusal(kSparse).find("malformed"), std::string::npos);
  write_records({{"tables", description}, {"s", encode(TablePiece{.rows = {.keys = {1}, .values = {1, 2}}})}});
  EXPECT_NE(refusal(kSparse).find("not 2, 0 and 0"), std::string::npos) << refusal(kSparse);
  write_records({{"tables", description}, {"s", piece}});
  EXPECT_EQ(refusal(kSparse), "");
}

TEST_F(TableFiles, ValuesAreCopiedWithoutWhatRulesRemember) {
  write();
  copy_values(path(), path("values.rows"), {"s"});
  EXPECT_LT(fs::file_size(path("values.rows")), 500 * (8 + 3 * 4) + 500);
  std::map<std::uint64_t, float> firsts;
  read_values(path("values.rows"), {kSparse}, [&](std::size_t table, const TablePiece& piece) {
    EXPECT_EQ(table, 0u);
    for (std::size_t row = 0; row < piece.rows.keys.size(); ++row)
      firsts[piece.rows.keys[row]] = piece.rows.values[3 * row];
  });
  EXPECT_EQ(firsts.size(), keys_.size());
  on_servers(1, [&](Session& session) {
    Table sparse = session.open(kSparse);
    restore_tables(path(), {sparse});
    std::vector<float> rows(3 * keys_.size());
    sparse.pull(keys_, rows).wait();
    for (std::size_t i = 0; i < keys_.size(); ++i) EXPECT_EQ(firsts.at(keys_[i]), rows[3 * i]);
  });
  EXPECT_THROW(copy_values(path(), path("none"), {"t"}), Error);
  EXPECT_THROW(read_values(path("values.rows"), {kDense}, [](auto, const auto&) {}), Error);
  EXPECT_FALSE(fs::exists(path("none")));
}

}  // namespace
}  // namespace paceline
