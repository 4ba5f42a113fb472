#include "data/tokenizer/decoder.h"

#include <charconv>

#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

class ByteLevelDecoder : public Decoder {
 public:
  void Apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) {
      const auto decoded = FromByteLevel(token);
      bytes += decoded ? *decoded : token;
    }
    tokens = {LossyUtf8(bytes)};
  }
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void Apply(std::vector<std::string>& tokens) const override {
    Regex::Matcher matcher(pattern_);
    for (std::string& token : tokens) {
      std::string changed;
      size_t done = 0;
      ForEachMatch(matcher, token, [&](size_t begin, size_t end) {
        changed.append(token, done, begin - done).append(content_);
        done = end;
      });
      changed.append(token, done);
      token = std::move(changed);
    }
  }

 private:
  Regex pattern_;
  std::string content_;
};

// The byte of a token <0x0A>, -1 for other tokens.
int ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = -1;
  const auto result = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return result.ec == std::errc() && result.ptr == token.data() + 5 ? byte : -1;
}

class ByteFallbackDecoder : public Decoder {
 public:
  void Apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> decoded;
    std::string run;
    const auto end_run = [&] {
      size_t bad;
      ValidUtf8Prefix(run, 0, &bad);
      if (bad == 0) {
        if (!run.empty()) decoded.push_back(run);
      } else {
        decoded.insert(decoded.end(), run.size(), std::string(kReplacementUtf8));
      }
      run.clear();
    };
    for (std::string& token : tokens) {
      const int byte = ByteOfToken(token);
      if (byte >= 0) {
        run.push_back(static_cast<char>(byte));
        continue;
      }
      end_run();
      decoded.push_back(std::move(token));
    }
    end_run();
    tokens = std::move(decoded);
  }
};

class FuseDecoder : public Decoder {
 public:
  void Apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens = {std::move(all)};
  }
};

class StripDecoder : public Decoder {
 public:
  StripDecoder(char32_t content, int64_t start, int64_t stop) : start_(start), stop_(stop) {
    AppendUtf8(content_, content);
  }

  void Apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class MetaspaceDecoder : public Decoder {
 public:
  MetaspaceDecoder(char32_t replacement, bool prefixed) : prefixed_(prefixed) {
    AppendUtf8(replacement_, replacement);
  }

  void Apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string changed;
      size_t done = 0;
      for (size_t found = tokens[i].find(replacement_); found != std::string::npos;
           found = tokens[i].find(replacement_, done)) {
        changed.append(tokens[i], done, found - done);
        if (i > 0 || !prefixed_) changed.push_back(' ');
        done = found + replacement_.size();
      }
      changed.append(tokens[i], done);
      tokens[i] = std::move(changed);
    }
  }

 private:
  std::string replacement_;
  bool prefixed_;
};

}  // namespace

std::unique_ptr<Decoder> MakeByteLevelDecoder() { return std::make_unique<ByteLevelDecoder>(); }
std::unique_ptr<Decoder> MakeReplaceDecoder(Regex pattern, std::string content) {
  return std::make_unique<ReplaceDecoder>(std::move(pattern), std::move(content));
}
std::unique_ptr<Decoder> MakeByteFallbackDecoder() { return std::make_unique<ByteFallbackDecoder>(); }
std::unique_ptr<Decoder> MakeFuseDecoder() { return std::make_unique<FuseDecoder>(); }
std::unique_ptr<Decoder> MakeStripDecoder(char32_t content, int64_t start, int64_t stop) {
  return std::make_unique<StripDecoder>(content, start, stop);
}
std::unique_ptr<Decoder> MakeMetaspaceDecoder(char32_t replacement, bool prefixed) {
  return std::make_unique<MetaspaceDecoder>(replacement, prefixed);
}

}  // namespace ftune
