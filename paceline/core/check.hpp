// CHECK(condition, "what must hold"): for bugs of paceline itself or of its caller's code, never for failures that can
// happen in a correct program (those are an Error). Prints the sentence with its place and aborts.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition, sentence)                                                                      \
  do {                                                                                                  \
    if (!(condition)) [[unlikely]] {                                                                    \
      std::fprintf(stderr, "%s:%d: CHECK failed: %s (%s)\n", __FILE__, __LINE__, sentence, #condition); \
      std::abort();                                                                                     \
    }                                                                                                   \
  } while (false)
