// The mask audit's verdict: what a person is told of a dataset before it is trained on, and the limits that
// stop a run.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "data/audit/audit_counts.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

struct AuditLimits {
  double max_dropped_rows = 0.5;       // share of the rows of which nothing is left, whatever the reason
  double max_untrained_samples = 0.5;  // share of the samples of which nothing is learned
  double max_doubled_bos = 0.0;        // share of the samples that begin with more than one BOS
  double max_open_turns = 0.5;         // share of the trained turns that do not end as generation does
  double min_trained_tokens = 0.001;   // share of the tokens
};

// "3 bad_row, 2 too_long": the rows of which nothing is left, and what can be done about it.
std::string DescribeLost(const AuditCounts& counts);
std::string AdviceOnLost(const AuditCounts& counts);

class AuditReport {
 public:
  // `stop_ids`: the tokens that end generation. The tokenizer outlives the report.
  AuditReport(AuditCounts counts, std::vector<int32_t> stop_ids, const Tokenizer& tokenizer);

  // A few lines, without line ends.
  std::vector<std::string> Lines() const;
  nlohmann::ordered_json ToJson() const;
  // The first limit that is passed, as an error with the place of the first such sample and advice.
  absl::Status Check(const AuditLimits& limits) const;

 private:
  bool Stops(int32_t id) const;
  int64_t turns() const;
  int64_t open_turns() const;
  // "<|im_end|> (12), . (3)": the most frequent endings of those that stop generation, or do not.
  std::string DescribeEndings(bool stopping) const;
  std::string DescribeStops() const;
  std::string FirstOpen() const;
  int64_t lost_rows() const;

  AuditCounts counts_;
  std::vector<int32_t> stop_ids_;
  const Tokenizer& tokenizer_;
};

}  // namespace ftune
