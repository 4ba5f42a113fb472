#include "data/template/chat_turn.h"

#include <algorithm>

#include "data/template/jinja_unicode.h"

namespace ftune {

using jinja::Origin;
using jinja::Run;
using jinja::Text;

TurnFound FindTurn(const Text& text, int index, Turn* turn) {
  std::vector<Turn> turns;
  size_t begin = 0;
  for (const Run& run : text.runs()) {
    if (run.tag.turn == index) {
      if (turns.empty() || turns.back().end != begin)
        turns.push_back({.begin = begin, .end = begin, .boundaries = {}});
      Turn& current = turns.back();
      current.boundaries.push_back(begin);
      if (run.tag.origin >= Origin::kBody) {
        if (!current.has_body()) current.body_begin = begin;
        current.body_end = run.end;
      }
      current.end = run.end;
    }
    begin = run.end;
  }
  std::erase_if(turns, [&](const Turn& candidate) {
    const std::string_view bytes =
        std::string_view(text.bytes()).substr(candidate.begin, candidate.end - candidate.begin);
    return !candidate.has_body() && IsBlank(bytes);
  });
  if (turns.size() != 1) return turns.empty() ? TurnFound::kNone : TurnFound::kSeveral;
  *turn = std::move(turns[0]);
  turn->boundaries.push_back(turn->end);
  if (!turn->has_body()) turn->body_begin = turn->body_end = turn->end;
  return TurnFound::kOne;
}

std::vector<MessageSpan> FindTurns(const Text& text) {
  std::vector<MessageSpan> turns;
  int64_t begin = 0;
  for (const Run& run : text.runs()) {
    const int message = run.tag.turn >= 0 ? run.tag.turn : run.tag.source;
    const auto end = static_cast<int64_t>(run.end);
    if (message >= 0 && !turns.empty() && turns.back().message == message &&
        turns.back().bytes.end == begin) {
      turns.back().bytes.end = end;
    } else if (message >= 0) {
      turns.push_back({message, {begin, end}});
    }
    begin = end;
  }
  return turns;
}

size_t TrimEnd(std::string_view text, size_t floor, size_t end) {
  size_t kept = floor;
  for (size_t pos = floor; pos < end;) {
    char32_t c;
    pos = jinja::NextCodePoint(text, pos, &c);
    if (!jinja::IsSpace(c)) kept = pos;
  }
  return std::min(kept, end);
}

bool IsBlank(std::string_view text) { return TrimEnd(text, 0, text.size()) == 0; }

size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + limit, b.begin()).first - a.begin();
}

}  // namespace ftune
