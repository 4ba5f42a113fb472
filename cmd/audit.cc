#include "cmd/audit.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/run_options.h"
#include "data/source/inspect.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

std::string FirstSample(const RunData& data) {
  return RenderSample(data.train->sample(0), *data.tokenizer, /*colour=*/false);
}

}  // namespace

std::vector<std::string> AuditLines(const RunData& data) {
  constexpr size_t kMaxBytes = 600;
  std::vector<std::string> lines = data.Audit().Lines();
  std::string sample = FirstSample(data);
  if (sample.size() > kMaxBytes) sample = StrCat(sample.substr(0, PreviousBoundary(sample, kMaxBytes)), " …");
  lines.push_back(StrCat("audit: the first sample, what is trained in [[ ]]:\n", sample));
  return lines;
}

absl::Status CheckAudit(const RunData& data, const AuditSection& limits) {
  return data.Audit().Check(ToAuditLimits(limits));
}

absl::Status WriteAudit(const RunData& data, const std::filesystem::path& path) {
  nlohmann::ordered_json json = data.Audit().ToJson();
  json["first_sample"] = FirstSample(data);
  const std::string text = json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return WriteFileAtomic(path, StrCat(text, "\n"));
}

}  // namespace ftune
