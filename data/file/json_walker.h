// Finds where one JSON value ends, in pieces of text as they are read: knows strings, escapes and brackets,
// nothing else of JSON.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ftune {

// A place in a file that is gone through from front to back.
struct LineCounter {
  int64_t line = 1;
  int64_t begin = 0;  // the file's byte with which the line begins

  void NewLine(int64_t next_byte) {
    ++line;
    begin = next_byte;
  }
  int64_t ColumnOf(int64_t byte) const { return byte - begin + 1; }
};

class JsonWalker {
 public:
  JsonWalker() = default;
  // In a list whose first bracket was passed.
  static JsonWalker InList() {
    JsonWalker walker;
    walker.open_.push_back(']');
    return walker;
  }

  enum class Stop {
    kEnd,       // *next is a comma or a closing bracket that does not belong to the value
    kMore,      // the value goes on behind the text
    kMismatch,  // *next is a closing bracket, but expected() has to come first
  };

  // Goes on from text[*next], which is byte `offset` + *next of the file. Newlines are counted.
  Stop Walk(std::string_view text, int64_t offset, size_t* next, LineCounter& lines);

  char expected() const { return open_.back(); }
  // All that was opened is closed.
  bool balanced() const { return open_.empty() && !in_string_; }

 private:
  std::vector<char> open_;  // the brackets that have to close
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace ftune
