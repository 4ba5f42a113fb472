#include "data/tokenizer/decoder.h"

#include <optional>
#include <tuple>
#include <utility>

#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/byte_tokens.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

// Gives its tokens to `next`, whole.
class WholeTokens : public DecodeSink {
 public:
  void Text(std::string_view part) final { token_.append(part); }
  void EndToken() final {
    Whole(token_);
    token_.clear();
  }

 private:
  virtual void Whole(std::string& token) = 0;
  std::string token_;
};

// Starts sinks of one kind; `parameters` are given to each, by reference.
template <typename Sink, typename... Parameters>
class DecoderOf : public Decoder {
 public:
  explicit DecoderOf(Parameters... parameters) : parameters_(std::move(parameters)...) {}
  std::unique_ptr<DecodeSink> Start(DecodeSink& next) const override {
    return std::apply(
        [&next](const Parameters&... parameters) { return std::make_unique<Sink>(next, parameters...); },
        parameters_);
  }

 private:
  std::tuple<Parameters...> parameters_;
};

template <typename Sink, typename... Parameters>
std::unique_ptr<Decoder> Make(Parameters... parameters) {
  return std::make_unique<DecoderOf<Sink, Parameters...>>(std::move(parameters)...);
}

class ByteLevelSink : public WholeTokens {
 public:
  explicit ByteLevelSink(DecodeSink& next) : next_(next) {}
  void Finish() override {
    if (!bytes_.empty()) next_.Text(kReplacementUtf8);
    next_.EndToken();
    next_.Finish();
  }

 private:
  void Whole(std::string& token) override {
    const auto decoded = FromByteLevel(token);
    bytes_ += decoded ? *decoded : token;
    const size_t sure = bytes_.size() - UnfinishedUtf8(bytes_);
    next_.Text(LossyUtf8(std::string_view(bytes_).substr(0, sure)));
    bytes_.erase(0, sure);
  }

  DecodeSink& next_;
  std::string bytes_;  // of a character that is not whole
};

class ReplaceSink : public WholeTokens {
 public:
  ReplaceSink(DecodeSink& next, const Regex& pattern, const std::string& content)
      : next_(next), matcher_(pattern), content_(content) {}
  void Finish() override { next_.Finish(); }

 private:
  void Whole(std::string& token) override {
    size_t done = 0;
    ForEachMatch(matcher_, token, [&](size_t begin, size_t end) {
      next_.Text(std::string_view(token).substr(done, begin - done));
      next_.Text(content_);
      done = end;
    });
    next_.Token(std::string_view(token).substr(done));
  }

  DecodeSink& next_;
  Regex::Matcher matcher_;
  const std::string& content_;
};

class ByteFallbackSink : public WholeTokens {
 public:
  explicit ByteFallbackSink(DecodeSink& next) : next_(next) {}
  void Finish() override {
    EndRun();
    next_.Finish();
  }

 private:
  void Whole(std::string& token) override {
    const int byte = ByteOfToken(token);
    if (byte >= 0) {
      run_.push_back(static_cast<char>(byte));
      return;
    }
    EndRun();
    next_.Token(token);
  }
  void EndRun() {
    size_t bad;
    ValidUtf8Prefix(run_, 0, &bad);
    if (bad == 0 && !run_.empty()) next_.Token(run_);
    for (size_t i = 0; bad > 0 && i < run_.size(); ++i) next_.Token(kReplacementUtf8);
    run_.clear();
  }

  DecodeSink& next_;
  std::string run_;  // bytes; whether they are text shows when the run ends
};

class FuseSink : public DecodeSink {
 public:
  explicit FuseSink(DecodeSink& next) : next_(next) {}
  void Text(std::string_view part) override { next_.Text(part); }
  void EndToken() override {}
  void Finish() override {
    next_.EndToken();
    next_.Finish();
  }

 private:
  DecodeSink& next_;
};

class StripSink : public DecodeSink {
 public:
  StripSink(DecodeSink& next, const std::string& content, int64_t start, int64_t stop)
      : next_(next), content_(content), start_(start), stop_(stop), left_(start) {}

  void Text(std::string_view part) override {
    held_.append(part);
    while (left_ > 0 && held_.starts_with(content_)) {
      held_.erase(0, content_.size());
      --left_;
    }
    // A part may end inside of what has to go.
    if (left_ > 0 && std::string_view(content_).starts_with(held_)) return;
    left_ = 0;
    if (stop_ > 0) Give(held_.size() - Trailing());
    if (stop_ <= 0) Give(held_.size());
  }
  void EndToken() override {
    for (int64_t i = 0; i < stop_ && held_.ends_with(content_); ++i)
      held_.resize(held_.size() - content_.size());
    Give(held_.size());
    next_.EndToken();
    left_ = start_;
  }
  void Finish() override { next_.Finish(); }

 private:
  void Give(size_t bytes) {
    next_.Text(std::string_view(held_).substr(0, bytes));
    held_.erase(0, bytes);
  }
  // Bytes at the end that may have to go: `content` up to `stop_` times, and the start of one.
  size_t Trailing() const {
    size_t partial = std::min(content_.size() - 1, held_.size());
    while (!std::string_view(held_).ends_with(std::string_view(content_).substr(0, partial))) --partial;
    std::string_view rest(held_);
    rest.remove_suffix(partial);
    for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
    return held_.size() - rest.size();
  }

  DecodeSink& next_;
  const std::string& content_;
  int64_t start_, stop_;
  int64_t left_;      // how often `content` may still go from the front of this token
  std::string held_;  // of this token, not given out yet
};

class MetaspaceSink : public WholeTokens {
 public:
  MetaspaceSink(DecodeSink& next, const std::string& replacement, bool prefixed)
      : next_(next), replacement_(replacement), drop_(prefixed) {}
  void Finish() override { next_.Finish(); }

 private:
  void Whole(std::string& token) override {
    const std::string_view text = token;
    size_t done = 0;
    for (size_t found = text.find(replacement_); found != text.npos; found = text.find(replacement_, done)) {
      next_.Text(text.substr(done, found - done));
      if (!drop_) next_.Text(" ");
      done = found + replacement_.size();
    }
    next_.Token(text.substr(done));
    drop_ = false;
  }

  DecodeSink& next_;
  const std::string& replacement_;
  bool drop_;  // this is the first token, whose space was put before the text
};

// A token is held back until it is known whether it is the last.
class BpeSink : public WholeTokens {
 public:
  BpeSink(DecodeSink& next, const std::string& suffix) : next_(next), suffix_(suffix) {}
  void Finish() override {
    if (held_) Give("");
    next_.Finish();
  }

 private:
  void Whole(std::string& token) override {
    if (held_) Give(" ");
    held_ = token;
  }
  void Give(std::string_view in_place) {
    const std::string_view text = *held_;
    size_t done = 0;
    while (!suffix_.empty()) {
      const size_t found = text.find(suffix_, done);
      if (found == text.npos) break;
      next_.Text(text.substr(done, found - done));
      next_.Text(in_place);
      done = found + suffix_.size();
    }
    next_.Token(text.substr(done));
  }

  DecodeSink& next_;
  const std::string& suffix_;
  std::optional<std::string> held_;
};

class SpacedSink : public DecodeSink {
 public:
  explicit SpacedSink(DecodeSink& next) : next_(next) {}
  void Text(std::string_view part) override {
    Separate();
    next_.Text(part);
  }
  void EndToken() override {
    Separate();
    next_.EndToken();
    between_ = true;
  }
  void Finish() override { next_.Finish(); }

 private:
  void Separate() {
    if (between_) next_.Text(" ");
    between_ = false;
  }

  DecodeSink& next_;
  bool between_ = false;
};

std::string Utf8(char32_t c) {
  std::string text;
  AppendUtf8(text, c);
  return text;
}

}  // namespace

DecoderChain::DecoderChain(std::span<const std::unique_ptr<Decoder>> decoders)
    : output_(std::make_unique<Output>()) {
  for (size_t i = decoders.size(); i > 0; --i) steps_.push_back(decoders[i - 1]->Start(first()));
}

std::string DecoderChain::Take() { return std::exchange(output_->text, {}); }

std::unique_ptr<Decoder> MakeByteLevelDecoder() { return Make<ByteLevelSink>(); }
std::unique_ptr<Decoder> MakeReplaceDecoder(Regex pattern, std::string content) {
  return Make<ReplaceSink>(std::move(pattern), std::move(content));
}
std::unique_ptr<Decoder> MakeByteFallbackDecoder() { return Make<ByteFallbackSink>(); }
std::unique_ptr<Decoder> MakeFuseDecoder() { return Make<FuseSink>(); }
std::unique_ptr<Decoder> MakeStripDecoder(char32_t content, int64_t start, int64_t stop) {
  return Make<StripSink>(Utf8(content), start, stop);
}
std::unique_ptr<Decoder> MakeMetaspaceDecoder(char32_t replacement, bool prefixed) {
  return Make<MetaspaceSink>(Utf8(replacement), prefixed);
}
std::unique_ptr<Decoder> MakeBpeDecoder(std::string suffix) { return Make<BpeSink>(std::move(suffix)); }
std::unique_ptr<Decoder> MakeSpacedDecoder() { return Make<SpacedSink>(); }

}  // namespace ftune
