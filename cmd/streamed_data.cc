#include "cmd/streamed_data.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/strings.h"
#include "cmd/run_options.h"
#include "data/file/pipe_bytes.h"
#include "data/loader/mixed_rows.h"
#include "data/source/inspect.h"

namespace ftune {
StreamedData::StreamedData(const Recipe& recipe, const RunData& data, Say say)
    : data_(data),
      entries_(ToEntries(recipe.data.train)),
      interleave_(recipe.data.mix == DataMix::kInterleave),
      model_(recipe.model.path),
      say_(std::move(say)),
      bad_rows_(ToBadRows(recipe.data.on_bad_row)),
      builder_(*data.tokenizer, data.chat_template.get(), ToSampleOptions(recipe.data)),
      block_builder_(builder_, bad_rows_) {}

absl::Status StreamedData::ListDropped(const std::filesystem::path& path) {
  FTUNE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  dropped_path_ = path;
  dropped_.open(path, std::ios::app);
  return dropped_ ? absl::OkStatus() : IoError(path, "write", errno);
}

RowInput StreamedData::input() {
  const bool pipes = std::any_of(entries_.begin(), entries_.end(),
                                 [](const DatasetEntry& entry) { return IsPipe(entry.path); });
  return {.open = [this] { return Open(); }, .rereadable = !pipes};
}

absl::StatusOr<std::unique_ptr<RowStream>> StreamedData::Open() {
  ++passes_;
  const auto say = [this](const std::string& text) {
    if (first_pass()) say_(text);
  };
  std::vector<WeightedRows> streams;
  for (const DatasetEntry& entry : entries_) {
    FTUNE_ASSIGN_OR_RETURN(
        std::unique_ptr<RowStream> rows,
        StreamedRows::Open(
            entry, block_builder_, bad_rows_,
            {.built = [this](const TokenBlock& block) { return Observe(block); }, .say = say}));
    streams.push_back({std::move(rows), entry.mix.weight});
  }
  if (interleave_) return std::make_unique<InterleavedRows>(std::move(streams));
  std::vector<std::unique_ptr<RowStream>> in_order;
  for (WeightedRows& stream : streams) in_order.push_back(std::move(stream.rows));
  return std::make_unique<ConcatenatedRows>(std::move(in_order));
}

absl::Status StreamedData::Observe(const TokenBlock& block) {
  FTUNE_RETURN_IF_ERROR(CheckIds(block.report, data_.vocab_size, model_));
  const std::lock_guard lock(mutex_);
  if (!first_pass()) return absl::OkStatus();
  for (DroppedRow row : block.dropped) {
    if (!dropped_.is_open()) break;
    row.row += report_.rows;
    dropped_ << row.ToJson().dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << "\n";
  }
  report_.Merge(block.report);
  if (first_sample_.empty() && !block.samples.empty()) {
    const SampleRecord& sample = block.samples.front();
    const auto begin = block.tokens.begin() + static_cast<int64_t>(sample.begin);
    first_sample_.assign(begin, begin + sample.length);
  }
  if (!dropped_.is_open() || dropped_.flush()) return absl::OkStatus();
  return IoError(dropped_path_, "write", errno);
}

DataReport StreamedData::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

DataAudit StreamedData::Audit() const {
  const std::lock_guard lock(mutex_);
  return {AuditReport(report_.audit, data_.stop_ids, *data_.tokenizer),
          RenderSample(first_sample_, *data_.tokenizer, /*colour=*/false)};
}

std::string DescribeStream(const DataReport& report) {
  std::string text = StrCat(report.rows, " rows read");
  for (const auto& [reason, count] : report.dropped) StrAppend(text, ", ", count, " dropped (", reason, ")");
  if (report.truncated_rows > 0) StrAppend(text, ", ", report.truncated_rows, " truncated");
  if (report.split_rows > 0) StrAppend(text, ", ", report.split_rows, " split");
  return text;
}

}  // namespace ftune
