// What the mask audit counts of one sample.
#pragma once

#include <cstdint>
#include <span>

#include "data/audit/audit_counts.h"
#include "data/sample.h"
#include "data/source/row.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

// All but the tokens by role. `turn_ends`: the last token of each trained turn.
AuditCounts AuditSample(const Sample& sample, std::span<const int32_t> turn_ends, const Tokenizer& tokenizer,
                        const RowPlace& place);

}  // namespace ftune
