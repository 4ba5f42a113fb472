// What the mask audit counts of one sample.
#pragma once

#include <cstdint>
#include <span>

#include "data/audit/audit_counts.h"
#include "data/sample.h"
#include "data/source/row.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

// All but rows and the tokens by role. `turn_ends`: where in the sample each trained turn's last token
// stands, in order. Truncation leaves the first `kept` tokens.
AuditCounts AuditSample(const Sample& sample, std::span<const int64_t> turn_ends, int64_t kept,
                        const Tokenizer& tokenizer, const RowPlace& place);

}  // namespace ftune
