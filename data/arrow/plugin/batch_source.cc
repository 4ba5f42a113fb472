#include "data/arrow/plugin/batch_source.h"

#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/util/endian.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace ftune::arrow_plugin {
namespace {

using Batch = std::shared_ptr<arrow::RecordBatch>;

arrow::Result<Batch> Checked(arrow::Result<Batch> read) {
  if (read.ok() && *read != nullptr) ARROW_RETURN_NOT_OK((*read)->Validate());
  return read;
}

// Memory is that of the process' own allocator, given back when a batch goes.
arrow::MemoryPool* Pool() { return arrow::system_memory_pool(); }

class ParquetSource : public BatchSource {
 public:
  static arrow::Result<std::unique_ptr<BatchSource>> Open(const std::string& path) {
    auto source = std::make_unique<ParquetSource>();
    ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::ReadableFile::Open(path, Pool()));
    parquet::ReaderProperties properties(Pool());
    properties.enable_buffered_stream();  // else a column of a row group is read at once
    properties.set_buffer_size(kBufferBytes);
    properties.set_page_checksum_verification(true);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(file, properties));
    const parquet::FileMetaData& metadata = *builder.raw_reader()->metadata();
    if (metadata.is_encryption_algorithm_set()) {
      return arrow::Status::NotImplemented("the file is encrypted; write it anew without encryption");
    }
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_pre_buffer(false);  // would keep whole row groups
    arrow_properties.set_batch_size(BatchRows(metadata));
    builder.memory_pool(Pool())->properties(arrow_properties);
    ARROW_ASSIGN_OR_RAISE(source->file_, builder.Build());
    if (metadata.num_columns() == 0) {
      source->schema_ = arrow::schema({});
      return source;
    }
    ARROW_ASSIGN_OR_RAISE(source->batches_, source->file_->GetRecordBatchReader());
    source->schema_ = source->batches_->schema();
    return source;
  }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  arrow::Result<Batch> Next() override { return Checked(batches_->Next()); }

 private:
  static constexpr int64_t kBufferBytes = int64_t{1} << 16;
  static constexpr int64_t kBatchBytes = int64_t{4} << 20;
  // Sizes are those of encoded values, and some rows are longer than others: a bound on how wrong it goes.
  static constexpr int64_t kMaxBatchRows = 1024;

  // As many rows as have about kBatchBytes in the row group with the longest ones.
  static int64_t BatchRows(const parquet::FileMetaData& metadata) {
    int64_t row_bytes = 1;
    for (int i = 0; i < metadata.num_row_groups(); ++i) {
      const auto group = metadata.RowGroup(i);
      if (group->num_rows() > 0)
        row_bytes = std::max(row_bytes, group->total_byte_size() / group->num_rows());
    }
    return std::clamp(kBatchBytes / row_bytes, int64_t{1}, kMaxBatchRows);
  }

  std::unique_ptr<parquet::arrow::FileReader> file_;  // outlives batches_
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::Schema> schema_;
};

arrow::ipc::IpcReadOptions IpcOptions() {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = Pool();
  options.use_threads = false;
  options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  return options;
}

class ArrowFileSource : public BatchSource {
 public:
  static arrow::Result<std::unique_ptr<BatchSource>> Open(const std::string& path) {
    auto source = std::make_unique<ArrowFileSource>();
    ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::ReadableFile::Open(path, Pool()));
    ARROW_ASSIGN_OR_RAISE(source->file_, arrow::ipc::RecordBatchFileReader::Open(file, IpcOptions()));
    return source;
  }

  std::shared_ptr<arrow::Schema> schema() const override { return file_->schema(); }
  arrow::Result<Batch> Next() override {
    if (next_ == file_->num_record_batches()) return Batch();
    return Checked(file_->ReadRecordBatch(next_++));
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  int next_ = 0;
};

class ArrowStreamSource : public BatchSource {
 public:
  static arrow::Result<std::unique_ptr<BatchSource>> Open(const std::string& path) {
    auto source = std::make_unique<ArrowStreamSource>();
    ARROW_ASSIGN_OR_RAISE(source->file_, arrow::io::ReadableFile::Open(path, Pool()));
    ARROW_ASSIGN_OR_RAISE(source->stream_,
                          arrow::ipc::RecordBatchStreamReader::Open(source->file_, IpcOptions()));
    return source;
  }

  std::shared_ptr<arrow::Schema> schema() const override { return stream_->schema(); }
  arrow::Result<Batch> Next() override {
    ARROW_ASSIGN_OR_RAISE(Batch batch, Checked(stream_->Next()));
    if (batch == nullptr) ARROW_RETURN_NOT_OK(CheckEnd());
    return batch;
  }

 private:
  // A stream that was cut off between two batches, and one that others were appended to, would lose rows
  // without a word: the end's mark must be there, and be the last thing in the file.
  arrow::Status CheckEnd() const {
    constexpr std::string_view kMark("\xff\xff\xff\xff\0\0\0\0", 8);
    ARROW_ASSIGN_OR_RAISE(const int64_t end, file_->Tell());
    ARROW_ASSIGN_OR_RAISE(const int64_t size, file_->GetSize());
    char bytes[kMark.size()] = {};
    if (end >= static_cast<int64_t>(kMark.size())) {
      ARROW_RETURN_NOT_OK(file_->ReadAt(end - kMark.size(), kMark.size(), bytes).status());
    }
    if (std::string_view(bytes, kMark.size()) != kMark) {
      return arrow::Status::Invalid("the stream has no end; it was cut off, or its writer was not closed");
    }
    if (end != size) {
      return arrow::Status::Invalid(size - end,
                                    " bytes follow the end of the stream; were files put together?");
    }
    return arrow::Status::OK();
  }

  std::shared_ptr<arrow::io::ReadableFile> file_;
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> stream_;
};

}  // namespace

arrow::Result<std::unique_ptr<BatchSource>> OpenBatches(const std::string& path, FtuneArrowFormat format) {
  switch (format) {
    case kFtuneArrowParquet:
      return ParquetSource::Open(path);
    case kFtuneArrowFile:
      return ArrowFileSource::Open(path);
    case kFtuneArrowStream:
      return ArrowStreamSource::Open(path);
  }
  return arrow::Status::Invalid("unknown format ", static_cast<int>(format));
}

}  // namespace ftune::arrow_plugin
