#include "data/file/json_list_scanner.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

using namespace std::string_view_literals;

constexpr std::array kListsOfARow = {"messages"sv, "conversations"sv, "conversation"sv, "segments"sv,
                                     "turns"sv,    "dialog"sv,        "dialogue"sv,     "chat"sv,
                                     "tools"sv,    "functions"sv,     "history"sv,      "prompt"sv,
                                     "chosen"sv,   "rejected"sv,      "completion"sv,   "input"sv,
                                     "output"sv,   "response"sv,      "choices"sv,      "documents"sv};

constexpr size_t kMaxKeyBytes = size_t{64} << 10;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

bool IsListOfARow(std::string_view key) {
  return std::find(kListsOfARow.begin(), kListsOfARow.end(), key) != kListsOfARow.end();
}

absl::Status JsonListScanner::Unexpected(char found, std::string_view expected) const {
  const std::string shown = found > ' ' && found < '\x7F'
                                ? StrCat("'", found, "'")
                                : StrCat("the byte ", static_cast<int>(static_cast<unsigned char>(found)));
  return RowError({file_, lines_.line},
                  {.message = StrCat("not valid JSON at column ", lines_.ColumnOf(OffsetOf(next_))),
                   .found = shown,
                   .expected = std::string(expected)});
}

absl::Status JsonListScanner::CutOff() const {
  const bool element = state_ == State::kWithinElement;
  return RowError({file_, element ? line_ : lines_.line},
                  {.message = element ? "the file ends within the element that begins here"
                                      : "the file ends before its JSON does",
                   .hint = "it may be cut off, or a quote or bracket is not closed"});
}

bool JsonListScanner::SkipSpace(std::string_view text) {
  while (next_ < text.size() && IsSpace(text[next_])) {
    if (text[next_] == '\n') lines_.NewLine(OffsetOf(next_) + 1);
    ++next_;
  }
  begin_ = next_;
  line_ = lines_.line;
  return next_ < text.size();
}

absl::StatusOr<bool> JsonListScanner::ReadKey(std::string_view text) {
  if (text[next_] != '"') return Unexpected(text[next_], "a key in quotes");
  for (size_t at = next_ + 1; at < text.size(); ++at) {
    if (at - next_ > kMaxKeyBytes) return Unexpected('"', "a shorter key");
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      key_ = std::string(text.substr(next_ + 1, at - next_ - 1));
      next_ = at + 1;
      state_ = State::kColon;
      return true;
    }
  }
  return false;
}

absl::StatusOr<bool> JsonListScanner::WalkValue(std::string_view text) {
  const JsonWalker::Stop stop = walker_.Walk(text, base_, &next_, lines_);
  if (stop == JsonWalker::Stop::kMismatch)
    return Unexpected(text[next_], StrCat("'", walker_.expected(), "'"));
  return stop == JsonWalker::Stop::kEnd;
}

absl::Status JsonListScanner::BeginElement(char c) {
  if (c == ',' || c == ']') return Unexpected(c, "an element of the list");
  state_ = State::kWithinElement;
  walker_ = {};
  column_ = lines_.ColumnOf(OffsetOf(next_));
  return absl::OkStatus();
}

absl::StatusOr<RowBlock::Row> JsonListScanner::EndElement(std::string_view text) {
  const char c = text[next_];
  if (c == '}') return Unexpected(c, "',' or ']'");
  size_t end = next_;
  while (IsSpace(text[end - 1])) --end;
  const RowBlock::Row row = {begin_, end - begin_, line_, column_};
  state_ = c == ',' ? State::kElement : in_object_ ? State::kMemberEnd : State::kEnd;
  begin_ = ++next_;
  line_ = lines_.line;
  return row;
}

absl::Status JsonListScanner::Step(char c) {
  switch (state_) {
    case State::kObject:
      if (c != '{') return Unexpected(c, "'{'");
      state_ = State::kFirstKey;
      break;
    case State::kFirstKey:  // keys are read elsewhere
      state_ = State::kEnd;
      break;
    case State::kColon:
      if (c != ':') return Unexpected(c, "':'");
      state_ = State::kValue;
      break;
    case State::kValue:
      if (c == ',' || c == '}' || c == ']') return Unexpected(c, "a value");
      if (c == '[' && !IsListOfARow(key_)) {
        state_ = State::kMembersList;
        break;
      }
      walker_ = {};
      state_ = State::kSkippedValue;
      return absl::OkStatus();  // the walker begins with this byte
    case State::kMembersList:
      if (c != '{') {
        walker_ = JsonWalker::InList();
        state_ = State::kSkippedValue;
        return absl::OkStatus();
      }
      if (!rows_key_.empty()) {
        return RowError({file_, lines_.line}, {.message = "an object with more than one list of rows",
                                               .found = StrCat(rows_key_, " and ", key_),
                                               .expected = "one",
                                               .hint = "write each into a file of its own"});
      }
      rows_key_ = key_;
      return BeginElement(c);
    case State::kMemberEnd:
      if (c != ',' && c != '}') return Unexpected(c, "',' or '}'");
      state_ = c == ',' ? State::kKey : State::kEnd;
      break;
    case State::kList:
      if (c != '[') return Unexpected(c, "'['");
      state_ = State::kFirstElement;
      break;
    case State::kFirstElement:
      if (c != ']') return BeginElement(c);
      state_ = State::kEnd;
      break;
    case State::kElement:
      return BeginElement(c);
    case State::kKey:
    case State::kSkippedValue:
    case State::kWithinElement:
    case State::kEnd:
      return Unexpected(c, "the end of the file");
  }
  ++next_;
  return absl::OkStatus();
}

absl::StatusOr<RowScanner::Found> JsonListScanner::Find(std::string_view text, bool whole,
                                                        RowBlock::Row& row) {
  for (;;) {
    bool more = false;  // is needed of the text
    if (state_ == State::kWithinElement || state_ == State::kSkippedValue) {
      FTUNE_ASSIGN_OR_RETURN(const bool ended, WalkValue(text));
      if (state_ == State::kSkippedValue) begin_ = next_;
      if (ended && state_ == State::kWithinElement) {
        FTUNE_ASSIGN_OR_RETURN(row, EndElement(text));
        return Found::kRow;
      }
      if (ended) state_ = State::kMemberEnd;
      more = !ended;
    } else if (!SkipSpace(text)) {
      if (whole && state_ == State::kEnd) return Found::kEnd;
      more = true;
    } else if (state_ == State::kKey || (state_ == State::kFirstKey && text[next_] != '}')) {
      FTUNE_ASSIGN_OR_RETURN(const bool read, ReadKey(text));
      more = !read;
    } else {
      FTUNE_RETURN_IF_ERROR(Step(text[next_]));
    }
    if (more && whole) return CutOff();
    if (more) return Found::kMore;
  }
}

}  // namespace ftune
