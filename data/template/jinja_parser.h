// Template source to a syntax tree, by the grammar of jinja2/parser.py (3.1) with the extensions transformers
// turns on: loop controls and {% generation %}.
#pragma once

#include <string_view>

#include "data/template/jinja_ast.h"

namespace ftune::jinja {

struct ParsedTemplate {
  Body body;
  bool has_generation = false;  // a {% generation %} block occurs
};

// Throws Error with the line.
ParsedTemplate ParseTemplate(std::string_view source);

}  // namespace ftune::jinja
