// What a store of prepared samples is made from, as a hash: whatever could change a sample changes the key,
// so that a store is never taken for one it is not.
#pragma once

#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/xxh3_stream.h"
#include "data/prepare/build_entries.h"
#include "data/prepare/source_files.h"
#include "data/source/dataset.h"
#include "data/source/sample_builder.h"

namespace ftune {

struct StoreKey {
  Hash128 hash = {};        // XXH3-128 of `description`
  std::string description;  // JSON: content of the data files, tokenizer, template, options, formats, program
};

// The content of all files that a tokenizer may be made from: of a folder, its .json, .jinja, .model, .txt
// and .tiktoken files; of a .gguf file, its metadata. As text.
absl::StatusOr<std::string> DescribeTokenizer(const std::filesystem::path& model);

// The text of a chat template; empty where there is none. With strftime_now, the local date of `now` is
// added; where the text has a format for the time of day too, the time to the second, so that it is never
// re-used.
std::string DescribeTemplate(const std::string& text, std::time_t now = std::time(nullptr));

struct SampleSource {
  std::string tokenizer;      // DescribeTokenizer
  std::string chat_template;  // DescribeTemplate
  SampleOptions options;
};

absl::StatusOr<StoreKey> MakeStoreKey(const std::vector<DatasetEntry>& entries,
                                      const std::vector<std::vector<HashedFile>>& files,
                                      const SampleSource& source, const BuildOptions& options);

}  // namespace ftune
