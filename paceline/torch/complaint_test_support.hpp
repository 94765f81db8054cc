// The sentence with which something is refused, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "paceline/core/error.hpp"

namespace paceline {

// Empty if it is not.
template <class Body>
std::string complaint(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "";
}

}  // namespace paceline
