// How the rows of a JSON file are laid out, told from its begin.
#pragma once

#include <cstddef>
#include <string_view>

namespace ftune {

enum class JsonLayout {
  kLines,         // an object a line
  kList,          // one list
  kListInObject,  // one object that has a list of objects as a member
  kLoneObject,    // one object over several lines, without such a list
  kNone,          // does not begin as JSON rows do
};

// How much of a file the function below wants to see.
inline constexpr size_t kLayoutBytes = size_t{64} << 10;

// `begin` of a file; `whole`: it is all of it. An object with a list whose key is one that rows have, such as
// messages, is a row. An object that ends with its line, and that another follows, is a row whatever it has.
JsonLayout DetectJsonLayout(std::string_view begin, bool whole);

}  // namespace ftune
