// From a block of rows to its samples.
#pragma once

#include "absl/status/statusor.h"
#include "data/source/block_reader.h"
#include "data/source/sample_builder.h"
#include "data/store/token_block.h"

namespace ftune {

// What happens to a row that cannot be read: broken, of another shape, refused by the template.
enum class BadRows {
  kError,  // the first one is the error
  kSkip,   // each is dropped, counted and listed
};

// Thread-safe.
class BlockBuilder {
 public:
  // The builder outlives this.
  BlockBuilder(const SampleBuilder& builder, BadRows bad_rows) : builder_(builder), bad_rows_(bad_rows) {}

  absl::StatusOr<TokenBlock> Build(const RowBlock& block, RowFormat format, const RowMapping& mapping) const;

 private:
  const SampleBuilder& builder_;
  BadRows bad_rows_;
};

}  // namespace ftune
