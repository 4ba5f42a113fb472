// One message's turn in a rendered conversation: the bytes written by the loop iteration over that message.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "data/template/chat_template.h"
#include "data/template/jinja_text.h"

namespace ftune {

struct Turn {
  size_t begin = 0;  // bytes of the rendered text
  size_t end = 0;
  // Of the bytes that are the message's data (content, reasoning, tool calls): where they begin and end. Both
  // `end` where there are none (an empty content).
  size_t body_begin = 0;
  size_t body_end = 0;
  std::vector<size_t>
      boundaries;  // where one piece of the template's writing ends and the next begins, ascending

  bool has_body() const { return body_begin < body_end; }
};

enum class TurnFound { kOne, kNone, kSeveral };

// The turn of message `index`; whitespace that a template's own loops over the messages leave behind is no
// turn.
TurnFound FindTurn(const jinja::Text& text, int index, Turn* turn);

// Which message each piece of the text was written for: the one whose loop iteration wrote it, or else the
// one whose data it is.
std::vector<MessageSpan> FindTurns(const jinja::Text& text);

// Offset behind the last byte in [floor, end) of `text` that is not whitespace; `floor` if there is none.
size_t TrimEnd(std::string_view text, size_t floor, size_t end);
bool IsBlank(std::string_view text);
size_t CommonPrefix(std::string_view a, std::string_view b);

}  // namespace ftune
