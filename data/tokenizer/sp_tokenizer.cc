#include "data/tokenizer/sp_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "data/tokenizer/aligned_text.h"
#include "data/tokenizer/sentence_piece.h"
#include "data/tokenizer/text_hash.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

class SpTokenizer : public Tokenizer {
 public:
  SpTokenizer(std::unique_ptr<SentencePiece> model, std::vector<AddedToken> added, TokenizerConfig config)
      : model_(std::move(model)), added_(std::move(added)), legacy_(config.legacy) {
    vocab_size_ = model_->size();
    for (const AddedToken& token : added_) {
      matcher_.Add(token.text, &token);
      added_by_id_.emplace(token.id, &token);
      added_by_text_.emplace(token.text, token.id);
      vocab_size_ = std::max<int64_t>(vocab_size_, token.id + 1);
    }
    special_ = FindSpecialTokens(config, *this);
    add_bos_ = config.add_bos.value_or(true) && special_.bos;
    add_eos_ = config.add_eos.value_or(false) && special_.eos;
    chat_template_ = std::move(config.chat_template);
  }

  Encoding Encode(std::string_view text, const EncodeOptions& options) const override {
    Encoding encoding;
    AlignedBuffer repaired;
    const AlignedView document = AsUtf8(text, repaired);
    if (options.add_special_tokens && add_bos_) Append(special_.bos->id, {0, 0}, encoding);
    std::vector<TextSection> sections;
    matcher_.Split(document.text, options.parse_special, sections);
    for (const TextSection& section : sections) {
      if (section.token != nullptr) {
        Append(section.token->id, document.Span(section.begin, section.end), encoding);
      } else {
        EncodeSection(document.Slice(section.begin, section.end), PrefixAt(&section == &sections[0]),
                      encoding);
      }
    }
    const auto end = static_cast<int64_t>(text.size());
    if (options.add_special_tokens && add_eos_) Append(special_.eos->id, {end, end}, encoding);
    return encoding;
  }

  std::string Decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string text;
    std::vector<int32_t> run;  // of the model's own ids
    bool first = true;
    const auto end_run = [&] {
      if (!run.empty()) text += model_->Decode(run, PrefixAt(first));
      if (!run.empty()) first = false;
      run.clear();
    };
    for (const int32_t id : ids) {
      const AddedToken* added = Added(id);
      if (added == nullptr) {
        if (id >= 0 && id < model_->size()) run.push_back(id);
        continue;
      }
      end_run();
      // BOS stems from no text: what follows is still the first.
      if (!special_.bos || id != special_.bos->id) first = false;
      if (!skip_special || !added->special) text += added->text;
    }
    end_run();
    return text;
  }

  std::unique_ptr<TextDecoder> MakeDecoder(bool skip_special) const override {
    return std::make_unique<StreamDecoder>(*this, skip_special);
  }

  int64_t vocab_size() const override { return vocab_size_; }

  std::optional<int32_t> TokenToId(std::string_view token) const override {
    const auto found = added_by_text_.find(token);
    if (found != added_by_text_.end()) return found->second;
    const int32_t id = model_->Find(token);
    return id < 0 ? std::nullopt : std::optional(id);
  }

  std::string IdToToken(int32_t id) const override {
    if (const AddedToken* added = Added(id)) return added->text;
    return id >= 0 && id < model_->size() ? model_->Text(id) : "";
  }

  bool IsSpecial(int32_t id) const override {
    const AddedToken* added = Added(id);
    return added != nullptr && added->special;
  }

 private:
  // Gives the library the ids that are new behind the first ones of the run, so that it knows that they do
  // not begin the text.
  class StreamDecoder : public TextDecoder {
   public:
    StreamDecoder(const SpTokenizer& tokenizer, bool skip_special)
        : tokenizer_(tokenizer), skip_special_(skip_special) {}

    std::string Push(int32_t id) override {
      const AddedToken* added = tokenizer_.Added(id);
      if (added == nullptr) {
        if (id < 0 || id >= tokenizer_.model_->size()) return "";
        in_run_ = true;
        new_ids_.push_back(id);
        const int byte = tokenizer_.model_->Byte(id);
        if (byte < 0) bytes_.clear();
        if (byte >= 0) bytes_.push_back(static_cast<char>(byte));
        return UnfinishedUtf8(bytes_) > 0 ? "" : TakeText();
      }
      std::string text = EndRun();
      if (!tokenizer_.special_.bos || id != tokenizer_.special_.bos->id) first_ = false;
      if (!skip_special_ || !added->special) text += added->text;
      return text;
    }
    std::string Finish() override { return EndRun(); }

   private:
    std::string EndRun() {
      std::string text = TakeText();
      if (in_run_) first_ = false;
      in_run_ = false;
      context_.clear();
      new_ids_.clear();
      bytes_.clear();
      return text;
    }

    std::string TakeText() {
      if (new_ids_.empty()) return "";
      const auto prefix = tokenizer_.PrefixAt(first_);
      std::vector<int32_t> ids = context_;
      ids.insert(ids.end(), new_ids_.begin(), new_ids_.end());
      const size_t before = context_.empty() ? 0 : tokenizer_.model_->Decode(context_, prefix).size();
      std::string text = tokenizer_.model_->Decode(ids, prefix);
      text.erase(0, before);
      bytes_.clear();
      // How the text begins is not known before there is some.
      if (context_.empty() && text.empty()) return "";
      if (context_.empty()) context_ = new_ids_;
      new_ids_.clear();
      return text;
    }

    const SpTokenizer& tokenizer_;
    bool skip_special_;
    bool first_ = true;                       // no run of the model's ids has ended yet
    bool in_run_ = false;                     // of the model's ids
    std::vector<int32_t> context_, new_ids_;  // of this run: the first that gave text; those not given out
    std::string bytes_;                       // of byte tokens at the end of new_ids_
  };

  static void Append(int32_t id, TextSpan span, Encoding& encoding) {
    encoding.ids.push_back(id);
    encoding.spans.push_back(span);
  }

  SentencePiece::Prefix PrefixAt(bool first) const {
    return first || legacy_ ? SentencePiece::Prefix::kAsModel : SentencePiece::Prefix::kNone;
  }

  void EncodeSection(const AlignedView& section, SentencePiece::Prefix prefix, Encoding& encoding) const {
    for (const SentencePieceToken& token : model_->Encode(section.text, prefix)) {
      Append(token.id, section.Span(token.begin, token.end), encoding);
    }
  }

  const AddedToken* Added(int32_t id) const {
    const auto found = added_by_id_.find(id);
    return found == added_by_id_.end() ? nullptr : found->second;
  }

  std::unique_ptr<SentencePiece> model_;
  std::vector<AddedToken> added_;
  bool legacy_;
  AddedTokenMatcher matcher_;
  absl::flat_hash_map<int32_t, const AddedToken*> added_by_id_;
  TextMap<int32_t> added_by_text_;
  int64_t vocab_size_ = 0;
  bool add_bos_ = false, add_eos_ = false;
};

// The tokens that the library does not look for in text: the model's control symbols, and `added`.
std::vector<AddedToken> CutOutTokens(const SentencePiece& model, std::vector<AddedToken> added) {
  for (int32_t id = 0; id < model.size(); ++id) {
    if (!model.IsControl(id) && !model.IsUnknown(id)) continue;
    const bool known =
        std::any_of(added.begin(), added.end(), [&](const AddedToken& t) { return t.id == id; });
    if (!known) added.push_back({.id = id, .text = model.Text(id), .special = true});
  }
  return added;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSentencePieceTokenizer(const std::filesystem::path& path,
                                                                      TokenizerConfig config) {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  std::string error;
  std::unique_ptr<SentencePiece> model = SentencePiece::Load(file.text(), error);
  if (model == nullptr) {
    return DataError(
        {.file = path.string(),
         .message = StrCat("not a SentencePiece model (", error, ")"),
         .expected = "a .model file of SentencePiece or tiktoken, a tokenizer.json or a .gguf file"});
  }
  const std::pair<std::optional<std::string>*, int32_t> roles[] = {{&config.bos, model->bos()},
                                                                   {&config.eos, model->eos()},
                                                                   {&config.pad, model->pad()},
                                                                   {&config.unk, model->unk()}};
  for (const auto& [role, id] : roles) {
    if (!*role && id >= 0) *role = model->Text(id);
  }
  std::vector<AddedToken> added = CutOutTokens(*model, std::move(config.added));
  return std::make_unique<SpTokenizer>(std::move(model), std::move(added), std::move(config));
}

}  // namespace ftune
