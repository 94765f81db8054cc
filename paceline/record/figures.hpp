// Figures: numbers as people read them, the same in the progress line and in the report.
#pragma once

#include <cstdint>
#include <string>

namespace paceline {

std::string with_thousands(std::int64_t value);  // 12,345
std::string rounded(double value);               // a rate: 1,834, but 12.3 and 0.47 where digits matter; "–" for NaN
std::string percent(double share, int decimals = 1);  // 0.893 is "89.3%"
std::string clock_time(double seconds);               // 0:41, 12:05, 1:02:03
std::string time_span(double seconds);                // 850 ms, 41.2 s, 12 min 5 s, 1 h 2 min
std::string byte_count(std::uint64_t bytes);          // 512 B, 1.5 MiB

}  // namespace paceline
