#include "data/store/mapped_shard.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "base/xxh3_stream.h"

namespace ftune {
namespace {

constexpr size_t kHashedAtOnce = size_t{4} << 20;

// Whether the sections that `footer` names make up exactly `size` bytes.
bool SizesAddUp(const ShardFooter& footer, uint64_t size) {
  // Each is bounded first, so that the sum cannot wrap around.
  if (footer.tokens > size || footer.samples > size || footer.dropped_bytes > size ||
      footer.report_bytes > size) {
    return false;
  }
  return size == sizeof(ShardHeader) + PadTo8(footer.tokens * sizeof(StoredToken)) +
                     footer.samples * sizeof(SampleRecord) +
                     PadTo8(footer.dropped_bytes + footer.report_bytes) + sizeof(ShardFooter);
}

uint64_t ChecksumOf(std::span<const std::byte> bytes) {
  Xxh3Stream hash;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kHashedAtOnce))) {
    const std::span<const std::byte> some = bytes.first(std::min(bytes.size(), kHashedAtOnce));
    hash.Add({reinterpret_cast<const char*>(some.data()), some.size()});
    ForgetPages(some);
  }
  return hash.Digest64();
}

}  // namespace

absl::StatusOr<MappedShard> MappedShard::Open(const std::filesystem::path& folder, const ShardId& id) {
  FTUNE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(folder / ShardName(id.index)));
  MappedShard shard(std::move(file));
  FTUNE_RETURN_IF_ERROR(shard.Check(id));
  return shard;
}

absl::Status MappedShard::Check(const ShardId& id) {
  const std::string path = file_.path().string();
  const auto wrong = [&](std::string found, std::string expected = "") {
    return DataError({.file = path, .found = std::move(found), .expected = std::move(expected)});
  };
  const std::string_view text = file_.text();
  if (text.size() < sizeof(ShardHeader) + sizeof(ShardFooter)) {
    return wrong(StrCat(text.size(), " bytes"), "a whole shard of a token store");
  }
  ShardHeader header;
  ShardFooter footer;
  std::memcpy(&header, text.data(), sizeof(header));
  std::memcpy(&footer, text.data() + text.size() - sizeof(footer), sizeof(footer));
  if (header.magic != kShardBegin) return wrong("another kind of file", "a shard of a token store");
  if (header.version != kShardVersion) {
    return wrong(StrCat("format version ", header.version), StrCat(kShardVersion));
  }
  if (footer.magic != kShardEnd || !SizesAddUp(footer, text.size())) return wrong("a torn file");
  if (header.key != id.key || header.index != id.index) return wrong("a shard of another store");
  const size_t hashed = text.size() - sizeof(footer) + offsetof(ShardFooter, checksum);
  if (ChecksumOf(file_.bytes().first(hashed)) != footer.checksum) {
    return wrong("bytes that differ from what was written (checksum)");
  }

  entry_ = static_cast<int32_t>(header.entry);
  const char* at = text.data() + sizeof(header);
  tokens_ = {reinterpret_cast<const StoredToken*>(at), footer.tokens};
  at += PadTo8(footer.tokens * sizeof(StoredToken));
  samples_ = {reinterpret_cast<const SampleRecord*>(at), footer.samples};
  at += footer.samples * sizeof(SampleRecord);
  dropped_ = {at, footer.dropped_bytes};
  FTUNE_RETURN_IF_ERROR(CheckSamples());
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json report,
                         ParseJson({at + footer.dropped_bytes, footer.report_bytes}, path));
  FTUNE_ASSIGN_OR_RETURN(report_, DataReport::FromJson(report, path));
  ForgetPages(file_.bytes());
  return absl::OkStatus();
}

// The checksum tells accidents; this, that a file which someone made up cannot lead reads astray.
absl::Status MappedShard::CheckSamples() const {
  for (const SampleRecord& sample : samples_) {
    if (sample.begin <= tokens_.size() && sample.length <= tokens_.size() - sample.begin) continue;
    return DataError({.file = file_.path().string(), .found = "a sample that lies outside of the shard"});
  }
  return absl::OkStatus();
}

absl::Status MappedShard::VisitDropped(int64_t first_row, const DroppedVisitor& visit) const {
  const std::string path = file_.path().string();
  for (std::string_view rest = dropped_; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    FTUNE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(line, path));
    FTUNE_ASSIGN_OR_RETURN(DroppedRow dropped, DroppedRow::FromJson(json, path));
    dropped.row += first_row;
    FTUNE_RETURN_IF_ERROR(visit(dropped));
  }
  return absl::OkStatus();
}

}  // namespace ftune
