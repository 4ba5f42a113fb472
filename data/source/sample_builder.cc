#include "data/source/sample_builder.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/audit/audit_sample.h"
#include "data/source/trained_tokens.h"

namespace ftune {
namespace {

Sample AllTrained(std::vector<int32_t> ids) {
  const size_t count = ids.size();
  return {std::move(ids), std::vector<uint8_t>(count, 1)};
}

std::optional<int32_t> BosOf(const Tokenizer& tokenizer) {
  const auto& bos = tokenizer.special().bos;
  return bos ? std::optional(bos->id) : std::nullopt;
}

}  // namespace

SampleBuilder::SampleBuilder(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                             const SampleOptions& options)
    : tokenizer_(tokenizer),
      chat_template_(chat_template),
      options_(options),
      read_options_{
          .chat = {.train_on_turns = options.train_on_turns, .roles_to_train = options.roles_to_train},
          .has_chat_template = chat_template != nullptr,
          .vocab_size = tokenizer.vocab_size()},
      length_{.sequence_len = options.sequence_len,
              .excess = options.excess_length_strategy,
              .side = options.truncation_side,
              .bos = BosOf(tokenizer)} {}

absl::StatusOr<BuiltRow> SampleBuilder::Build(const OrderedJson& row, RowFormat format, const RowPlace& place,
                                              const RowMapping& mapping) const {
  FTUNE_ASSIGN_OR_RETURN(const RowContent content,
                         ftune::ReadRow(RowFields(row, place, mapping), format, read_options_));
  if (const auto* chat = std::get_if<ChatRow>(&content)) return Conversation(*chat, format, place);
  if (const auto* document = std::get_if<Document>(&content)) return BuildDocument(document->text, place);
  if (const auto* tokens = std::get_if<TokenRow>(&content)) {
    return Audited({tokens->ids, tokens->trained}, format, place);
  }
  if (const auto* segments = std::get_if<SegmentRow>(&content))
    return Audited(Joined(*segments), format, place);
  return Audited(Completed(std::get<PromptCompletion>(content)), format, place);
}

absl::StatusOr<BuiltRow> SampleBuilder::BuildDocument(std::string_view text, const RowPlace& place) const {
  Sample sample = AllTrained(tokenizer_.Encode(text, {.add_special_tokens = true}).ids);
  AppendEos(sample, 1);
  return Audited(std::move(sample), RowFormat::kText, place);
}

absl::StatusOr<BuiltRow> SampleBuilder::Audited(Sample sample, RowFormat format,
                                                const RowPlace& place) const {
  // Texts that bring a BOS of their own get no second one; ids that stand in the data are taken as they are.
  const bool mended = format != RowFormat::kTokens && TakeOutDoubledBos(sample);
  std::vector<int64_t> turn_ends;  // of what ends as an answer does
  if (format == RowFormat::kPromptCompletion || format == RowFormat::kAlpaca) {
    if (sample.size() > 0) turn_ends.push_back(sample.size() - 1);
  }
  AuditCounts audit = AuditSample(sample, turn_ends, TokensBeforeCut(sample, length_), tokenizer_, place);
  audit.mended_bos = mended;
  audit.formats[std::string(RowFormatName(format))] = 1;
  FTUNE_ASSIGN_OR_RETURN(BuiltRow built, Finish(std::move(sample), format, place));
  built.audit = std::move(audit);
  return built;
}

bool SampleBuilder::TakeOutDoubledBos(Sample& sample) const {
  const auto& bos = tokenizer_.special().bos;
  bool doubled = false;
  while (bos && sample.size() > 1 && sample.ids[0] == bos->id && sample.ids[1] == bos->id) {
    sample.ids.erase(sample.ids.begin());
    sample.trained.erase(sample.trained.begin());
    doubled = true;
  }
  return doubled;
}

absl::StatusOr<BuiltRow> SampleBuilder::Conversation(const ChatRow& chat, RowFormat format,
                                                     const RowPlace& place) const {
  if (chat_template_ == nullptr) {
    return RowError(place, {.message = "the row is a conversation, but the model has no chat template",
                            .hint = "name one with data.chat_template"});
  }
  FTUNE_ASSIGN_OR_RETURN(std::vector<ConversationSample> samples,
                         ConversationSamples(chat, *chat_template_, tokenizer_,
                                             {options_.train_on_inputs, options_.split_turns}, place));
  BuiltRow whole;
  for (ConversationSample& sample : samples) {
    AuditCounts audit = AuditSample(sample.sample, sample.turn_ends, TokensBeforeCut(sample.sample, length_),
                                    tokenizer_, place);
    audit.mended_bos = sample.doubled_bos;
    audit.formats[std::string(RowFormatName(format))] = 1;
    for (const RoleTokens& role : sample.roles) {
      audit.roles[role.role] = {.tokens = role.tokens, .trained_tokens = role.trained};
    }
    whole.audit.Merge(audit);
    FTUNE_ASSIGN_OR_RETURN(BuiltRow built, Finish(std::move(sample.sample), RowFormat::kMessages, place));
    std::move(built.samples.begin(), built.samples.end(), std::back_inserter(whole.samples));
    std::move(built.dropped.begin(), built.dropped.end(), std::back_inserter(whole.dropped));
    whole.tokens += built.tokens;
    whole.truncated = whole.truncated || built.truncated;
    whole.split = whole.split || built.split;
  }
  return whole;
}

Sample SampleBuilder::Completed(const PromptCompletion& row) const {
  const std::string text = row.prompt + row.completion;
  Encoding encoding = tokenizer_.Encode(text, {.add_special_tokens = true});
  const TextSpan span = {options_.train_on_inputs ? 0 : static_cast<int64_t>(row.prompt.size()),
                         static_cast<int64_t>(text.size())};
  std::vector<uint8_t> trained = TokensInSpans(text, encoding.spans, {&span, 1});
  Sample sample{std::move(encoding.ids), std::move(trained)};
  AppendEos(sample, 1);
  return sample;
}

Sample SampleBuilder::Joined(const SegmentRow& row) const {
  std::string text;
  std::vector<TextSpan> spans;  // neighbours that are trained are one: a token may run from one into the next
  for (const SegmentRow::Segment& segment : row.segments) {
    const auto begin = static_cast<int64_t>(text.size());
    text += segment.text;
    const auto end = static_cast<int64_t>(text.size());
    if (!segment.trained && !options_.train_on_inputs) continue;
    if (!spans.empty() && spans.back().end == begin) {
      spans.back().end = end;
    } else {
      spans.push_back({begin, end});
    }
  }
  Encoding encoding = tokenizer_.Encode(text);
  std::vector<uint8_t> trained = TokensInSpans(text, encoding.spans, spans);
  return {std::move(encoding.ids), std::move(trained)};
}

void SampleBuilder::AppendEos(Sample& sample, uint8_t trained) const {
  const auto& eos = tokenizer_.special().eos;
  if (!eos || (!sample.ids.empty() && sample.ids.back() == eos->id)) return;
  sample.ids.push_back(eos->id);
  sample.trained.push_back(trained);
}

absl::StatusOr<BuiltRow> SampleBuilder::Finish(Sample sample, RowFormat format, const RowPlace& place) const {
  BuiltRow built;
  built.tokens = sample.size();
  FTUNE_ASSIGN_OR_RETURN(FittedSample fitted, FitLength(std::move(sample), format, length_, place));
  built.samples = std::move(fitted.samples);
  built.dropped = std::move(fitted.dropped);
  built.truncated = fitted.truncated;
  built.split = fitted.split;
  return built;
}

}  // namespace ftune
