// What the template tests share: fixtures, a fixed clock, and short ways to parse and render.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "data/template/jinja_chat_template.h"

namespace ftune::test {

inline std::filesystem::path SourceDir() { return FTUNE_SOURCE_DIR; }
inline std::filesystem::path MaterialDir() {
  return SourceDir() / ".." / "shared" / "material" / "chat_templates";
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), "cannot read " << path.string());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

inline OrderedJson ReadFixture(const std::string& name) {
  return OrderedJson::parse(ReadFile(SourceDir() / "tests" / "golden" / "template" / name));
}

inline std::string OwnTemplate(const std::string& name) {
  return ReadFile(SourceDir() / "tests" / "unit" / "template" / "templates" / name);
}

// Prints a counted line where real models' templates are not there to test with.
inline bool HasMaterial(int cases) {
  if (std::filesystem::exists(MaterialDir())) return true;
  std::printf("SKIP %d template cases: %s is not there\n", cases, MaterialDir().string().c_str());
  return false;
}

// The clock of template_golden.py.
inline std::tm FixedClock() {
  std::tm time{};
  time.tm_year = 2026 - 1900;
  time.tm_mon = 1;
  time.tm_mday = 3;
  time.tm_hour = 14;
  time.tm_min = 5;
  time.tm_sec = 6;
  return time;
}

inline SpecialTokens Tokens() {
  SpecialTokens tokens;
  tokens.bos = SpecialToken{"<s>", 1};
  tokens.eos = SpecialToken{"</s>", 2};
  return tokens;
}

inline absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(std::string_view source,
                                                           const SpecialTokens& tokens = Tokens()) {
  return JinjaChatTemplate::Create(source, "test.jinja", tokens, OrderedJson::object(), FixedClock);
}

inline ChatInput Conversation(OrderedJson messages) {
  ChatInput input;
  input.messages = std::move(messages);
  return input;
}

// The rendering or the error's text.
inline std::string RenderOrError(std::string_view source, const ChatInput& input) {
  const auto chat_template = Parse(source);
  if (!chat_template.ok()) return std::string(chat_template.status().message());
  const absl::StatusOr<std::string> text = (*chat_template)->Render(input);
  return text.ok() ? *text : std::string(text.status().message());
}

inline std::string Bytes(const std::string& text, const TextSpan& span) {
  return text.substr(span.begin, span.end - span.begin);
}

// An assistant span as its message's index and its text.
struct SpanText {
  int message;
  std::string text;
  bool operator==(const SpanText&) const = default;
};

}  // namespace ftune::test

template <>
struct doctest::StringMaker<std::vector<ftune::test::SpanText>> {
  static String convert(const std::vector<ftune::test::SpanText>& spans) {
    std::string out;
    for (const auto& span : spans) out += std::to_string(span.message) + ":" + span.text + "\n";
    return out.c_str();
  }
};
