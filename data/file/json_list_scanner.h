// The elements of a JSON list, or of the one list of objects that a JSON object has: {"version": 1, "data":
// [{…}, {…}]}. What is wrong within an element is left to who parses it.
#pragma once

#include <string>

#include "data/file/json_walker.h"
#include "data/file/row_scanner.h"

namespace ftune {

// Whether a list of objects with this key belongs to a row (its messages, say) and is no list of rows.
bool IsListOfARow(std::string_view key);

class JsonListScanner : public RowScanner {
 public:
  // `file` is named in errors.
  JsonListScanner(std::string file, bool in_object)
      : file_(std::move(file)), in_object_(in_object), state_(in_object ? State::kObject : State::kList) {}

  absl::StatusOr<Found> Find(std::string_view text, bool whole, RowBlock::Row& row) override;
  RowBlock::Encoding encoding() const override { return RowBlock::Encoding::kJson; }
  std::string_view row_name() const override { return "a list's element"; }
  std::string_view nothing() const override { return "an empty list"; }

  // Whether the object's list of rows was come to.
  bool found_list() const { return !rows_key_.empty(); }

 private:
  enum class State {
    kObject,        // before the {
    kFirstKey,      // before the first key, or the }
    kKey,           // before a further key
    kColon,         // behind a key
    kValue,         // before a member's value
    kMembersList,   // behind the [ of a member
    kSkippedValue,  // within a value that holds no rows
    kMemberEnd,     // behind a value
    kList,          // before the [
    kFirstElement,  // behind the [
    kElement,       // behind a comma
    kWithinElement,
    kEnd,  // behind all
  };

  // False where the text ends first.
  bool SkipSpace(std::string_view text);
  absl::StatusOr<bool> ReadKey(std::string_view text);
  absl::StatusOr<bool> WalkValue(std::string_view text);

  // Goes on with the byte at next_, which is neither white space nor within a key or value.
  absl::Status Step(char c);
  absl::Status BeginElement(char c);
  // With the byte behind the element.
  absl::StatusOr<RowBlock::Row> EndElement(std::string_view text);

  int64_t OffsetOf(size_t at) const { return base_ + static_cast<int64_t>(at); }
  absl::Status Unexpected(char found, std::string_view expected) const;
  absl::Status CutOff() const;

  std::string file_;
  bool in_object_;
  State state_;
  JsonWalker walker_;
  LineCounter lines_;     // at next_
  int64_t column_ = 1;    // of the element that is walked through
  std::string key_;       // of the member that is walked through
  std::string rows_key_;  // of the list that rows were read from
};

}  // namespace ftune
