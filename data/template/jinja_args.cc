#include "data/template/jinja_args.h"

#include <algorithm>

#include "base/strings.h"

namespace ftune::jinja {

ArgReader::ArgReader(std::string_view function, const Args& args,
                     std::initializer_list<std::string_view> names, size_t required)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  if (args.positional.size() > names.size()) {
    throw Error(
        StrCat(function, " takes at most ", names.size(), " argument(s), got ", args.positional.size()));
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const size_t index = std::find(names_.begin(), names_.end(), name) - names_.begin();
    if (index == names_.size()) throw Error(StrCat(function, " has no argument named '", name, "'"));
    if (values_[index] != nullptr)
      throw Error(StrCat(function, " got two values for its argument '", name, "'"));
    values_[index] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) throw Error(StrCat(function, " needs its argument '", names_[i], "'"));
  }
}

const Value* ArgReader::Get(size_t index) const {
  const Value* value = values_[index];
  return value == nullptr || value->IsNone() ? nullptr : value;
}

int64_t ArgReader::Int(size_t index, int64_t fallback) const {
  const Value* value = Get(index);
  if (value == nullptr) return fallback;
  if (!value->IsIntegral()) {
    throw Error(StrCat(function_, ": '", names_[index], "' must be a whole number, not ", TypeName(*value)));
  }
  return value->AsInt();
}

bool ArgReader::Bool(size_t index, bool fallback) const {
  return values_[index] == nullptr ? fallback : IsTrue(*values_[index]);
}

const Text& ArgReader::String(size_t index) const {
  const Value* value = values_[index];
  if (value == nullptr || !value->IsString()) {
    throw Error(StrCat(function_, ": '", names_[index], "' must be a string, not ",
                       value == nullptr ? "missing" : TypeName(*value)));
  }
  return value->AsText();
}

}  // namespace ftune::jinja
