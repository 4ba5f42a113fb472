// What the mask audit counts over the rows of a dataset: of which nothing is left; over their samples, before
// the length policy, which tokens are learned; and whether the answers that are learned, as truncation leaves
// them, end as generation ends. The counts of parts of a dataset
// merge into those of the whole.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace ftune {

struct AuditCounts {
  // The tokens of a role's turns in conversations. The role "" has what the template writes around them.
  struct Role {
    int64_t tokens = 0;
    int64_t trained_tokens = 0;

    bool operator==(const Role&) const = default;
  };

  // The last token of trained turns.
  struct Ending {
    int64_t turns = 0;
    std::string first;  // FILE:LINE of the first

    bool operator==(const Ending&) const = default;
  };

  int64_t rows = 0;
  std::map<std::string, int64_t> lost;  // rows of which no sample is left, by reason
  std::string first_lost;               // FILE:LINE of the first such row, or empty
  std::string first_lost_message;       // what is wrong with it, where it could not be read

  int64_t samples = 0;
  int64_t tokens = 0;
  int64_t trained_tokens = 0;               // a sample's first token never counts
  int64_t untrained_samples = 0;            // nothing is learned of them
  std::array<int64_t, 3> bos_samples = {};  // that begin with no, one, more than one BOS
  int64_t mended_bos = 0;                   // of which a second BOS was taken out
  std::map<std::string, int64_t> formats;   // how many samples were read in each shape of rows
  std::map<std::string, Role> roles;
  std::map<int32_t, Ending> endings;               // by the token's id
  int64_t cut_turns = 0;                           // of which truncation leaves the begin, without the end
  std::string first_cut;                           // FILE:LINE, or empty
  std::string first_untrained, first_doubled_bos;  // FILE:LINE of the first such sample, or empty

  // Adds what was counted over samples that come after these.
  void Merge(const AuditCounts& later);

  nlohmann::ordered_json ToJson() const;
  // ToJson's inverse. Nothing else is accepted: an error names the key.
  static absl::StatusOr<AuditCounts> FromJson(const nlohmann::json& json, const std::string& file);

  bool operator==(const AuditCounts&) const = default;
};

}  // namespace ftune
