#include "paceline/launch/environment.hpp"

#include <gtest/gtest.h>

#include <map>

namespace paceline {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Environment> read(const Variables& variables) {
  return read_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

Variables good() { return {{"PACELINE_RANK", "1"}, {"PACELINE_SIZE", "4"}, {"PACELINE_STORE", "127.0.0.1:4711"}}; }

// The sentence with which `good()`, changed in one variable, is refused.
std::string refusal(const std::string& name, const std::string& value) {
  Variables variables = good();
  variables[name] = value;
  try {
    read(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "accepted";
}

TEST(Environment, AProgramStartedAloneHasNone) { EXPECT_FALSE(read({{"HOME", "/root"}})); }

TEST(Environment, TheThreeVariablesAreEnough) {
  const auto environment = read(good());
  ASSERT_TRUE(environment);
  EXPECT_EQ(environment->rank, 1);
  EXPECT_EQ(environment->size, 4);
  EXPECT_EQ(to_string(environment->store), "127.0.0.1:4711");
  EXPECT_EQ(environment->secret, "");
  EXPECT_FALSE(environment->lifeline);
  EXPECT_EQ(environment->join_timeout, std::chrono::seconds(60));
}

TEST(Environment, TheOthersAreReadWhereTheyAreSet) {
  Variables variables = good();
  variables.merge(Variables{{"PACELINE_SECRET", "s"}, {"PACELINE_LIFELINE", "7"}, {"PACELINE_JOIN_TIMEOUT", "0.5"}});
  const auto environment = read(variables);
  EXPECT_EQ(environment->secret, "s");
  EXPECT_EQ(environment->lifeline, 7);
  EXPECT_EQ(environment->join_timeout, std::chrono::milliseconds(500));
}

TEST(Environment, AnIncompleteOneIsRefusedAndTheMissingVariableNamed) {
  for (const char* missing : {"PACELINE_RANK", "PACELINE_SIZE", "PACELINE_STORE"}) {
    Variables variables = good();
    variables.erase(missing);
    try {
      read(variables);
      FAIL() << missing;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::string("but not ") + missing), std::string::npos) << error.what();
    }
  }
}

TEST(Environment, ASenselessValueIsRefusedWithItsNameAndItself) {
  const std::pair<const char*, const char*> senseless[] = {
      {"PACELINE_RANK", "4"},
      {"PACELINE_RANK", "-1"},
      {"PACELINE_RANK", "one"},
      {"PACELINE_RANK", ""},
      {"PACELINE_RANK", "1 "},
      {"PACELINE_SIZE", "0"},
      {"PACELINE_SIZE", "99999999"},
      {"PACELINE_STORE", "nowhere"},
      {"PACELINE_STORE", "127.0.0.1:0"},
      {"PACELINE_LIFELINE", "x"},
      {"PACELINE_JOIN_TIMEOUT", "0"},
      {"PACELINE_JOIN_TIMEOUT", "soon"},
      {"PACELINE_JOIN_TIMEOUT", "nan"},
  };
  for (const auto& [name, value] : senseless) {
    EXPECT_EQ(refusal(name, value).find(std::string(name) + " is '" + value + "'"), 0u) << refusal(name, value);
  }
}

TEST(Environment, ServersHaveTheRanksAfterThoseOfTheWorkers) {
  Variables variables = good();
  EXPECT_EQ(read(variables)->servers, 0);
  variables["PACELINE_SERVERS"] = "2";
  variables["PACELINE_RANK"] = "5";
  EXPECT_EQ(read(variables)->servers, 2);
  EXPECT_EQ(read(variables)->rank, 5);
  EXPECT_EQ(refusal("PACELINE_RANK", "4"), "PACELINE_RANK is '4' but must be a whole number from 0 to 3");
  EXPECT_EQ(refusal("PACELINE_SERVERS", "x"), "PACELINE_SERVERS is 'x' but must be a whole number from 0 to 65536");
}

}  // namespace
}  // namespace paceline
