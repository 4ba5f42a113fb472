// ChatTemplate by the Jinja engine.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/template/chat_template.h"
#include "data/template/jinja_template.h"

namespace ftune {

class JinjaChatTemplate : public ChatTemplate {
 public:
  // As ParseChatTemplate; `clock` is what strftime_now reads.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Create(std::string_view source, std::string name,
                                                              const SpecialTokens& special,
                                                              jinja::Clock clock);

  absl::StatusOr<std::string> Render(const ChatInput& input) const override;
  absl::StatusOr<RenderedChat> RenderTurns(const ChatInput& input) const override;
  absl::StatusOr<RenderedChat> RenderWithSpans(const ChatInput& input,
                                               std::span<const uint8_t> wanted) const override;

 private:
  JinjaChatTemplate(jinja::Template compiled, const SpecialTokens& special, jinja::Clock clock)
      : template_(std::move(compiled)), special_(special), clock_(std::move(clock)) {}

  absl::StatusOr<jinja::Text> RenderText(const ChatInput& input, bool track_provenance) const;

  jinja::Template template_;
  SpecialTokens special_;
  jinja::Clock clock_;
};

}  // namespace ftune
