// Text and JSON inside an HTML page: what came from outside stays text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// For text and for attributes in quotes.
std::string html_escaped(std::string_view text);

// A table in a box that scrolls. `kind` is its class; cells are text.
using Cells = std::vector<std::string>;
std::string html_table(std::string_view kind, const Cells& head, const std::vector<Cells>& rows);

// For the inside of a <script>: no string in it can end the element. Bytes that are not UTF-8 become U+FFFD.
std::string script_json(const nlohmann::ordered_json& json);

// A JSON value as a person writes it: strings without quotes, the rest as compact JSON.
std::string json_text(const nlohmann::json& value);

}  // namespace paceline
