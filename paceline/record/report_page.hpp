// The pages of the report and of a comparison, their style sheet and scripts, put into the library by CMake:
// report_page.html, .css, .js, report_charts.js, report_trace.js, compare_page.html, .js.
#pragma once

#include <string_view>

namespace paceline {

extern const std::string_view kReportPage;    // with {{parts}} to fill in
extern const std::string_view kReportStyle;   // for its <style>
extern const std::string_view kReportScript;  // for its <script>; reads the JSON of chart_data

extern const std::string_view kComparePage;    // likewise; it has the report's style
extern const std::string_view kCompareScript;  // reads the JSON of compare_data

}  // namespace paceline
