#include "data/prepare/block_builder.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/source/row_hash.h"

namespace ftune {
namespace {

void AddLost(const RowPlace& place, const std::string& reason, std::string message, AuditCounts& audit) {
  if (audit.lost.empty()) {
    audit.first_lost = place.line > 0 ? StrCat(place.file, ":", place.line) : place.file;
    audit.first_lost_message = std::move(message);
  }
  ++audit.lost[reason];
}

struct HashedRow {
  BuiltRow built;
  uint64_t hash = 0;  // HashRow
};

void AddRow(const HashedRow& hashed, const RowPlace& place, uint32_t row, TokenBlock& to) {
  const BuiltRow& built = hashed.built;
  to.report.truncated_rows += built.truncated;
  to.report.split_rows += built.split;
  to.report.audit.Merge(built.audit);
  if (built.samples.empty()) {
    AddLost(place, std::string(DropReasonName(built.dropped.front().reason)), "", to.report.audit);
  }
  for (const DroppedSample& dropped : built.dropped) {
    const std::string reason(DropReasonName(dropped.reason));
    ++to.report.dropped[reason];
    to.dropped.push_back({place, row, reason, dropped.tokens, ""});
  }
  if (built.split) to.dropped.push_back({place, row, kSplit, built.tokens, ""});
  if (built.truncated) to.dropped.push_back({place, row, kTruncated, built.tokens, ""});
  for (const Sample& sample : built.samples) to.Add(sample, row, hashed.hash);
}

}  // namespace

absl::StatusOr<TokenBlock> BlockBuilder::Build(const RowBlock& block, RowFormat format,
                                               const RowMapping& mapping) const {
  TokenBlock result;
  const auto build = [&](size_t row) -> absl::StatusOr<HashedRow> {
    FTUNE_ASSIGN_OR_RETURN(const OrderedJson parsed, ParseRow(block, row));
    FTUNE_ASSIGN_OR_RETURN(BuiltRow built, builder_.Build(parsed, format, block.PlaceOf(row), mapping));
    return HashedRow{std::move(built), HashRow(parsed)};
  };
  for (size_t i = 0; i < block.rows.size(); ++i) {
    const absl::StatusOr<HashedRow> built = build(i);
    const auto row = static_cast<uint32_t>(i);
    ++result.report.rows;
    ++result.report.audit.rows;
    if (built.ok()) {
      AddRow(*built, block.PlaceOf(i), row, result);
    } else if (bad_rows_ == BadRows::kSkip) {
      const std::string message(built.status().message());
      ++result.report.dropped[kBadRow];
      AddLost(block.PlaceOf(i), kBadRow, message, result.report.audit);
      result.dropped.push_back({block.PlaceOf(i), row, kBadRow, 0, message});
    } else {
      return built.status();
    }
  }
  return result;
}

}  // namespace ftune
