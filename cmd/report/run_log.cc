#include "cmd/report/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/append_whole.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/mapped_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

nlohmann::json Parse(std::string_view line) {
  return nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
}

// What was written last may lack its end: a line that is whole gets one, another is cut off.
absl::Status MendLastLine(const std::filesystem::path& path) {
  if (!Exists(path)) return absl::OkStatus();
  size_t size = 0;
  bool whole = false;
  {
    FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    const std::string_view text = file.text();
    if (text.empty() || text.ends_with('\n')) return absl::OkStatus();
    size = text.rfind('\n') + 1;  // 0 where there is no other line
    whole = Parse(text.substr(size)).is_object();
  }
  if (!whole) {
    std::error_code error;
    std::filesystem::resize_file(path, size, error);
    return error ? IoError(path, "shorten", error.value()) : absl::OkStatus();
  }
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  const bool ended = file != nullptr && std::fputc('\n', file) != EOF;
  const int error = errno;
  const bool closed = file == nullptr || std::fclose(file) == 0;
  return ended && closed ? absl::OkStatus() : IoError(path, "write", error);
}

// The last line, an object, of which `wanted` is true; null where there is none.
absl::StatusOr<nlohmann::json> LastLineWith(const std::filesystem::path& path,
                                            bool (*wanted)(const nlohmann::json& line)) {
  if (!Exists(path)) return nlohmann::json();
  FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  std::string_view text = file.text();
  while (!text.empty()) {
    const size_t begin = text.substr(0, text.size() - 1).rfind('\n') + 1;
    nlohmann::json line = Parse(text.substr(begin));
    if (line.is_object() && wanted(line)) return line;
    text = text.substr(0, begin);
  }
  return nlohmann::json();
}

}  // namespace

absl::StatusOr<int> LastAttemptOf(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json line, LastLineWith(path, [](const nlohmann::json& line) {
                           return line.contains("attempt") && line["attempt"].is_number_integer();
                         }));
  return line.is_null() ? 0 : line["attempt"].get<int>();
}

absl::StatusOr<std::optional<int64_t>> LastStepOf(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json line, LastLineWith(path, [](const nlohmann::json& line) {
                           return line.contains("event") && line["event"] == "train" &&
                                  line.contains("step") && line["step"].is_number_integer();
                         }));
  return line.is_null() ? std::optional<int64_t>() : line["step"].get<int64_t>();
}

absl::StatusOr<bool> HasEnded(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json line, LastLineWith(path, [](const nlohmann::json& line) {
                           return line.contains("event");
                         }));
  return !line.is_null() && line["event"] == "end" && line.contains("exit") && line["exit"] == 0;
}

absl::StatusOr<std::optional<int64_t>> LastResultOf(const std::filesystem::path& path) {
  // A checkpoint's line says how large it is, or why it could not be written.
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json line, LastLineWith(path, [](const nlohmann::json& line) {
                           return line.contains("event") && line["event"] == "save" &&
                                  !line.contains("bytes") && !line.contains("error") &&
                                  line.contains("step") && line["step"].is_number_integer();
                         }));
  return line.is_null() ? std::optional<int64_t>() : line["step"].get<int64_t>();
}

absl::StatusOr<std::unique_ptr<RunLog>> RunLog::Open(const std::filesystem::path& path, int attempt) {
  FTUNE_RETURN_IF_ERROR(MendLastLine(path));
  return OpenFile(path, attempt, O_CREAT);
}

absl::StatusOr<std::unique_ptr<RunLog>> RunLog::Join(const std::filesystem::path& path, int attempt) {
  return OpenFile(path, attempt, /*flags=*/0);
}

absl::StatusOr<std::unique_ptr<RunLog>> RunLog::OpenFile(const std::filesystem::path& path, int attempt,
                                                         int flags) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0644));
  if (!file) {
    return DataError(
        {.file = path.string(), .message = StrCat("cannot be opened for writing: ", strerror(errno))});
  }
  return std::unique_ptr<RunLog>(new RunLog(std::move(file), path, attempt));
}

void RunLog::Write(std::string_view event, int64_t step, const nlohmann::ordered_json& facts) {
  nlohmann::ordered_json line = {
      {"event", std::string(event)}, {"time", UnixSeconds()}, {"step", step}, {"attempt", attempt_}};
  line.update(facts);
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  status_.Update(AppendWhole(file_, text, path_));
  for (const std::unique_ptr<LogSink>& sink : sinks_) status_.Update(sink->Take(line, text));
}

void RunLog::Start(int64_t step, nlohmann::ordered_json facts) { Write("start", step, facts); }

void RunLog::Step(const StepReport& r) {
  Write("train", r.step,
        {{"loss", r.loss},
         {"lr", r.learning_rate},
         {"grad_norm", r.grad_norm},
         {"epoch", r.epoch},
         {"tokens", r.tokens},
         {"trained_tokens", r.trained_tokens},
         {"tokens_per_second", r.tokens_per_second},
         {"flops_per_second", r.flops_per_second},
         {"step_seconds", r.step_seconds},
         {"data_wait_seconds", r.data_wait_seconds},
         {"communication_bytes", r.communication_bytes},
         {"memory", ToJson(r.memory)},
         {"memory_rank", r.memory_rank}});
}

void RunLog::Skip(const SkipReport& r) {
  Write("skip", r.step,
        {{"reason", "overflow"},
         {"loss", r.loss},
         {"loss_scale", r.loss_scale},
         {"next_loss_scale", r.next_loss_scale}});
}

void RunLog::Eval(const EvalReport& r, const std::vector<PromptAnswer>& samples) {
  nlohmann::ordered_json facts = {{"eval_loss", r.loss}, {"eval_tokens", r.tokens}, {"epoch", r.epoch}};
  for (const PromptAnswer& sample : samples) {
    facts["samples"].push_back({{"prompt", sample.prompt}, {"text", sample.text}});
  }
  Write("eval", r.step, facts);
}

void RunLog::Save(int64_t step, const std::filesystem::path& path) {
  Write("save", step, {{"path", path.string()}});
}

void RunLog::Checkpoint(const SaveReport& r) {
  nlohmann::ordered_json facts = {{"path", r.folder.string()}};
  if (r.status.ok()) {
    facts.update({{"bytes", r.bytes},
                  {"seconds", r.seconds},
                  {"stall_seconds", r.stall_seconds},
                  {"removed", r.removed}});
    if (!r.removed_superseded.empty()) facts["removed_superseded"] = r.removed_superseded;
  } else {
    facts["error"] = std::string(r.status.message());
  }
  Write("save", r.step, facts);
}

void RunLog::Restart(int64_t step, nlohmann::ordered_json facts) { Write("restart", step, facts); }

void RunLog::Straggler(int64_t step, nlohmann::ordered_json facts) { Write("straggler", step, facts); }

void RunLog::End(int64_t step, nlohmann::ordered_json facts) { Write("end", step, facts); }

nlohmann::ordered_json ToJson(const MemoryUse& memory) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (int i = 0; i < kCategories; ++i) {
    const Category category = static_cast<Category>(i);
    json[std::string(Name(category))] = memory[category];
  }
  return json;
}

}  // namespace ftune
