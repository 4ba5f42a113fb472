#include "data/source/dataset.h"

namespace ftune {

int64_t Dataset::tokens() const {
  int64_t count = 0;
  for (const int64_t sample : samples) count += store->info(sample).length;
  return count;
}

int64_t Dataset::trained_tokens() const {
  int64_t count = 0;
  for (const int64_t sample : samples) count += store->info(sample).trained_tokens;
  return count;
}

}  // namespace ftune
