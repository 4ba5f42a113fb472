// What a template can call by name: filters, tests, methods of strings, dicts and lists, and global
// functions.
#pragma once

#include <optional>
#include <string_view>

#include "data/template/jinja_interpreter.h"

namespace ftune::jinja {

using FilterFunction = Value (*)(Interpreter& in, const Value& value, Args& args);
using TestFunction = bool (*)(Interpreter& in, const Value& value, Args& args);

// Null where there is none of that name.
FilterFunction FindFilter(std::string_view name);
FilterFunction FindTextFilter(std::string_view name);      // those that make text or numbers
FilterFunction FindSequenceFilter(std::string_view name);  // those over lists and dicts
TestFunction FindTest(std::string_view name);
const Value* FindGlobal(std::string_view name);

// The method `name` of `self`, bound to it. Methods that would change a list or dict are undefined values
// that say so.
std::optional<Value> FindMethod(const Value& self, std::string_view name);
std::optional<Value> FindStringMethod(const Value& self, std::string_view name);

}  // namespace ftune::jinja
