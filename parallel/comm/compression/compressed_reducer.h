// Sums over a group of ranks of which compressed values cross the links, with error feedback: what a
// compression loses is added to what is compressed the next time.
//
// In two stages, as "1-bit Adam" (Tang et al., 2021, section 4.2) has them: every rank sends each share,
// compressed, to the rank that owns it; the owner adds them in the order of the ranks and, for an all-reduce,
// sends the sum, compressed again, to all. So each stage has a residual. A rank's part of its own share does
// not cross a link and is added as it is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/compression/compressor.h"

namespace ftune {

// What one flat buffer is still owed, as this rank knows of it. Element i is element i of the buffer,
// whatever the mesh: summed over the ranks, the residuals are what the sums so far lack
// (CompressedReducer::TakeOwed). Not owned; zero at first.
struct Residuals {
  std::span<float> sent;   // of all elements: of what this rank gave
  std::span<float> owned;  // of this rank's share: of the sums that it told the others; empty: only scattered
};

class CompressedReducer {
 public:
  // Neither is owned.
  CompressedReducer(Communicator& comm, const Compressor& compressor)
      : comm_(comm), compressor_(compressor) {}

  // `counts`: elements of each rank's share of `values`, the same as at other calls with these residuals.
  // After an error both hold anything.
  //
  // In place. All ranks get the same bits.
  absl::Status AllReduce(std::span<float> values, const std::vector<int64_t>& counts, Residuals& residuals);
  // To this rank's share, which is not compressed a second time.
  absl::Status ReduceScatter(std::span<const float> values, const std::vector<int64_t>& counts,
                             std::span<float> out, Residuals& residuals);

  // The calls of both alone, of buffers that have no memory: for a dry run.
  absl::Status CallAllReduce(const std::vector<int64_t>& counts);
  absl::Status CallReduceScatter(const std::vector<int64_t>& counts);

  // Adds all that the sums lack of this rank's share to it, and empties the residuals: before a checkpoint,
  // or to keep it in one.
  absl::Status TakeOwed(std::span<float> share, const std::vector<int64_t>& counts, Residuals& residuals);

 private:
  struct Exchange {
    std::vector<int64_t> out_bytes, in_bytes;  // to and from each rank
  };
  Exchange ExchangeOf(const std::vector<int64_t>& counts) const;
  // Of each rank's share, compressed.
  std::vector<int64_t> BytesOf(const std::vector<int64_t>& counts) const;
  // Adds the residual to `values`, compresses the sum, keeps what is lost, and leaves in `values` what was
  // sent.
  void CompressOwing(std::span<float> values, std::span<float> residual, std::byte* out);

  Communicator& comm_;
  const Compressor& compressor_;
  std::vector<std::byte> out_, in_;
  std::vector<float> work_;
};

}  // namespace ftune
