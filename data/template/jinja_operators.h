// Python's arithmetic on template values.
#pragma once

#include <string_view>

#include "data/template/jinja_value.h"

namespace ftune::jinja {

// op: + - * / // % **.
Value Arithmetic(std::string_view op, const Value& a, const Value& b, Budget& budget);
Value Negate(const Value& value);
Value Plus(const Value& value);

// & < > " ' as HTML entities; the result is marked safe.
Text EscapeHtml(const Text& text);
// a + b, escaping the one that is not marked safe if the other is.
Text Concatenate(const Text& a, const Text& b);

}  // namespace ftune::jinja
