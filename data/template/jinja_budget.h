// Bounds on what one rendering may use, so that a hostile or looping template ends in an error instead of
// taking the machine: evaluation steps, bytes ever allocated, and nesting. Counted, not timed: the same input
// gives the same end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/template/jinja_error.h"

namespace ftune::jinja {

class Budget {
 public:
  static constexpr int64_t kMaxSteps = 5'000'000;
  static constexpr int64_t kMaxBytes = int64_t{1} << 30;
  static constexpr size_t kMaxTextBytes = size_t{1} << 26;
  static constexpr int64_t kMaxItems = 1'000'000;  // of one list
  static constexpr int64_t kMaxRange = 100'000;    // the sandbox's own MAX_RANGE
  static constexpr size_t kBytesPerStep = 64;
  static constexpr int kMaxEvaluationDepth = 800;  // nested evaluations and calls on the stack
  static constexpr int kMaxValueDepth = 200;       // nesting of lists and dicts

  void Step(int64_t count = 1) {
    steps_ += count;
    if (steps_ > kMaxSteps) throw Error("the template runs too long (more than 5 million steps)");
  }
  // For what walks over so much text.
  void Read(size_t bytes) { Step(static_cast<int64_t>(bytes / kBytesPerStep)); }
  void Allocate(int64_t bytes) {
    bytes_ += bytes;
    if (bytes_ > kMaxBytes) throw Error("the template uses too much memory (more than 1 GiB of values)");
  }
  static void CheckText(size_t bytes) {
    if (bytes > kMaxTextBytes) throw Error("the template makes a text of more than 64 MiB");
  }
  static void CheckItems(int64_t count) {
    if (count > kMaxItems) throw Error("the template makes a list of more than a million items");
  }

 private:
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace ftune::jinja
