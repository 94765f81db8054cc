// Pages are written as files with {{parts}} in them.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace paceline {

using PageParts = std::map<std::string_view, std::string>;

// Every part that the page names must be there. What a part contains is not looked at again.
std::string filled_page(std::string_view page, const PageParts& parts);

}  // namespace paceline
