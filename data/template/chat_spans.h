// Which bytes of a rendered conversation are what its messages say.
//
// Of the assistant's: where the template marks them ({% generation %}), they are taken from the marks.
// Otherwise they follow from the template itself: provenance (see jinja_text.h) says which bytes the
// iteration over each message wrote, its turn. What stands at the turn's beginning before the assistant
// begins to write is what the template writes as the generation prompt after the messages before; the rest,
// up to the end-of-turn token, is the assistant's. Of other messages, whose headers nobody generates: their
// own words, and what the template ends their turn with.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/template/chat_template.h"
#include "data/template/jinja_text.h"

namespace ftune {

struct SpanFinder {
  std::string name;  // the template's, for messages
  std::string eos;   // the end-of-sequence token's text, or empty
  bool has_generation = false;
  // The template with provenance.
  std::function<absl::StatusOr<jinja::Text>(const ChatInput&)> render;

  // Renders `input` and finds the spans of the messages flagged in `wanted`. An error where they cannot be
  // told for sure.
  absl::StatusOr<RenderedChat> Render(const ChatInput& input, std::span<const uint8_t> wanted) const;
};

}  // namespace ftune
