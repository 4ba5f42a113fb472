#include "data/loader/mixed_rows.h"

#include <utility>

namespace ftune {

InterleavedRows::InterleavedRows(std::vector<WeightedRows> streams) {
  for (WeightedRows& stream : streams) {
    if (stream.weight > 0) streams_.push_back({.stream = std::move(stream)});
  }
}

InterleavedRows::Turns* InterleavedRows::Turn() {
  Turns* next = nullptr;
  double least = 0;
  for (Turns& turns : streams_) {
    const double place = (static_cast<double>(turns.taken) + 0.5) / turns.stream.weight;
    if (turns.ended || (next != nullptr && place >= least)) continue;
    next = &turns;
    least = place;
  }
  return next;
}

absl::StatusOr<std::optional<StreamedRow>> InterleavedRows::Next() {
  while (Turns* turn = Turn()) {
    absl::StatusOr<std::optional<StreamedRow>> row = turn->stream.rows->Next();
    if (!row.ok()) return row.status();
    if (row->has_value()) {
      ++turn->taken;
      return row;
    }
    turn->ended = true;
  }
  return std::nullopt;
}

absl::StatusOr<int64_t> InterleavedRows::Skip(int64_t rows) {
  int64_t skipped = 0;
  while (skipped < rows) {
    Turns* turn = Turn();
    if (turn == nullptr) break;
    const absl::StatusOr<int64_t> some = turn->stream.rows->Skip(1);
    if (!some.ok()) return some.status();
    turn->taken += *some;
    turn->ended = *some == 0;
    skipped += *some;
  }
  return skipped;
}

void InterleavedRows::Interrupt() {
  for (Turns& turns : streams_) turns.stream.rows->Interrupt();
}

absl::StatusOr<std::optional<StreamedRow>> ConcatenatedRows::Next() {
  for (; current_ < streams_.size(); ++current_) {
    absl::StatusOr<std::optional<StreamedRow>> row = streams_[current_]->Next();
    if (!row.ok() || row->has_value()) return row;
  }
  return std::nullopt;
}

absl::StatusOr<int64_t> ConcatenatedRows::Skip(int64_t rows) {
  int64_t skipped = 0;
  for (; current_ < streams_.size(); ++current_) {
    const absl::StatusOr<int64_t> some = streams_[current_]->Skip(rows - skipped);
    if (!some.ok()) return some.status();
    skipped += *some;
    if (skipped == rows) break;
  }
  return skipped;
}

void ConcatenatedRows::Interrupt() {
  for (const std::unique_ptr<RowStream>& stream : streams_) stream->Interrupt();
}

}  // namespace ftune
