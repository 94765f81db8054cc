#include "paceline/launch/host_list.hpp"

#include <gtest/gtest.h>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

using Entries = std::vector<HostEntry>;
using Hosts = std::vector<Host>;

template <class Function>
std::string refusal(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "nothing was refused";
}

TEST(HostList, CountsAreOptional) {
  EXPECT_EQ(parse_host_list("a:4,b"), (Entries{{"a", 4}, {"b", std::nullopt}}));
  EXPECT_EQ(parse_host_list("localhost"), (Entries{{"localhost", std::nullopt}}));
}

TEST(HostList, UsersAndAddressesAreNames) {
  EXPECT_EQ(parse_host_list("me@10.0.0.2:2,[fe80::2]:3,[::1]"),
            (Entries{{"me@10.0.0.2", 2}, {"fe80::2", 3}, {"::1", std::nullopt}}));
}

TEST(HostList, AHostNamedTwiceHasTheSum) {
  EXPECT_EQ(parse_host_list("a:4,b:1,a:2"), (Entries{{"a", 6}, {"b", 1}}));
  EXPECT_EQ(parse_host_list("a,a"), (Entries{{"a", 2}}));
}

TEST(HostList, EachRefusalNamesTheEntry) {
  for (const auto& [text, entry, reason] :
       std::vector<std::array<std::string, 3>>{{"a:4,b:x", "'b:x'", "'x' is not a number of workers"},
                                               {"a:0", "'a:0'", "'0' is not a number of workers from 1 to 65536"},
                                               {"a:99999", "'a:99999'", "is not a number"},
                                               {"a:", "'a:'", "is not a number"},
                                               {"a,,b", "''", "the name of the host is missing"},
                                               {"", "''", "the name of the host is missing"},
                                               {":4", "':4'", "the name of the host is missing"},
                                               {"-oProxyCommand=x", "'-oProxyCommand=x'", "is not the name of a host"},
                                               {"a b", "'a b'", "is not the name of a host"},
                                               {"fe80::2", "'fe80::2'", "in brackets"},
                                               {"[fe80::2", "'[fe80::2'", "not closed"},
                                               {"[fe80::2]4", "'[fe80::2]4'", "'4' follows the bracket"}}) {
    const std::string sentence = refusal([&, list = text] { parse_host_list(list); });
    EXPECT_NE(sentence.find("entry " + entry), std::string::npos) << sentence;
    EXPECT_NE(sentence.find(reason), std::string::npos) << sentence;
  }
}

TEST(HostFile, HasOneHostPerLine) {
  const std::string text = "# the rack\na\n\n b:4 # new\nc slots=2\nb slots=1\n";
  EXPECT_EQ(parse_host_file(text, "hosts"), (Entries{{"a", std::nullopt}, {"b", 5}, {"c", 2}}));
}

TEST(HostFile, EachRefusalNamesTheLine) {
  for (const auto& [text, sentence] : std::vector<std::array<std::string, 2>>{
           {"a\nb slots=x\n", "line 2 of hosts: 'x' is not a number of workers from 1 to 65536"},
           {"a:2 slots=2\n", "line 1 of hosts: the number of workers is given twice"},
           {"a max=2\n", "line 1 of hosts: 'max=2' is not understood: a line is `a`, `a:4` or `a slots=4`"},
           {"a slots=2 b\n", "line 1 of hosts: 'b' is not understood: a line is `a`, `a:4` or `a slots=4`"},
           {"# nobody\n\n", "hosts names no host"}}) {
    EXPECT_EQ(refusal([&, lines = text] { parse_host_file(lines, "hosts"); }), sentence);
  }
}

TEST(Placement, WithoutANumberEachHostHasItsCountOrOne) {
  EXPECT_EQ(place_workers(parse_host_list("a:4,b"), std::nullopt), (Hosts{{"a", 4}, {"b", 1}}));
}

TEST(Placement, ANumberFillsHostsWithoutCountsInOrder) {
  const auto hosts = parse_host_list("a,b,c");
  EXPECT_EQ(place_workers(hosts, 7), (Hosts{{"a", 3}, {"b", 2}, {"c", 2}}));
  EXPECT_EQ(place_workers(hosts, 2), (Hosts{{"a", 1}, {"b", 1}}));
  for (int workers = 1; workers <= 17; ++workers) EXPECT_EQ(workers_of(place_workers(hosts, workers)), workers);
}

TEST(Placement, ANumberMustBeTheSumOfTheCounts) {
  EXPECT_EQ(workers_of(place_workers(parse_host_list("a:2,b"), 3)), 3);
  EXPECT_EQ(refusal([] { place_workers(parse_host_list("a:2,b:2"), 5); }),
            "-n 5 but the hosts have 4 workers together: leave one of the two out");
}

TEST(Placement, TooManyWorkersAreRefused) {
  EXPECT_EQ(refusal([] { place_workers(parse_host_list("a:65536,b:1"), std::nullopt); }),
            "65537 workers are more than 65536");
  EXPECT_EQ(refusal([] { parse_host_list("a:65536,a:2"); }),
            "entry 'a:2' of --hosts a:65536,a:2: 65538 workers are more than 65536");
}

TEST(ServerHosts, AreNamesWithoutCounts) {
  EXPECT_EQ(parse_server_hosts("a,me@10.0.0.2,[fe80::2]"), (std::vector<std::string>{"a", "me@10.0.0.2", "fe80::2"}));
}

TEST(ServerHosts, EachRefusalNamesTheEntry) {
  for (const auto& [text, sentence] : std::vector<std::array<std::string, 2>>{
           {"", "entry '' of --servers-on : the name of the host is missing"},
           {"a,", "entry '' of --servers-on a,: the name of the host is missing"},
           {"a:2", "entry 'a:2' of --servers-on a:2: how many servers there are is said by --where server:N"},
           {"a,b,a", "entry 'a' of --servers-on a,b,a: the host is named twice"},
           {"-x", "entry '-x' of --servers-on -x: '-x' is not the name of a host"}}) {
    EXPECT_EQ(refusal([&, list = text] { parse_server_hosts(list); }), sentence);
  }
}

TEST(ServerHosts, TakeServersInTurn) {
  Hosts hosts = {{"a", 2}, {"b", 2}};
  place_servers(hosts, {"b", "c"}, 5);
  EXPECT_EQ(hosts, (Hosts{{"a", 2, {}}, {"b", 2, {0, 2, 4}}, {"c", 0, {1, 3}}}));
  EXPECT_EQ(workers_of(hosts), 4);
}

TEST(ServerHosts, ThoseThatAreNotNeededAreLeftOut) {
  Hosts hosts = {{"a", 1}};
  place_servers(hosts, {"b", "c", "d"}, 2);
  EXPECT_EQ(hosts, (Hosts{{"a", 1, {}}, {"b", 0, {0}}, {"c", 0, {1}}}));
}

}  // namespace
}  // namespace paceline
