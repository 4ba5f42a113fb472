#include "data/tokenizer/bpe.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "data/tokenizer/merge_text.h"

namespace ftune {
namespace {

// A model and its vocabulary.
struct Model {
  Vocabulary vocabulary;
  std::unique_ptr<BpeModel> bpe;

  Model(std::vector<std::string> tokens, const std::vector<std::string>& merges, BpeOptions options)
      : vocabulary(std::move(tokens)) {
    std::vector<BpeModel::Merge> parsed;
    for (const std::string& merge : merges) {
      const auto ids = ParseMerge(merge, options.continuing_prefix.size(), vocabulary);
      REQUIRE(ids);
      parsed.push_back(*ids);
    }
    bpe = BpeModel::WithMerges(vocabulary, parsed, std::move(options));
  }

  // "text:begin-end" of each token.
  std::string Encode(std::string_view piece) const {
    ModelScratch scratch;
    std::vector<WordToken> tokens;
    bpe->Encode(piece, scratch, tokens);
    std::vector<std::string> shown;
    for (const WordToken& token : tokens) {
      shown.push_back(StrCat(vocabulary.Text(token.id), ":", token.begin, "-", token.end));
    }
    return StrJoin(shown, " ");
  }
};

TEST_CASE("merges go by rank, then from the left") {
  const Model model({"a", "b", "c", "ab", "bc", "abc", "aa", "aaa"}, {"b c", "a b", "a bc", "a a", "aa a"},
                    {});
  CHECK(model.Encode("abc") == "abc:0-3");  // b c comes before a b
  CHECK(model.Encode("abab") == "ab:0-2 ab:2-4");
  CHECK(model.Encode("aaa") == "aaa:0-3");
  CHECK(model.Encode("aaaa") == "aa:0-2 aa:2-4");  // both a a merge before aa a
  CHECK(model.Encode("") == "");
  CHECK(model.Encode("abc") == "abc:0-3");  // from the cache
}

TEST_CASE("a piece that is a token is that token, if merges are ignored") {
  const std::vector<std::string> tokens = {"a", "b", "c", "ab", "abc"};
  CHECK(Model(tokens, {"a b"}, {}).Encode("abc") == "ab:0-2 c:2-3");
  CHECK(Model(tokens, {"a b"}, {.ignore_merges = true}).Encode("abc") == "abc:0-3");
  CHECK(Model({"\u0120", "a", "\u0120a"}, {}, {.byte_level = true, .ignore_merges = true}).Encode(" a") ==
        "\u0120a:0-2");
}

TEST_CASE("bytes") {
  const Model model({"\u0120", "a", "\u00C3", "\u00A9", "\u0120a"}, {"\u0120 a"}, {.byte_level = true});
  CHECK(model.Encode(" a\u00E9") == "\u0120a:0-2 \u00C3:2-3 \u00A9:3-4");
  CHECK(model.Encode("a\nb ") == "a:0-1 \u0120:3-4");  // bytes that are no token are dropped, places stay
}

TEST_CASE("unknown characters") {
  const std::vector<std::string> tokens = {"<unk>", "a", "<0xC3>", "<0xA9>"};
  CHECK(Model(tokens, {}, {.unknown = 0}).Encode("axya") == "a:0-1 <unk>:1-2 <unk>:2-3 a:3-4");
  CHECK(Model(tokens, {}, {.unknown = 0, .fuse_unknown = true}).Encode("axya") == "a:0-1 <unk>:1-3 a:3-4");
  CHECK(Model(tokens, {}, {.unknown = 0, .fuse_unknown = true}).Encode("\u00E9\u65E5") == "<unk>:0-5");
  CHECK(Model(tokens, {}, {}).Encode("axa") == "a:0-1 a:2-3");
  const BpeOptions fallback{.byte_fallback = true, .unknown = 0};
  CHECK(Model(tokens, {}, fallback).Encode("a\u00E9") == "a:0-1 <0xC3>:1-2 <0xA9>:2-3");
  CHECK(Model(tokens, {}, fallback).Encode("\u00C3") == "<unk>:0-2");  // one of its bytes has no token
}

TEST_CASE("merges as text, of tokens that have spaces, too") {
  const Vocabulary vocabulary({" ", "  ", "a", "a ", "ab", "b"});
  const auto merge = [&](std::string_view text) {
    const auto found = ParseMerge(text, 0, vocabulary);
    return found ? StrCat(found->left, "+", found->right, "=", found->result) : "none";
  };
  CHECK(merge("a b") == "2+5=4");
  CHECK(merge("   ") == "0+0=1");  // the first space is no cut: nothing would stand before it
  CHECK(merge("a  ") == "2+0=3");
  CHECK(merge("b a") == "none");  // "ba" is no token
  CHECK(merge("ab") == "none");
  CHECK(merge("") == "none");
}

TEST_CASE("marks of words") {
  const Model model({"a", "##b", "b</w>", "##b</w>", "ab"}, {"a ##b"}, {.continuing_prefix = "##"});
  CHECK(model.Encode("ab") == "ab:0-2");
  const Model suffix({"a", "a</w>", "b</w>", "ab</w>"}, {"a b</w>"}, {.end_suffix = "</w>"});
  CHECK(suffix.Encode("ab") == "ab</w>:0-2");
  CHECK(suffix.Encode("aa") == "a:0-1 a</w>:1-2");
}

// Model with scores over U+2581 and letters.
struct ScoreModel {
  Vocabulary vocabulary{
      {"<unk>", "<s>", "\u2581", "a", "b", "ab", "\u2581a", "\u2581\u2581", "ba", "<0xC3>", "<0xA9>"}};
  std::vector<float> scores = {0, 0, -9, -10, -11, -3, -2, -1, -3, 0, 0};
  std::vector<bool> usable = {false, false, true, true, true, true, true, true, true, false, false};
  std::unique_ptr<BpeModel> bpe =
      BpeModel::WithScores(vocabulary, scores, usable, {.byte_fallback = true, .unknown = 0});

  std::string Encode(std::string_view piece) const {
    ModelScratch scratch;
    std::vector<WordToken> tokens;
    bpe->Encode(piece, scratch, tokens);
    std::vector<std::string> shown;
    for (const WordToken& token : tokens) {
      shown.push_back(StrCat(vocabulary.Text(token.id), ":", token.begin, "-", token.end));
    }
    return StrJoin(shown, " ");
  }
};

TEST_CASE("with scores the best token is merged first, of equals the left one") {
  const ScoreModel model;
  CHECK(model.Encode("\u2581ab") == "\u2581a:0-4 b:4-5");
  CHECK(model.Encode("aba") == "ab:0-2 a:2-3");
  CHECK(model.Encode("bab") == "ba:0-2 b:2-3");
  CHECK(model.Encode("\u2581\u2581\u2581a") == "\u2581\u2581:0-6 \u2581a:6-10");
  CHECK(model.Encode("ab\u2581ab") == "ab:0-2 \u2581a:2-6 b:6-7");
  CHECK(model.Encode("a\u00E9") == "a:0-1 <0xC3>:1-2 <0xA9>:2-3");
  CHECK(model.Encode("\u65E5") == "<unk>:0-3");
}

TEST_CASE("text never becomes a control token") {
  const Vocabulary vocabulary({"<", "s", ">", "<s", "<s>"});
  const std::vector<float> scores = {-5, -5, -5, -1, 0};
  ModelScratch scratch;
  std::vector<WordToken> tokens;
  BpeModel::WithScores(vocabulary, scores, {true, true, true, true, false}, {})
      ->Encode("<s>", scratch, tokens);
  REQUIRE(tokens.size() == 2);
  CHECK(tokens[0].id == 3);
  CHECK(tokens[1].id == 2);
}

TEST_CASE("words are cut only where no merge crosses their start") {
  // "b\u2581" is a token: a cut before U+2581 would keep it from being found.
  const Model crossing({"a", "b", "\u2581", "b\u2581"}, {"b \u2581"}, {});
  CHECK(crossing.Encode("ab\u2581a") == "a:0-1 b\u2581:1-5 a:5-6");
  const Model apart({"a", "b", "\u2581", "\u2581a", "\u2581\u2581"}, {"\u2581 \u2581", "\u2581 a"}, {});
  CHECK(apart.Encode("b\u2581a\u2581\u2581a") == "b:0-1 \u2581a:1-5 \u2581\u2581:5-11 a:11-12");
}

TEST_CASE("a long piece takes n log n") {
  const Model model({"a", "aa", "aaaa"}, {"a a", "aa aa"}, {});
  const std::string piece(1 << 20, 'a');
  ModelScratch scratch;
  std::vector<WordToken> tokens;
  model.bpe->Encode(piece, scratch, tokens);
  CHECK(tokens.size() == piece.size() / 4);
  CHECK(tokens.back().end == piece.size());
}

TEST_CASE("the cache gives what was put in, to all threads") {
  WordCache cache;
  const auto tokens_of = [](int word) {
    return std::vector<WordToken>{{word, 0, 1}, {word + 1, 1, static_cast<uint32_t>(word % 7 + 2)}};
  };
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0, found = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int word = 0; word < 20000; ++word) {
        const std::string text = StrCat("w", word);
        const uint64_t hash = TextHash()(text) % 4096;  // many on one place
        std::span<const WordToken> known;
        if (cache.Find(text, hash, &known)) {
          ++found;
          const auto expected = tokens_of(word);
          if (known.size() != 2 || known[0].id != expected[0].id || known[1].end != expected[1].end) ++wrong;
        } else {
          cache.Insert(text, hash, tokens_of(word));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  std::span<const WordToken> known;
  CHECK(cache.Find("w0", TextHash()("w0") % 4096, &known));
  CHECK(!cache.Find("never", 1, &known));
}

}  // namespace
}  // namespace ftune
