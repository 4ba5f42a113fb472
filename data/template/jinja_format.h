// Values as text, to the byte as Python prints them: str(), repr(), json.dumps, "%" and str.format.
#pragma once

#include <string>

#include "data/template/jinja_value.h"

namespace ftune::jinja {

// str(value); a missing value is empty, as Jinja prints it.
Text ToText(const Value& value, Budget& budget);
// repr(value).
std::string Repr(const Value& value, Budget& budget);
std::string FloatRepr(double value);

// The provenance of something computed from all of `value`.
Tag TagOf(const Value& value, Budget& budget);

struct JsonOptions {
  bool ensure_ascii = false;
  bool has_indent = false;
  std::string indent;  // one level's, where has_indent
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
std::string ToJson(const Value& value, const JsonOptions& options, Budget& budget);

// format % arguments (a tuple, a dict or one value).
Text FormatPercent(const Text& format, const Value& arguments, Budget& budget);
// format.format(*positional, **named).
Text FormatBraces(const Text& format, const Args& args, Budget& budget);

}  // namespace ftune::jinja
