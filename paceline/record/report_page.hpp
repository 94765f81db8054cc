// The report's page, style sheet and scripts, put into the library by CMake: report_page.html, .css, .js,
// report_trace.js.
#pragma once

#include <string_view>

namespace paceline {

extern const std::string_view kReportPage;    // with {{parts}} to fill in
extern const std::string_view kReportStyle;   // for its <style>
extern const std::string_view kReportScript;  // for its <script>; reads the JSON of chart_data

}  // namespace paceline
