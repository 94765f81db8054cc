#include "paceline/record/html.hpp"

#include <fmt/format.h>

namespace paceline {
namespace {

std::string row(const Cells& cells, const char* open, const char* close) {
  std::string html = "<tr>";
  for (const std::string& cell : cells) html += open + html_escaped(cell) + close;
  return html + "</tr>\n";
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&#39;"; break;
      default: safe += c;
    }
  }
  return safe;
}

std::string html_table(std::string_view kind, const Cells& head, const std::vector<Cells>& rows) {
  std::string html = fmt::format("<div class=\"scroll\"><table class=\"{}\"><thead>{}</thead><tbody>\n", kind,
                                 row(head, "<th scope=\"col\">", "</th>"));
  for (const Cells& cells : rows) html += row(cells, "<td>", "</td>");
  return html + "</tbody></table></div>\n";
}

std::string script_json(const nlohmann::ordered_json& json) {
  const std::string plain = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  safe.reserve(plain.size());
  for (const char c : plain) {
    // Outside strings JSON has no '<', so that this changes only how strings are spelt.
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string json_text(const nlohmann::json& value) {
  // Through dump even for strings: it repairs bytes that are not UTF-8.
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return value.is_string() ? nlohmann::json::parse(text).get<std::string>() : text;
}

}  // namespace paceline
