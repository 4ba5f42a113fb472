// Arguments of filters, tests, methods and global functions, matched to parameters as Python does.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "data/template/jinja_value.h"

namespace ftune::jinja {

class ArgReader {
 public:
  // `names`: the parameters in order, of which the first `required` must be given. Throws on anything else.
  // `args` must outlive the reader.
  ArgReader(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
            size_t required = 0);

  // Null where the argument was not given, or given as none.
  const Value* Get(size_t index) const;
  bool Given(size_t index) const { return values_[index] != nullptr; }
  const Value& Required(size_t index) const { return *values_[index]; }
  int64_t Int(size_t index, int64_t fallback) const;
  bool Bool(size_t index, bool fallback) const;
  // An error if it is not a string.
  const Text& String(size_t index) const;

 private:
  std::string function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

}  // namespace ftune::jinja
