// Batches of rows that are read while training: a window of rows at a time, shuffled and packed.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/loader/batch_source.h"
#include "data/loader/rank_slice.h"
#include "data/loader/row_stream.h"
#include "data/loader/stream_window.h"
#include "data/pack/pack_list.h"

namespace ftune {

struct StreamOptions {
  uint64_t seed = 42;
  WindowOptions window;
  RankSlice slice;
};

// Every rank reads all rows and takes its slice of each global batch, so batches do not depend on the number
// of ranks. A window is a function of the seed, the options and the rows from its first on: so a position is
// where a window begins and which batch of it is next. At the end of the input its last batch is short; then
// the input begins anew, in another order, or that is the end.
//
// Holds one window: its rows, and those of the next one that had to be read to see where it ends.
class StreamedBatches final : public BatchSource {
 public:
  StreamedBatches(RowInput input, const StreamOptions& options);

  // An error too where a whole pass through the input makes no sample.
  absl::StatusOr<std::optional<StepBatches>> Next() override;
  // Reads the input again up to the position.
  absl::Status Seek(const DataPosition& position) override;
  DataPosition position() const override { return position_; }
  void Interrupt() override;

 private:
  absl::Status Open();
  // Reads rows until they are a window or the input ends.
  absl::Status ReadRows();
  // Reads and packs the window at position_.
  absl::Status MakeWindow();
  int64_t Batches() const;
  // Behind batch `position_.batch`: in the window, at the next one, or at the begin of the next pass.
  void Advance();
  StepBatches Assemble() const;
  bool interrupted() const { return interrupted_.load(); }

  RowInput input_;
  StreamOptions options_;
  DataPosition position_;

  std::mutex stream_mutex_;  // guards the pointer against Interrupt
  std::shared_ptr<RowStream> stream_;
  std::atomic<bool> interrupted_ = false;
  bool input_ended_ = false;          // of this pass
  bool any_samples_ = false;          // in this pass
  std::deque<StreamedRow> rows_;      // from the window's first on
  int64_t samples_ = 0, tokens_ = 0;  // of rows_

  int64_t window_rows_ = 0;  // of rows_; 0: the window is not made yet
  std::vector<const std::vector<StoredToken>*> window_samples_;
  PackList packs_;  // of window_samples_
};

}  // namespace ftune
