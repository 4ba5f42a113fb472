#include "engine/model/slices.h"

#include <cstring>
#include <numeric>

namespace ftune {

void GatherWhole(const TensorAxis& axis, const Parameter& parameter, DType dtype,
                 std::span<const std::byte> own, std::byte* whole) {
  if (parameter.placement() == Placement::Replicate()) {
    std::memcpy(whole, own.data(), own.size());
    return;
  }
  std::vector<std::vector<GlobalRun>> runs;  // of each rank
  std::vector<int64_t> counts;
  for (int rank = 0; rank < axis.size(); ++rank) {
    std::vector<Dimension> dims;
    int64_t size = 1;
    for (const Dimension& dim : parameter.dims) {
      dims.push_back(dim.On(rank));
      size *= dims.back().local_size();
    }
    runs.push_back(GlobalRunsOf(dims, 0, size));
    counts.push_back(BytesFor(dtype, size));
  }
  std::vector<std::byte> all(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  axis.AllGather(own, counts, all);
  const std::byte* from = all.data();
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    for (const GlobalRun& run : runs[rank]) {
      std::memcpy(whole + BytesFor(dtype, run.global), from + BytesFor(dtype, run.local),
                  BytesFor(dtype, run.count));
    }
    from += counts[rank];
  }
}

}  // namespace ftune
