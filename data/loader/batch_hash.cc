#include "data/loader/batch_hash.h"

#include <string_view>
#include <type_traits>

#include "base/xxh3_stream.h"

namespace ftune {
namespace {

template <typename T>
void Add(Xxh3Stream& hash, std::span<const T> values) {
  static_assert(std::has_unique_object_representations_v<T>);
  hash.Add({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

}  // namespace

uint64_t HashOf(std::span<const Batch> batches) {
  Xxh3Stream hash;
  for (const Batch& batch : batches) {
    const int64_t sizes[] = {batch.packs, batch.capacity, batch.first_token,
                             static_cast<int64_t>(batch.segments.size())};
    Add(hash, std::span<const int64_t>(sizes));
    for (const std::vector<int32_t>* tokens : {&batch.ids, &batch.positions, &batch.labels}) {
      Add(hash, std::span<const int32_t>(*tokens));
    }
    Add(hash, std::span<const Segment>(batch.segments));
  }
  return hash.Digest64();
}

}  // namespace ftune
