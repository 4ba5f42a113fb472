// A compiled Jinja template, rendered as transformers renders chat templates: ImmutableSandboxedEnvironment
// with trim_blocks and lstrip_blocks, loop controls, {% generation %}, its `tojson`, raise_exception and
// strftime_now.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/template/jinja_interpreter.h"
#include "data/template/jinja_parser.h"

namespace ftune::jinja {

class Template {
 public:
  // `name` is the file that messages name. A syntax error names the line.
  static absl::StatusOr<Template> Parse(std::string_view source, std::string name);

  // Thread-safe. Anything that goes wrong while rendering (an undefined value used, an unknown filter,
  // raise_exception, a budget spent) is an error with the line.
  absl::StatusOr<Text> Render(Variables variables, bool track_provenance, const Clock& clock) const;

  bool has_generation() const { return parsed_->has_generation; }
  const std::string& name() const { return name_; }

 private:
  Template(std::string name, std::shared_ptr<const ParsedTemplate> parsed)
      : name_(std::move(name)), parsed_(std::move(parsed)) {}

  std::string name_;
  std::shared_ptr<const ParsedTemplate> parsed_;
};

// Local time now.
std::tm LocalTime();

}  // namespace ftune::jinja
