// An Arrow array's values as JSON text, one by one.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "data/arrow/plugin/fault.h"

namespace ftune::arrow_plugin {

class ValueWriter {
 public:
  virtual ~ValueWriter() = default;

  // Appends value `index` of the array. False where JSON has no such value or the array is broken: `fault`
  // gets the column and the message, and what was appended is of no use. Offsets and indices are checked as
  // they are used; the array must have passed arrow::Array::Validate.
  virtual bool Write(int64_t index, std::string& to, Fault& fault) const = 0;
};

// `path` is the array's column as errors name it. Null where JSON has no such type: `fault` says so. Whether
// it does depends on the type alone.
std::unique_ptr<ValueWriter> MakeValueWriter(const arrow::Field& field,
                                             const std::shared_ptr<arrow::Array>& array,
                                             const std::string& path, Fault& fault);

// A record batch's rows as JSON objects.
std::unique_ptr<ValueWriter> MakeRowWriter(const arrow::RecordBatch& batch, Fault& fault);

}  // namespace ftune::arrow_plugin
