// ftune-arrow.so: the functions of plugin_abi.h.
#include <arrow/array/util.h>
#include <arrow/record_batch.h>
#include <arrow/status.h>
#include <arrow/type.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "data/arrow/plugin/batch_source.h"
#include "data/arrow/plugin/fault.h"
#include "data/arrow/plugin/value_writer.h"
#include "data/arrow/plugin_abi.h"

struct FtuneArrowHandle {
  std::unique_ptr<ftune::arrow_plugin::BatchSource> source;
  std::shared_ptr<arrow::RecordBatch> batch;                 // being written; null: the next has to be read
  std::unique_ptr<ftune::arrow_plugin::ValueWriter> writer;  // of `batch`
  int64_t batch_row = 0;                                     // of `batch`, the next to write
  int64_t row = 0;                                           // of the file, those written
  std::string text;
  std::vector<size_t> ends;
  std::vector<FtuneArrowError> bad;
};

namespace ftune::arrow_plugin {
namespace {

constexpr size_t kEnoughBad = 1024;  // in one block: a bound on their memory

// Cut where it is too long, between characters.
void CopyText(const std::string& text, char* to, size_t capacity) {
  size_t size = std::min(text.size(), capacity - 1);
  if (size < text.size()) {
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  }
  text.copy(to, size);
  to[size] = '\0';
}

void SetError(const Fault& fault, FtuneArrowError* error) {
  error->row = fault.row;
  CopyText(fault.column, error->column, sizeof(error->column));
  CopyText(fault.message, error->message, sizeof(error->message));
}

// What `body` returns, or `failed` where it throws.
template <typename Result, typename Body>
Result Fenced(Result failed, FtuneArrowError* error, Body body) noexcept {
  *error = {};
  try {
    return body();
  } catch (const std::bad_alloc&) {
    std::snprintf(error->message, sizeof(error->message),
                  "out of memory; write the file with smaller row groups or record batches");
  } catch (const std::exception& thrown) {
    std::snprintf(error->message, sizeof(error->message), "%s", thrown.what());
    for (char* c = error->message; *c != '\0'; ++c) {
      if (*c == '\n') *c = '\0';
    }
  } catch (...) {
    std::snprintf(error->message, sizeof(error->message), "unknown exception");
  }
  return failed;
}

// Arrow's own words, as one line.
std::string OneLine(const arrow::Status& status) {
  const std::string& text = status.message();
  return text.substr(0, text.find('\n'));
}

Fault ReadFault(const arrow::Status& status, int64_t rows) {
  return {.message =
              StrCat(rows == 0 ? std::string("cannot be read") : StrCat("cannot be read after row ", rows),
                     ": ", OneLine(status))};
}

// Whether every column has a JSON form, found out with a batch that has no rows.
bool CheckSchema(const std::shared_ptr<arrow::Schema>& schema, Fault& fault) {
  if (schema->num_fields() == 0) {
    fault.message = "found no columns, expected at least one";
    return false;
  }
  const arrow::Result<std::shared_ptr<arrow::RecordBatch>> empty = arrow::RecordBatch::MakeEmpty(schema);
  if (!empty.ok()) {
    fault = ReadFault(empty.status(), 0);
    return false;
  }
  return MakeRowWriter(**empty, fault) != nullptr;
}

FtuneArrowHandle* Open(const char* path, FtuneArrowFormat format, FtuneArrowError* error) {
  Fault fault;
  arrow::Result<std::unique_ptr<BatchSource>> source = OpenBatches(path, format);
  if (!source.ok()) {
    fault = ReadFault(source.status(), 0);
  } else if (CheckSchema((*source)->schema(), fault)) {
    auto handle = std::make_unique<FtuneArrowHandle>();
    handle->source = *std::move(source);
    return handle.release();
  }
  SetError(fault, error);
  return nullptr;
}

// A batch with rows that are not written yet, or none at the end.
bool EnsureBatch(FtuneArrowHandle& handle, Fault& fault) {
  while (handle.batch == nullptr || handle.batch_row == handle.batch->num_rows()) {
    handle.writer = nullptr;
    handle.batch = nullptr;
    arrow::Result<std::shared_ptr<arrow::RecordBatch>> batch = handle.source->Next();
    if (!batch.ok()) {
      fault = ReadFault(batch.status(), handle.row);
      return false;
    }
    handle.batch = *std::move(batch);
    handle.batch_row = 0;
    if (handle.batch == nullptr) return true;
    handle.writer = MakeRowWriter(*handle.batch, fault);
    if (handle.writer == nullptr) return false;
  }
  return true;
}

int32_t Next(FtuneArrowHandle& handle, size_t enough_bytes, size_t enough_rows, FtuneArrowRows* rows,
             FtuneArrowError* error) {
  handle.text.clear();
  handle.ends.clear();
  handle.bad.clear();
  const int64_t first_row = handle.row + 1;
  Fault fault;
  while (handle.text.size() < enough_bytes && handle.ends.size() < enough_rows &&
         handle.bad.size() < kEnoughBad) {
    if (!EnsureBatch(handle, fault)) {
      SetError(fault, error);
      return -1;
    }
    if (handle.batch == nullptr) break;
    const size_t begin = handle.text.size();
    if (!handle.writer->Write(handle.batch_row, handle.text, fault)) {
      fault.row = handle.row + 1;
      if (!fault.value) {
        SetError(fault, error);
        return -1;
      }
      handle.text.resize(begin);
      SetError(fault, &handle.bad.emplace_back());
    }
    handle.text.push_back('\n');
    handle.ends.push_back(handle.text.size());
    ++handle.batch_row;
    ++handle.row;
  }
  *rows = {.bytes = handle.text.data(),
           .ends = handle.ends.data(),
           .count = handle.ends.size(),
           .first_row = first_row,
           .bad = handle.bad.data(),
           .bad_count = handle.bad.size()};
  return handle.ends.empty() ? 0 : 1;
}

constexpr FtuneArrowPlugin kPlugin = {
    .abi = kFtuneArrowAbi,
    .open = [](const char* path, FtuneArrowFormat format, FtuneArrowError* error) -> FtuneArrowHandle* {
      return Fenced<FtuneArrowHandle*>(nullptr, error, [&] { return Open(path, format, error); });
    },
    .next = [](FtuneArrowHandle* handle, size_t enough_bytes, size_t enough_rows, FtuneArrowRows* rows,
               FtuneArrowError* error) -> int32_t {
      return Fenced<int32_t>(-1, error,
                             [&] { return Next(*handle, enough_bytes, enough_rows, rows, error); });
    },
    .close = [](FtuneArrowHandle* handle) { delete handle; },
};

}  // namespace
}  // namespace ftune::arrow_plugin

extern "C" __attribute__((visibility("default"))) const FtuneArrowPlugin* ftune_arrow_plugin(void) {
  return &ftune::arrow_plugin::kPlugin;
}
