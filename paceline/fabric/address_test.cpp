#include "paceline/fabric/address.hpp"

#include <gtest/gtest.h>

#include "paceline/core/error.hpp"

namespace paceline {
namespace {

TEST(Address, IsParsedAndWrittenInEachOfItsForms) {
  for (const char* text : {"127.0.0.1:4711", "node7:80", "[::1]:65535"}) {
    EXPECT_EQ(to_string(parse_address(text)), text);
  }
  EXPECT_EQ(parse_address("[::1]:80").host, "::1");
}

TEST(Address, WhatIsNotHostAndPortIsRefusedByName) {
  for (const char* text : {"", ":", "host", "host:", ":80", "host:65536", "host:-1", "host:80x", "[]:80"}) {
    try {
      parse_address(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos);
    }
  }
}

TEST(Address, OnlyThisMachineIsLoopback) {
  for (const char* host : {"127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(resolve({host, 1}))) << host;
  }
  for (const char* host : {"0.0.0.0", "10.0.0.1", "128.0.0.1", "::", "fe80::1", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(is_loopback(resolve({host, 1}))) << host;
  }
}

}  // namespace
}  // namespace paceline
