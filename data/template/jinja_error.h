// How the template engine reports a failure to its own outermost call. The exception stays inside
// data/template: Template::Parse and Template::Render turn it into an absl::Status. (An expression evaluator
// that returned a status from every step would bury Python's semantics, which this engine has to follow to
// the byte.)
#pragma once

#include <string>
#include <utility>

namespace ftune::jinja {

struct Error {
  explicit Error(std::string message_in, int line_in = 0) : message(std::move(message_in)), line(line_in) {}
  std::string message;
  int line = 0;              // 1-based; 0: the line being evaluated
  bool by_template = false;  // raise_exception: the message is the template author's
};

}  // namespace ftune::jinja
