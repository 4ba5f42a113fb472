#include "data/template/jinja_template.h"

#include <time.h>

#include <utility>

#include "base/error.h"
#include "data/template/jinja_error.h"
#include "data/template/jinja_unicode.h"

namespace ftune::jinja {
namespace {

// Statuses carry JSON, which takes no malformed UTF-8; a broken template may quote some, or quote without
// end.
std::string Printable(std::string_view text) {
  constexpr size_t kMaxBytes = 2000;
  std::string out;
  char32_t c;
  for (size_t pos = 0; pos < text.size();) {
    if (pos > kMaxBytes) return out + "…";
    pos = NextCodePoint(text, pos, &c);
    AppendUtf8(c, &out);
  }
  return out;
}

absl::Status ToStatus(const std::string& name, const Error& error) {
  ErrorDetail detail;
  detail.file = name;
  detail.line = error.line;
  detail.message = Printable(error.message);
  if (!error.by_template) detail.hint = "mend the chat template or the messages it is given";
  return DataError(std::move(detail));
}

}  // namespace

absl::StatusOr<Template> Template::Parse(std::string_view source, std::string name) {
  try {
    auto parsed = std::make_shared<const ParsedTemplate>(ParseTemplate(source));
    return Template(std::move(name), std::move(parsed));
  } catch (const Error& error) {
    return ToStatus(name, error);
  }
}

absl::StatusOr<Text> Template::Render(Variables variables, bool track_provenance, const Clock& clock) const {
  try {
    return Interpreter(track_provenance, clock).Run(parsed_->body, std::move(variables));
  } catch (const Error& error) {
    return ToStatus(name_, error);
  }
}

std::tm LocalTime() {
  const time_t now = time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace ftune::jinja
