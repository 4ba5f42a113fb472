// What an engine is doing: the marks of its timeline that have begun and not ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace ftune {

// A mark, with those around it. Never changed, so that whoever remembers a moment keeps a pointer.
struct OpenScope {
  std::string name;
  // "blocks 3 to 7" has two, "forward 3" twice the same; negative where there is none.
  int64_t first = -1, last = -1;
  std::shared_ptr<const OpenScope> outer;
};
using OpenScopes = std::shared_ptr<const OpenScope>;  // the innermost; null: none is open

// "forward 0, forward of block 3", from the outermost; "between phases" where none is open.
std::string Describe(const OpenScopes& scopes);

}  // namespace ftune
