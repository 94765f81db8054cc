#include "paceline/server/table_spec.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "paceline/core/error.hpp"
#include "paceline/core/random.hpp"

namespace paceline {
namespace {

TableSpec dense() { return {.name = "w", .kind = TableSpec::Kind::dense, .rows = 10, .width = 3}; }
TableSpec sparse() { return {.name = "s", .width = 4}; }

std::string refusal(TableSpec spec, const std::function<void(TableSpec&)>& change) {
  change(spec);
  try {
    check(spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "";
}

TEST(TableSpec, ComesOutOfItsBytesAsItWentIn) {
  TableSpec rich = sparse();
  rich.rule = "adam:0.01";
  rich.init = "normal:0.1";
  rich.seed = ~std::uint64_t{0};
  rich.storage = DType::bf16;
  rich.divide_by_staleness = true;
  rich.admit_after = 3;
  rich.expire_after = 1000;
  rich.budget_bytes = std::uint64_t{1} << 40;
  TableSpec delayed = dense();
  delayed.compensation = 0.04;
  TableSpec shared = sparse();
  shared.balance_every = 100;
  for (const TableSpec& spec : {dense(), sparse(), rich, delayed, shared})
    EXPECT_EQ(decode_table_spec(encode(spec)), spec);
}

TEST(TableSpec, WhatCannotBeIsRefusedInASentenceThatNamesTheTable) {
  const auto names = [](const std::string& sentence, const char* part) {
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  };
  names(refusal(dense(), [](auto& s) { s.name.clear(); }), "needs a name");
  names(refusal(dense(), [](auto& s) { s.name.assign(257, 'x'); }), "needs a name");
  names(refusal(dense(), [](auto& s) { s.width = 0; }), "table 'w' has rows of 0 floats");
  names(refusal(dense(), [](auto& s) { s.rows = 0; }), "table 'w' is dense and has 0 rows");
  names(refusal(dense(), [](auto& s) { s.rows = ~std::uint64_t{0}; }), "table 'w' is dense and has");
  names(refusal(dense(), [](auto& s) { s.storage = DType::f16; }), "only sparse tables keep f16");
  names(refusal(dense(), [](auto& s) { s.storage = DType::i32; }), "something else than f32");
  names(refusal(dense(), [](auto& s) { s.admit_after = 1; }), "for sparse tables");
  names(refusal(dense(), [](auto& s) { s.compensation = std::nan(""); }), "delay compensation nan");
  names(refusal(dense(), [](auto& s) { s.compensation = -1; }), "delay compensation -1");
  names(refusal(sparse(), [](auto& s) { s.compensation = 1; }), "table 's' is sparse");
  names(refusal(sparse(), [](auto& s) { s.expire_after = -1; }), "expires after -1 clocks");
  names(refusal(sparse(), [](auto& s) { s.expire_after = std::int64_t{1} << 32; }), "expires after");
  names(refusal(sparse(), [](auto& s) { s.rule = "adamant"; }), "adamant");
  names(refusal(sparse(), [](auto& s) { s.init = "ones"; }), "ones");
}

TEST(TableSpec, BytesThatAreNotOneAreAnError) {
  const std::string whole = encode(sparse());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(decode_table_spec(std::string_view(whole).substr(0, size)), Error) << size;
  EXPECT_THROW(decode_table_spec(whole + "x"), Error);
  Random random(5);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = whole;
    for (std::uint64_t hits = 1 + random.below(4); hits > 0; --hits)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    try {
      check(decode_table_spec(bytes));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid) << error.what();
    }
  }
}

}  // namespace
}  // namespace paceline
