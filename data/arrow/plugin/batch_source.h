// Record batches of a Parquet or Arrow file, front to back.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <string>

#include "data/arrow/plugin_abi.h"

namespace ftune::arrow_plugin {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::shared_ptr<arrow::Schema> schema() const = 0;
  // The next batch, checked by RecordBatch::Validate; null at the end.
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() = 0;
};

// Reads the schema. Errors, and exceptions of std::bad_alloc's kind, are about this file.
arrow::Result<std::unique_ptr<BatchSource>> OpenBatches(const std::string& path, FtuneArrowFormat format);

}  // namespace ftune::arrow_plugin
