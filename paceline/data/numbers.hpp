// Cells of a table as numbers. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace paceline {

std::string_view trimmed(std::string_view cell);  // without blanks around it

// A finite decimal number that is the whole cell: 1, -2.5, +3e4.
std::optional<double> parse_number(std::string_view cell);

// Empty, NA, N/A, NaN, null or ?, in whatever case.
bool is_missing(std::string_view cell);

}  // namespace paceline
