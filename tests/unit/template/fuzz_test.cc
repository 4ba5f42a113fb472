// Broken templates: cut short, bytes changed, pieces swapped. They may be refused or render; they must not
// crash, hang or give spans that lie outside the text.
#include <cstdint>
#include <vector>

#include "tests/unit/template/template_test_util.h"

namespace ftune {
namespace {

constexpr int kIterations = 4000;
constexpr uint64_t kSeed = 20260203;

// splitmix64: the same mutations on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  size_t Below(size_t bound) { return bound == 0 ? 0 : Next() % bound; }

 private:
  uint64_t state_;
};

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const auto& folder : {test::SourceDir() / "tests" / "unit" / "template" / "templates",
                             test::MaterialDir() / "jinja" / "model_official"}) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      // Many times each: the small pieces below are many, and spans come from whole templates.
      seeds.insert(seeds.end(), 20, test::ReadFile(entry.path()));
    }
  }
  const OrderedJson snippets = test::ReadFixture("snippets.json");
  for (const OrderedJson& snippet : snippets["cases"])
    seeds.push_back(snippet["template"].get<std::string>());
  return seeds;
}

std::string Mutate(std::string text, const std::vector<std::string>& seeds, Random& random) {
  for (size_t count = 1 + random.Below(3); count > 0; --count) {
    const size_t at = random.Below(text.size() + 1);
    switch (random.Below(5)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random.Next());
        break;
      case 2:
        text.erase(at, random.Below(20));
        break;
      case 3: {
        const std::string& other = seeds[random.Below(seeds.size())];
        text.insert(at, other.substr(random.Below(other.size() + 1), random.Below(40)));
        break;
      }
      default: {
        static constexpr std::string_view kPieces[] = {
            "{{", "}}",   "{%",   "%}",          "-%}",          "[", "]", "(", ")", "|", ".",
            "-1", "not ", " if ", "{% endif %}", "{% endfor %}", "*", "'", "\\"};
        text.insert(at, kPieces[random.Below(std::size(kPieces))]);
      }
    }
  }
  return text;
}

TEST_CASE("fuzz: mutated templates never crash") {
  const std::vector<std::string> seeds = Seeds();
  REQUIRE(seeds.size() > 700);
  ChatInput with_tools = test::Conversation(OrderedJson::parse(
      R"([{"role": "system", "content": "s"}, {"role": "user", "content": "yes"},
          {"role": "assistant", "content": " yes ", "reasoning_content": "yes",
           "tool_calls": [{"id": "abcdefghi", "function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}]},
          {"role": "tool", "content": "yes"}, {"role": "assistant", "content": ""}])"));
  with_tools.extra = test::ReadFixture("snippets.json")["head"]["variables"];
  const ChatInput plain = test::Conversation(OrderedJson::parse(
      R"([{"role": "user", "content": "yes"}, {"role": "assistant", "content": " yes "},
          {"role": "user", "content": ""}, {"role": "assistant", "content": ""}])"));
  Random random(kSeed);
  int rendered = 0;
  int refused = 0;
  int with_spans = 0;
  for (int i = 0; i < kIterations; ++i) {
    const std::string source = Mutate(seeds[random.Below(seeds.size())], seeds, random);
    CAPTURE(i);
    const ChatInput& input = random.Below(2) == 0 ? plain : with_tools;
    const auto parsed = test::Parse(source);
    const absl::StatusOr<std::string> text =
        parsed.ok() ? (*parsed)->Render(input) : absl::StatusOr<std::string>(parsed.status());
    if (!text.ok()) {
      ++refused;
      continue;
    }
    ++rendered;
    const absl::StatusOr<RenderedChat> chat = (*parsed)->RenderWithSpans(input, AssistantMessages(input));
    if (!chat.ok()) continue;
    if (!chat->spans.empty()) ++with_spans;
    CHECK(chat->text == *text);
    int64_t end = 0;
    for (const auto& span : chat->spans) {
      CHECK(span.bytes.begin >= end);
      CHECK(span.bytes.end > span.bytes.begin);
      end = span.bytes.end;
    }
    CHECK(end <= static_cast<int64_t>(chat->text.size()));
  }
  // Every way is taken often, or the test would test little.
  CHECK(refused > kIterations / 4);
  CHECK(rendered > kIterations / 8);
  CHECK(with_spans > kIterations / 40);
}

}  // namespace
}  // namespace ftune
