// How tables and findings write numbers.
#pragma once

#include <string>
#include <vector>

#include "paceline/cli/doctor_report.hpp"

namespace paceline {

// "1 worker", "2 workers".
std::string count_of(int count, const std::string& thing);
// "2 cores", "1.5 of 4 cores" where a control group allows less than there are.
std::string cores_text(const HostReport& host);
// 0.0119 GB/s → "95 Mbit/s", 1.25 → "10 Gbit/s".
std::string bits_text(double gbps);
// Three digits that count: "0.095", "9.41", "1234".
std::string three_digits(double number);
// "900 ns", "1.2 µs", "35 ms", "2.1 s".
std::string time_text(double seconds);
// "a", "a and b", "a, b and c".
std::string and_list(const std::vector<std::string>& words);
// "0-3,6".
std::string ranges_text(const std::vector<int>& numbers);
// What a terminal shows of UTF-8: "µs" is two.
std::size_t width_of(const std::string& text);

}  // namespace paceline
