#include "data/store/shard_writer.h"

#include <cstddef>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

template <class T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string JsonText(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::string ShardName(uint32_t index) { return absl::StrFormat("shard-%08d.tokens", index); }

absl::StatusOr<ShardWriter> ShardWriter::Create(const std::filesystem::path& folder, const ShardId& id,
                                                int32_t entry) {
  FTUNE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(folder / ShardName(id.index)));
  ShardWriter writer(std::move(file));
  const ShardHeader header{.index = id.index, .key = id.key, .entry = static_cast<uint32_t>(entry)};
  FTUNE_RETURN_IF_ERROR(writer.Write({reinterpret_cast<const char*>(&header), sizeof(header)}));
  return writer;
}

absl::Status ShardWriter::Write(std::string_view bytes) {
  hash_.Add(bytes);
  return file_.Append(bytes);
}

absl::Status ShardWriter::Pad(uint64_t bytes) {
  return Write(std::string(static_cast<size_t>(PadTo8(bytes) - bytes), '\0'));
}

absl::Status ShardWriter::Add(const TokenBlock& block) {
  FTUNE_RETURN_IF_ERROR(Write(BytesOf(block.tokens)));
  for (SampleRecord record : block.samples) {
    record.begin += footer_.tokens;
    record.row += static_cast<uint32_t>(report_.rows);
    samples_.push_back(record);
  }
  for (DroppedRow dropped : block.dropped) {
    dropped.row += report_.rows;
    StrAppend(dropped_, JsonText(dropped.ToJson()), "\n");
  }
  footer_.tokens += block.tokens.size();
  report_.Merge(block.report);
  return absl::OkStatus();
}

absl::Status ShardWriter::Commit() {
  FTUNE_RETURN_IF_ERROR(Pad(footer_.tokens * sizeof(StoredToken)));
  FTUNE_RETURN_IF_ERROR(Write(BytesOf(samples_)));
  const std::string report = JsonText(report_.ToJson());
  FTUNE_RETURN_IF_ERROR(Write(dropped_));
  FTUNE_RETURN_IF_ERROR(Write(report));
  FTUNE_RETURN_IF_ERROR(Pad(dropped_.size() + report.size()));
  footer_.samples = samples_.size();
  footer_.dropped_bytes = dropped_.size();
  footer_.report_bytes = report.size();
  const std::string_view footer(reinterpret_cast<const char*>(&footer_), sizeof(footer_));
  hash_.Add(footer.substr(0, offsetof(ShardFooter, checksum)));
  footer_.checksum = hash_.Digest64();
  FTUNE_RETURN_IF_ERROR(file_.Append(footer));
  return file_.Commit();
}

}  // namespace ftune
