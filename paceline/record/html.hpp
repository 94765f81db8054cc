// Text and JSON inside an HTML page: what came from outside stays text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace paceline {

// For text and for attributes in quotes.
std::string html_escaped(std::string_view text);

// For the inside of a <script>: no string in it can end the element. Bytes that are not UTF-8 become U+FFFD.
std::string script_json(const nlohmann::ordered_json& json);

// A JSON value as a person writes it: strings without quotes, the rest as compact JSON.
std::string json_text(const nlohmann::json& value);

}  // namespace paceline
