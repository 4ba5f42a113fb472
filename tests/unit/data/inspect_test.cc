#include "data/source/inspect.h"

#include <doctest/doctest.h>

#include "data/loader/assemble.h"
#include "fakes.h"

namespace ftune {
namespace {

std::vector<StoredToken> Make(const Tokenizer& tokenizer, const std::string& text, size_t first_trained) {
  std::vector<StoredToken> sample;
  for (const int32_t id : tokenizer.Encode(text, {}).ids) {
    sample.push_back(StoredToken::Make(id, sample.size() >= first_trained));
  }
  return sample;
}

TEST_CASE("plain: trained runs and special tokens are marked, line ends and control characters shown") {
  const GreedyTokenizer tokenizer;
  CHECK(RenderSample(Make(tokenizer, "<s>a\nb\x1b[0m\tc</s>", 3), tokenizer, false) ==
        "⟨<s>⟩a⏎\n[[b\\x1b[0m\tc⟨</s>⟩]]\n── end of segment: 11 tokens, 8 trained\n");
  // The first token is never predicted.
  CHECK(RenderSample(Make(tokenizer, "ab", 0), tokenizer, false) ==
        "a[[b]]\n── end of segment: 2 tokens, 1 trained\n");
}

TEST_CASE("colour: green and grey, neighbours in two shades, special tokens reversed") {
  const GreedyTokenizer tokenizer;
  CHECK(RenderSample(Make(tokenizer, "abcd</s>", 2), tokenizer, true) ==
        "\x1b[2ma\x1b[0m\x1b[90mb\x1b[0m\x1b[32mc\x1b[0m\x1b[92md\x1b[0m\x1b[32m\x1b[7m</s>\x1b[0m"
        "\n── end of segment: 5 tokens, 3 trained\n");
}

// Decodes as SentencePiece and byte-level models do: a space at the begin is dropped, half a character is
// U+FFFD.
class LossyTokenizer : public GreedyTokenizer {
 public:
  using GreedyTokenizer::GreedyTokenizer;
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string text = GreedyTokenizer::Decode(ids, skip_special);
    if (text.starts_with(' ')) text.erase(0, 1);
    if (text.ends_with('\xC3')) text.replace(text.size() - 1, 1, "\uFFFD");
    if (text.starts_with('\xBC')) text.replace(0, 1, "\uFFFD");
    return text;
  }
};

TEST_CASE("spaces before words stay, bytes of one character are shown as the character") {
  const LossyTokenizer tokenizer({" b"});
  CHECK(RenderSample(Make(tokenizer,
                          "a b\xC3\xBC"
                          "c b",
                          1),
                     tokenizer, false) == "a[[ büc b]]\n── end of segment: 6 tokens, 5 trained\n");
}

TEST_CASE("a pack: its samples and its unfilled tail") {
  const GreedyTokenizer tokenizer;
  const std::vector<StoredToken> a = Make(tokenizer, "abc", 1), b = Make(tokenizer, "de", 1);
  Batch batch = BlankBatch(2, 6, 0);
  FillPack(batch, 0, std::vector<std::span<const StoredToken>>{b});
  FillPack(batch, 1, std::vector<std::span<const StoredToken>>{a, b});
  CHECK(RenderPack(batch, 1, tokenizer, false) ==
        "a[[bc]]\n── end of segment: 3 tokens, 2 trained\nd[[e]]\n── end of segment: 2 tokens, 1 trained\n"
        "── 1 tokens of the pack are unfilled\n");
  CHECK(RenderPack(batch, 0, tokenizer, false).find("── 4 tokens of the pack are unfilled") !=
        std::string::npos);
}

}  // namespace
}  // namespace ftune
