// Text in HTML, XML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace ftune {

// As content of an element or in a quoted attribute. Control characters, which XML has no form for, are left
// out.
std::string EscapeMarkup(std::string_view text);

}  // namespace ftune
