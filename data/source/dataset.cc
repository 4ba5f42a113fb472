#include "data/source/dataset.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/source/jsonl.h"
#include "data/source/parallel_rows.h"
#include "data/store/memory_store.h"

namespace ftune {
namespace {

// File types that are told by their names before anything is read.
constexpr std::array<const char*, 9> kRefusedTypes = {".csv", ".tsv", ".parquet", ".arrow", ".feather",
                                                      ".gz",  ".zst", ".zip",     ".xlsx"};

constexpr double kMaxWeight = 1000;

// One entry, opened: a document, or the lines of a JSON Lines file.
struct OpenEntry {
  RowFormat format = RowFormat::kText;
  RowPlace place;
  RowMapping mapping;
  std::optional<JsonlFile> jsonl;
  std::optional<MappedFile> document;

  int64_t rows() const { return jsonl ? static_cast<int64_t>(jsonl->lines().size()) : 1; }
};

absl::Status CheckPath(const std::string& path) {
  const RowPlace place{path};
  const std::string type = Lower(std::filesystem::path(path).extension().string());
  if (std::find(kRefusedTypes.begin(), kRefusedTypes.end(), type) != kRefusedTypes.end()) {
    return RowError(place, {.message = StrCat(type, " files are not supported"),
                            .expected = "JSON Lines or .txt",
                            .hint = "write the rows out as JSON Lines"});
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return RowError(place, {.found = "a folder", .expected = "a file", .hint = "name its files one by one"});
  }
  if (path.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(path, ignored)) {
    return RowError(
        place, {.message = "patterns of file names are not supported", .hint = "name the files one by one"});
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenEntry> OpenDocument(const DatasetEntry& entry) {
  OpenEntry open{.place = {entry.path}};
  if (entry.format != RowFormat::kAuto && entry.format != RowFormat::kText) {
    return RowError(open.place, {.found = StrCat("format ", RowFormatName(entry.format), " for a .txt file"),
                                 .expected = "format text"});
  }
  FTUNE_ASSIGN_OR_RETURN(open.document, MappedFile::Open(entry.path));
  if (open.document->text().empty())
    return RowError(open.place, {.found = "an empty file", .expected = "text"});
  return open;
}

absl::StatusOr<OpenEntry> OpenRows(const DatasetEntry& entry) {
  OpenEntry open{.place = {entry.path}, .mapping = entry.mapping};
  FTUNE_ASSIGN_OR_RETURN(open.jsonl, JsonlFile::Open(entry.path));
  const JsonlFile::Line& first = open.jsonl->lines().front();
  FTUNE_ASSIGN_OR_RETURN(const OrderedJson row, open.jsonl->Parse(first));
  FTUNE_ASSIGN_OR_RETURN(open.format,
                         ChooseRowFormat(row, entry.format, entry.mapping, open.jsonl->PlaceOf(first)));
  return open;
}

absl::StatusOr<OpenEntry> Open(const DatasetEntry& entry) {
  if (!(entry.weight >= 0 && entry.weight <= kMaxWeight)) {
    return UsageError(
        {.key = "data.train.weight", .found = StrCat(entry.weight), .expected = StrCat("0 to ", kMaxWeight)});
  }
  FTUNE_RETURN_IF_ERROR(CheckPath(entry.path));
  return Lower(entry.path).ends_with(".txt") ? OpenDocument(entry) : OpenRows(entry);
}

absl::StatusOr<BuiltRow> BuildRow(const OpenEntry& entry, int64_t row, const SampleBuilder& builder) {
  if (entry.document) {
    FTUNE_ASSIGN_OR_RETURN(const std::string_view text,
                           WithoutByteOrderMark(entry.document->text(), entry.place));
    FTUNE_RETURN_IF_ERROR(CheckUtf8(text, {entry.place.file, 1}));
    return builder.BuildDocument(text, entry.place);
  }
  const JsonlFile::Line& line = entry.jsonl->lines()[static_cast<size_t>(row)];
  FTUNE_ASSIGN_OR_RETURN(const OrderedJson parsed, entry.jsonl->Parse(line));
  return builder.Build(parsed, entry.format, entry.jsonl->PlaceOf(line), entry.mapping);
}

// Adds a row's samples and what is to be said about it.
void Collect(const BuiltRow& built, const SampleInfo& origin, const RowPlace& place, DataReport& report,
             MemoryTokenStore& store) {
  ++report.rows;
  report.truncated_rows += built.truncated;
  report.audit.Merge(built.audit);
  report.split_rows += built.samples.size() > 1;
  for (const DroppedSample& dropped : built.dropped) {
    report.dropped.push_back({place, origin.row, dropped.reason, dropped.tokens});
  }
  for (const Sample& sample : built.samples) store.Add(sample, origin);
}

absl::Status NothingLeft(const std::vector<DatasetEntry>& entries, const DataReport& report) {
  std::map<std::string_view, int64_t> counts;
  for (const DroppedRow& dropped : report.dropped) ++counts[DropReasonName(dropped.reason)];
  std::vector<std::string> reasons;
  for (const auto& [reason, count] : counts) reasons.push_back(StrCat(count, " ", reason));
  return RowError({entries.front().path},
                  {.message = StrCat("no row is left to train on: all ", report.rows, " were dropped"),
                   .found = StrJoin(reasons, ", "),
                   .hint = "see data.sequence_len, data.excess_length_strategy and data.train_on_inputs"});
}

}  // namespace

std::string DroppedRowJson(const DroppedRow& dropped) {
  const OrderedJson json = {{"file", dropped.place.file},
                            {"line", dropped.place.line},
                            {"row", dropped.row},
                            {"reason", DropReasonName(dropped.reason)},
                            {"tokens", dropped.tokens}};
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

int64_t Dataset::tokens() const {
  int64_t count = 0;
  for (const int64_t sample : samples) count += store->info(sample).length;
  return count;
}

int64_t Dataset::trained_tokens() const {
  int64_t count = 0;
  for (const int64_t sample : samples) count += store->info(sample).trained_tokens;
  return count;
}

absl::StatusOr<Dataset> LoadDataset(const std::vector<DatasetEntry>& entries, const Tokenizer& tokenizer,
                                    const ChatTemplate* chat_template, const SampleOptions& options,
                                    int threads) {
  if (entries.empty())
    return UsageError({.key = "data.train", .found = "no dataset", .expected = "at least one"});
  if (options.sequence_len < 2) {
    return UsageError(
        {.key = "data.sequence_len", .found = StrCat(options.sequence_len), .expected = "2 or more"});
  }
  const SampleBuilder builder(tokenizer, chat_template, options);
  Dataset dataset;
  auto store = std::make_shared<MemoryTokenStore>();
  for (const DatasetEntry& entry : entries) {
    FTUNE_ASSIGN_OR_RETURN(const OpenEntry open, Open(entry));
    FTUNE_ASSIGN_OR_RETURN(std::vector<BuiltRow> rows,
                           BuildInParallel<BuiltRow>(open.rows(), threads, [&](int64_t row) {
                             return BuildRow(open, row, builder);
                           }));
    for (size_t row = 0; row < rows.size(); ++row) {
      const RowPlace place = open.jsonl ? open.jsonl->PlaceOf(open.jsonl->lines()[row]) : open.place;
      const std::string_view text = open.jsonl ? open.jsonl->lines()[row].text : open.document->text();
      const SampleInfo origin = {.entry = static_cast<int32_t>(dataset.mix.size()),
                                 .row = dataset.report.rows,
                                 .row_hash = XXH3_64bits(text.data(), text.size())};
      Collect(rows[row], origin, place, dataset.report, *store);
    }
    dataset.mix.push_back({entry.weight});
  }
  if (store->size() == 0) return NothingLeft(entries, dataset.report);
  dataset.samples.resize(static_cast<size_t>(store->size()));
  std::iota(dataset.samples.begin(), dataset.samples.end(), 0);
  dataset.store = std::move(store);
  return dataset;
}

}  // namespace ftune
