#include "paceline/launch/line_reader.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace paceline {
namespace {

std::vector<std::string> lines_of(LineReader& reader) {
  std::vector<std::string> lines;
  while (auto line = reader.next()) lines.push_back(*line);
  return lines;
}

TEST(LineReader, LinesAreTheSameHoweverTheyAreCut) {
  const std::string text = "one\n\ntwo\nthree";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    LineReader reader(100);
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      reader.add(text.substr(at, piece));
      for (const std::string& line : lines_of(reader)) lines.push_back(line);
    }
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two"}));
    EXPECT_EQ(reader.rest(), "three");
  }
}

TEST(LineReader, ALineOverTheLimitComesInParts) {
  LineReader reader(4);
  reader.add("123456789\nabcd\nx");
  EXPECT_EQ(lines_of(reader), (std::vector<std::string>{"1234", "5678", "9", "abcd"}));
  EXPECT_EQ(reader.rest(), "x");
}

}  // namespace
}  // namespace paceline
