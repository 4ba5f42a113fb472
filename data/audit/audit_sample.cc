#include "data/audit/audit_sample.h"

#include <algorithm>
#include <string>

#include "base/strings.h"

namespace ftune {

AuditCounts AuditSample(const Sample& sample, std::span<const int64_t> turn_ends, int64_t kept,
                        const Tokenizer& tokenizer, const RowPlace& place) {
  const auto where = [&] { return place.line > 0 ? StrCat(place.file, ":", place.line) : place.file; };
  AuditCounts counts;
  counts.samples = 1;
  counts.tokens = sample.size();
  counts.trained_tokens = sample.trained_tokens();
  if (counts.trained_tokens == 0) {
    counts.untrained_samples = 1;
    counts.first_untrained = where();
  }
  size_t leading = 0;
  if (const auto& bos = tokenizer.special().bos) {
    while (leading < sample.ids.size() && sample.ids[leading] == bos->id) ++leading;
  }
  ++counts.bos_samples[std::min<size_t>(leading, 2)];
  if (leading > 1) counts.first_doubled_bos = where();
  int64_t begin = 1;  // the first token is never predicted
  for (const int64_t end : turn_ends) {
    if (end >= kept) {
      const auto from = sample.trained.begin() + std::min(begin, kept);
      counts.cut_turns = std::find(from, sample.trained.begin() + kept, 1) != sample.trained.begin() + kept;
      if (counts.cut_turns > 0) counts.first_cut = where();
      break;
    }
    begin = end + 1;
    const int32_t id = sample.ids[static_cast<size_t>(end)];
    AuditCounts::Ending& ending = counts.endings[id];
    ++ending.turns;
    if (ending.first.empty()) ending.first = where();
  }
  return counts;
}

}  // namespace ftune
