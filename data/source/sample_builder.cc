#include "data/source/sample_builder.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/loader/batch.h"
#include "data/source/trained_tokens.h"

namespace ftune {
namespace {

absl::StatusOr<std::string> TextField(const OrderedJson& row, const char* key, const RowPlace& place) {
  const auto field = row.find(key);
  if (field == row.end()) {
    return RowError(place,
                    {.message = StrCat("the row has no ", key), .found = DescribeKeys(row), .expected = key});
  }
  if (!field->is_string())
    return RowError(place, {.key = key, .found = DescribeValue(*field), .expected = "a string"});
  return field->get<std::string>();
}

// A list of integers in [low, high).
absl::StatusOr<std::vector<int32_t>> IntegerList(const OrderedJson& list, const std::string& key, int64_t low,
                                                 int64_t high, const RowPlace& place) {
  if (!list.is_array()) {
    return RowError(place, {.key = key, .found = DescribeValue(list), .expected = "a list of integers"});
  }
  std::vector<int32_t> values;
  values.reserve(list.size());
  for (const OrderedJson& item : list) {
    const bool fits = item.is_number_integer() && item >= low && item < high;
    if (!fits) {
      return RowError(place, {.key = StrCat(key, "[", values.size(), "]"),
                              .found = DescribeValue(item),
                              .expected = StrCat("an integer from ", low, " to ", high - 1),
                              .hint = "use ids of this model's tokenizer"});
    }
    values.push_back(item.get<int32_t>());
  }
  return values;
}

// Pieces of at most `length` tokens that together predict each token but the first exactly once.
std::vector<Sample> Split(const Sample& sample, int64_t length) {
  std::vector<Sample> pieces;
  for (int64_t begin = 0;; begin += length - 1) {
    const int64_t end = std::min(begin + length, sample.size());
    pieces.push_back({{sample.ids.begin() + begin, sample.ids.begin() + end},
                      {sample.trained.begin() + begin, sample.trained.begin() + end}});
    if (end == sample.size()) return pieces;
  }
}

Sample AllTrained(std::vector<int32_t> ids) {
  const size_t count = ids.size();
  return {std::move(ids), std::vector<uint8_t>(count, 1)};
}

}  // namespace

std::string_view DropReasonName(DropReason reason) {
  switch (reason) {
    case DropReason::kTooLong:
      return "too_long";
    case DropReason::kNothingTrained:
      return "nothing_trained";
    case DropReason::kAnswerTruncated:
      return "answer_truncated";
  }
  return "";
}

SampleBuilder::SampleBuilder(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                             const SampleOptions& options)
    : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {}

absl::StatusOr<BuiltRow> SampleBuilder::Build(const OrderedJson& row, RowFormat format,
                                              const RowPlace& place) const {
  switch (format) {
    case RowFormat::kMessages:
      return Conversation(row, place);
    case RowFormat::kPromptCompletion: {
      FTUNE_ASSIGN_OR_RETURN(Sample sample, PromptCompletion(row, place));
      return Finish(std::move(sample), format, place);
    }
    case RowFormat::kTokens: {
      FTUNE_ASSIGN_OR_RETURN(Sample sample, Tokens(row, place));
      return Finish(std::move(sample), format, place);
    }
    case RowFormat::kText: {
      FTUNE_ASSIGN_OR_RETURN(const std::string text, TextField(row, "text", place));
      return BuildDocument(text, place);
    }
    default:
      return CheckRowFormat(format, place);
  }
}

absl::StatusOr<BuiltRow> SampleBuilder::BuildDocument(std::string_view text, const RowPlace& place) const {
  Sample sample = AllTrained(tokenizer_.Encode(text, {.add_special_tokens = true}).ids);
  AppendEos(sample, 1);
  return Finish(std::move(sample), RowFormat::kText, place);
}

absl::StatusOr<BuiltRow> SampleBuilder::Conversation(const OrderedJson& row, const RowPlace& place) const {
  if (chat_template_ == nullptr) {
    return RowError(place, {.message = "the row is a conversation, but the model has no chat template",
                            .hint = "name one with data.chat_template"});
  }
  FTUNE_ASSIGN_OR_RETURN(const ChatRow chat, ReadChatRow(row, place, options_.train_on_turns));
  FTUNE_ASSIGN_OR_RETURN(std::vector<ConversationSample> samples,
                         ConversationSamples(chat, *chat_template_, tokenizer_,
                                             {.train_on_inputs = options_.train_on_inputs}, place));
  BuiltRow whole;
  for (ConversationSample& sample : samples) {
    AddRoleTokens(sample.roles, whole.roles);
    FTUNE_ASSIGN_OR_RETURN(BuiltRow built, Finish(std::move(sample.sample), RowFormat::kMessages, place));
    std::move(built.samples.begin(), built.samples.end(), std::back_inserter(whole.samples));
    std::move(built.dropped.begin(), built.dropped.end(), std::back_inserter(whole.dropped));
    whole.tokens += built.tokens;
    whole.truncated = whole.truncated || built.truncated;
    whole.doubled_bos = whole.doubled_bos || built.doubled_bos;
  }
  return whole;
}

absl::StatusOr<Sample> SampleBuilder::PromptCompletion(const OrderedJson& row, const RowPlace& place) const {
  FTUNE_ASSIGN_OR_RETURN(const std::string prompt, TextField(row, "prompt", place));
  FTUNE_ASSIGN_OR_RETURN(const std::string completion, TextField(row, "completion", place));
  const std::string text = prompt + completion;
  Encoding encoding = tokenizer_.Encode(text, {.add_special_tokens = true});
  const TextSpan span = {options_.train_on_inputs ? 0 : static_cast<int64_t>(prompt.size()),
                         static_cast<int64_t>(text.size())};
  std::vector<uint8_t> trained = TokensInSpans(text, encoding.spans, {&span, 1});
  Sample sample{std::move(encoding.ids), std::move(trained)};
  AppendEos(sample, 1);
  return sample;
}

absl::StatusOr<Sample> SampleBuilder::Tokens(const OrderedJson& row, const RowPlace& place) const {
  const auto input_ids = row.find("input_ids");
  if (input_ids == row.end()) {
    return RowError(
        place, {.message = "the row has no input_ids", .found = DescribeKeys(row), .expected = "input_ids"});
  }
  FTUNE_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                         IntegerList(*input_ids, "input_ids", 0, tokenizer_.vocab_size(), place));
  Sample sample = AllTrained(std::move(ids));
  const auto labels = row.find("labels");
  if (labels == row.end() || labels->is_null()) return sample;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<int32_t> wanted,
                         IntegerList(*labels, "labels", kIgnoreLabel, tokenizer_.vocab_size(), place));
  if (wanted.size() != sample.ids.size()) {
    return RowError(place, {.key = "labels",
                            .found = StrCat(wanted.size(), " labels"),
                            .expected = StrCat(sample.ids.size(), ", as many as input_ids")});
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != kIgnoreLabel && wanted[i] != sample.ids[i]) {
      return RowError(
          place, {.key = StrCat("labels[", i, "]"),
                  .found = StrCat(wanted[i]),
                  .expected = StrCat(sample.ids[i], " (the same position of input_ids) or ", kIgnoreLabel),
                  .hint = "labels are not shifted"});
    }
    sample.trained[i] = wanted[i] != kIgnoreLabel;
  }
  return sample;
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
  const auto& bos = tokenizer_.special().bos;
  built.doubled_bos = bos && sample.size() >= 2 && sample.ids[0] == bos->id && sample.ids[1] == bos->id;
  const auto drop = [&](DropReason reason) {
    built.samples.clear();
    built.dropped.push_back({reason, built.tokens});
    return built;
  };
  if (sample.trained_tokens() == 0) return drop(DropReason::kNothingTrained);

  const int64_t limit = options_.sequence_len;
  if (sample.size() <= limit) {
    built.samples.push_back(std::move(sample));
    return built;
  }
  ExcessTokens strategy = options_.excess_length_strategy;
  if (strategy == ExcessTokens::kAuto) {
    strategy = format == RowFormat::kText ? ExcessTokens::kSplit : ExcessTokens::kDrop;
  }
  switch (strategy) {
    case ExcessTokens::kError:
      return RowError(place, {.found = StrCat(sample.size(), " tokens"),
                              .expected = StrCat("at most data.sequence_len, ", limit),
                              .hint = "raise it, or choose another data.excess_length_strategy"});
    case ExcessTokens::kSplit:
      for (Sample& piece : Split(sample, limit)) {
        if (piece.trained_tokens() > 0) built.samples.push_back(std::move(piece));
      }
      return built;
    case ExcessTokens::kTruncate:
      sample.ids.resize(static_cast<size_t>(limit));
      sample.trained.resize(static_cast<size_t>(limit));
      built.truncated = true;
      if (sample.trained_tokens() == 0) return drop(DropReason::kAnswerTruncated);
      built.samples.push_back(std::move(sample));
      return built;
    default:
      return drop(DropReason::kTooLong);
  }
}

}  // namespace ftune
