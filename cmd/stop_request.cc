#include "cmd/stop_request.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "base/atomic_file.h"
#include "base/folder.h"

namespace ftune {
namespace {

constexpr char kSave[] = "save";
constexpr char kNow[] = "now";

}  // namespace

absl::Status WriteStopRequest(const RunPaths& paths, StopRequest request) {
  return WriteFileAtomic(paths.stop_request(), request == StopRequest::kNow ? kNow : kSave,
                         Durability::kInCache);
}

std::optional<StopRequest> TakeStopRequest(const RunPaths& paths) {
  if (!Exists(paths.stop_request())) return std::nullopt;
  std::string word;
  std::ifstream(paths.stop_request()) >> word;
  std::error_code error;
  // What cannot be removed would stop each later attempt too.
  if (!std::filesystem::remove(paths.stop_request(), error)) return std::nullopt;
  return word == kNow ? StopRequest::kNow : StopRequest::kSave;
}

void RemoveStopRequest(const RunPaths& paths) {
  std::error_code ignored;
  std::filesystem::remove(paths.stop_request(), ignored);
}

}  // namespace ftune
