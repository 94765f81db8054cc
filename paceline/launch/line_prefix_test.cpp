#include "paceline/launch/line_prefix.hpp"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(LinePrefix, EachLineBeginsWithThePrefix) {
  LinePrefix lines("[2] ");
  EXPECT_EQ(lines.feed("one\ntwo\n\n"), "[2] one\n[2] two\n[2] \n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(LinePrefix, ALineInPiecesComesOutWhole) {
  LinePrefix lines("[0] ");
  std::string shown;
  for (const char c : std::string("torn\nline\n")) shown += lines.feed({&c, 1});
  EXPECT_EQ(shown, "[0] torn\n[0] line\n");
}

TEST(LinePrefix, TheLastLineIsShownAlsoWithoutItsEnd) {
  LinePrefix lines("[1] ");
  EXPECT_EQ(lines.feed("a\nlast"), "[1] a\n");
  EXPECT_EQ(lines.finish(), "[1] last\n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(LinePrefix, AnEndlessLineIsShownInParts) {
  LinePrefix lines("> ");
  const std::string part(LinePrefix::kMaxLine, 'x');
  EXPECT_EQ(lines.feed(part + part + "y\n"), "> " + part + "\n> " + part + "\n> y\n");
}

TEST(LinePrefix, BytesThatAreNotTextPassThrough) {
  LinePrefix lines("");
  const std::string bytes("\0\xff\r\x1b[0m\n", 8);
  EXPECT_EQ(lines.feed(bytes), bytes);
}

}  // namespace
}  // namespace paceline
