// From a row of a dataset to samples: text, tokens, which of them are trained, and the length policy.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/audit/audit_counts.h"
#include "data/sample.h"
#include "data/source/chat_row.h"
#include "data/source/conversation.h"
#include "data/source/length_policy.h"
#include "data/source/row.h"
#include "data/source/row_shape.h"
#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

struct SampleOptions {
  bool train_on_inputs = false;  // prompts and the template's own words too; not turns that a row excludes
  TrainTurns train_on_turns = TrainTurns::kAll;
  std::vector<std::string> roles_to_train = {"assistant"};
  SplitTurns split_turns = SplitTurns::kAuto;
  int64_t sequence_len = 2048;  // ≥ 2
  ExcessTokens excess_length_strategy = ExcessTokens::kAuto;
  TruncationSide truncation_side = TruncationSide::kRight;
};

// A row makes one sample before the length policy, but for a conversation that is split by turns.
struct BuiltRow {
  std::vector<Sample> samples;         // each with at least one trained token
  std::vector<DroppedSample> dropped;  // never empty where `samples` is
  int64_t tokens = 0;                  // before the length policy
  bool truncated = false;
  bool split = false;  // for its length
  AuditCounts audit;
};

// The parts of one row by format; errors have its place. Thread-safe.
class SampleBuilder {
 public:
  // Both outlive the builder. Without a chat template, conversations are an error.
  SampleBuilder(const Tokenizer& tokenizer, const ChatTemplate* chat_template, const SampleOptions& options);

  // `format` is not kAuto.
  absl::StatusOr<BuiltRow> Build(const OrderedJson& row, RowFormat format, const RowPlace& place,
                                 const RowMapping& mapping = {}) const;
  // One document: BOS where the tokenizer adds one, EOS at its end.
  absl::StatusOr<BuiltRow> BuildDocument(std::string_view text, const RowPlace& place) const;

 private:
  absl::StatusOr<BuiltRow> Conversation(const ChatRow& chat, RowFormat format, const RowPlace& place) const;
  Sample Completed(const PromptCompletion& row) const;
  Sample Joined(const SegmentRow& row) const;
  bool TakeOutDoubledBos(Sample& sample) const;
  void AppendEos(Sample& sample, uint8_t trained) const;
  // The length policy, with the audit's counts of the whole.
  absl::StatusOr<BuiltRow> Audited(Sample sample, RowFormat format, const RowPlace& place) const;
  absl::StatusOr<BuiltRow> Finish(Sample sample, RowFormat format, const RowPlace& place) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
  SampleOptions options_;
  RowReadOptions read_options_;
  LengthPolicy length_;
};

}  // namespace ftune
