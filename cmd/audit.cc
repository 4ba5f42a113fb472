#include "cmd/audit.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/run_options.h"
#include "data/source/inspect.h"
#include "data/tokenizer/utf8.h"

namespace ftune {

DataAudit AuditOf(const RunData& data) {
  return {data.Audit(), RenderSample(data.train->sample(0), *data.tokenizer, /*colour=*/false)};
}

std::vector<std::string> AuditLines(const DataAudit& audit) {
  constexpr size_t kMaxBytes = 600;
  std::vector<std::string> lines = audit.report.Lines();
  std::string sample = audit.first_sample;
  if (sample.size() > kMaxBytes) sample = StrCat(sample.substr(0, PreviousBoundary(sample, kMaxBytes)), " …");
  lines.push_back(StrCat("audit: the first sample, what is trained in [[ ]]:\n", sample));
  return lines;
}

absl::Status CheckAudit(const DataAudit& audit, const AuditSection& limits) {
  return audit.report.Check(ToAuditLimits(limits));
}

absl::Status WriteAudit(const DataAudit& audit, const std::filesystem::path& path) {
  nlohmann::ordered_json json = audit.report.ToJson();
  json["first_sample"] = audit.first_sample;
  const std::string text = json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return WriteFileAtomic(path, StrCat(text, "\n"));
}

}  // namespace ftune
