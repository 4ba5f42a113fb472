#include "data/source/inspect.h"

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

// One or several tokens that are shown together, because only together they make whole characters.
struct Piece {
  std::string text;
  bool trained = false;
  bool special = false;
};

// The text that ids[begin, end) add behind the token before them; a token alone may decode differently
// (SentencePiece drops the space at the begin of a text).
std::string TextOf(std::span<const int32_t> ids, size_t begin, size_t end, const Tokenizer& tokenizer) {
  if (begin > 0) {
    const std::string before = tokenizer.Decode(ids.subspan(begin - 1, 1), false);
    std::string both = tokenizer.Decode(ids.subspan(begin - 1, end - begin + 1), false);
    if (both.starts_with(before)) return both.substr(before.size());
  }
  return tokenizer.Decode(ids.subspan(begin, end - begin), false);
}

std::vector<Piece> PiecesOf(const Sample& sample, const Tokenizer& tokenizer) {
  constexpr size_t kMaxTokens = 4;  // a character has at most four bytes
  const std::span<const int32_t> ids(sample.ids);
  std::vector<Piece> pieces;
  for (size_t begin = 0, end; begin < ids.size(); begin = end) {
    end = begin + 1;
    const auto trained = [&](size_t i) { return i > 0 && sample.trained[i] != 0; };
    Piece piece{.trained = trained(begin), .special = tokenizer.IsSpecial(ids[begin])};
    if (piece.special) {
      piece.text = tokenizer.IdToToken(ids[begin]);
    } else {
      piece.text = TextOf(ids, begin, end, tokenizer);
      while (piece.text.ends_with(kReplacementUtf8) && end < ids.size() && end - begin < kMaxTokens &&
             trained(end) == piece.trained && !tokenizer.IsSpecial(ids[end])) {
        piece.text = TextOf(ids, begin, ++end, tokenizer);
      }
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::string Visible(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string visible;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      visible += "⏎\n";
    } else if (c != '\t' && (byte < 0x20 || byte == 0x7f)) {
      StrAppend(visible, "\\x", kHex[byte >> 4], kHex[byte & 15]);
    } else {
      visible += c;
    }
  }
  return visible;
}

constexpr std::array<const char*, 2> kTrainedShades = {"\x1b[32m", "\x1b[92m"};
constexpr std::array<const char*, 2> kMaskedShades = {"\x1b[2m", "\x1b[90m"};
constexpr char kReversed[] = "\x1b[7m";
constexpr char kReset[] = "\x1b[0m";

std::string InColour(const std::vector<Piece>& pieces) {
  std::string out;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const auto& shades = piece.trained ? kTrainedShades : kMaskedShades;
    StrAppend(out, shades[i % 2], piece.special ? kReversed : "", Visible(piece.text), kReset);
  }
  return out;
}

std::string Plain(const std::vector<Piece>& pieces) {
  std::string out;
  bool trained = false;
  for (const Piece& piece : pieces) {
    if (piece.trained != trained) out += piece.trained ? "[[" : "]]";
    trained = piece.trained;
    StrAppend(out, piece.special ? "⟨" : "", Visible(piece.text), piece.special ? "⟩" : "");
  }
  if (trained) out += "]]";
  return out;
}

}  // namespace

std::string RenderSample(std::span<const StoredToken> tokens, const Tokenizer& tokenizer, bool colour) {
  const Sample sample = CopySample(tokens);
  const std::vector<Piece> pieces = PiecesOf(sample, tokenizer);
  return StrCat(colour ? InColour(pieces) : Plain(pieces), "\n── end of segment: ", sample.size(),
                " tokens, ", sample.trained_tokens(), " trained\n");
}

std::string RenderPack(const Batch& batch, int64_t pack, const Tokenizer& tokenizer, bool colour) {
  const int64_t pack_begin = pack * batch.capacity;
  const int64_t pack_end = pack_begin + batch.capacity;
  std::string out;
  for (const Segment& segment : batch.segments) {
    if (segment.begin < pack_begin || segment.begin >= pack_end) continue;
    std::vector<StoredToken> sample;
    bool any_trained = false;
    for (int32_t i = 0; i < segment.length; ++i) {
      const int32_t at = segment.begin + i;
      const bool trained = i > 0 && batch.labels[at - 1] != kIgnoreLabel;
      sample.push_back(StoredToken::Make(batch.ids[at], trained));
      any_trained = any_trained || trained;
    }
    // Every sample has a trained token; a tail has none.
    if (!any_trained && segment.begin + segment.length == pack_end) {
      StrAppend(out, "── ", segment.length, " tokens of the pack are unfilled\n");
    } else {
      out += RenderSample(sample, tokenizer, colour);
    }
  }
  return out;
}

}  // namespace ftune
