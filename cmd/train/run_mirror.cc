#include "cmd/train/run_mirror.h"

#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/report/run_log.h"
#include "cmd/train/room_hint.h"
#include "parallel/launch/agent_messages.h"
#include "parallel/launch/host_identity.h"
#include "parallel/launch/mirror/host_mirror.h"
#include "parallel/launch/mirror/mirror_inventory.h"
#include "parallel/launch/mirror/mirror_messages.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

// Lines of the log that are the launcher's, and that the first rank's does not have.
constexpr char kOwnLines[] = R"("event":"straggler")";

// What the first rank writes to a run's folder.
MirrorParts PartsOf(const RunPaths& paths) {
  const auto name = [&](const fs::path& path) { return path.lexically_relative(paths.folder).string(); };
  MirrorParts parts;
  parts.appended = {name(paths.log()), name(paths.dropped()), name(paths.hook_log())};
  parts.growing = {name(paths.tensorboard())};
  // The log tells of these: who reads it finds them.
  parts.announced = {name(paths.recipe()), name(paths.inputs()), name(paths.adapter()), name(paths.model())};
  parts.whole = parts.announced;
  for (const fs::path& path : {paths.trace(), paths.audit()}) parts.whole.push_back(name(path));
  parts.collections = {name(paths.checkpoints())};
  return parts;
}

fs::path Absolute(const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  return error ? fs::absolute(folder).lexically_normal() : real;
}

}  // namespace

RunMirror::RunMirror(Agents& agents, int host, const RunPaths& paths)
    : agents_(agents), host_(host), paths_(Absolute(paths.folder)) {}

RunMirror::~RunMirror() { agents_.ListenToMirror(nullptr); }

absl::StatusOr<nlohmann::json> RunMirror::Open(bool begins) {
  MirrorOrder order = {.folder = paths_.folder.string(),
                       .identity = StrCat(HostName(), ":", paths_.folder.string()),
                       .lock = paths_.lock().filename().string(),
                       .parts = PartsOf(paths_),
                       .begins = begins};
  order.own = kOwnLines;
  if (!begins) {
    FTUNE_ASSIGN_OR_RETURN(order.log, LookAtLines(paths_.log(), order.own));
  }
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json opened,
                         agents_.Ask({host_}, agent::kMirror, Encode(order)).front());
  folder_ = opened.value("folder", std::string());
  agents_.ListenToMirror([this](const Frame& frame) { Take(frame); });
  return opened;
}

void RunMirror::StartReceiving() {
  receiver_ = std::make_unique<MirrorReceiver>(
      MirrorReceiver::Options{.folder = paths_.folder,
                              .parts = PartsOf(paths_),
                              .clear = [this] { return RunFolder::Adopt(paths_.folder, 1).Clear(); },
                              .send = agents_.WayTo(host_)});
}

absl::Status RunMirror::Collect() {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json opened, Open(/*begins=*/false));
  if (!opened.value("continues", false)) return absl::OkStatus();
  StartReceiving();
  FTUNE_ASSIGN_OR_RETURN(MirrorInventory here, TakeInventory(paths_.folder, PartsOf(paths_)));
  if (opened.value("same_log", false)) {
    // The one here has the launcher's own lines too, and stays.
    const std::string log = PartsOf(paths_).appended.front();
    here.appended[log] = DecodeMirrorInventory(opened.at("inventory")).appended[log];
  }
  const absl::Status collected =
      agents_.Ask({host_}, agent::kCollect, {{"inventory", Encode(here)}}, Agents::Patience::kUntilSignal)
          .front()
          .status();
  FTUNE_RETURN_IF_ERROR(WithRoomHint(receiver_->status(), paths_.folder));
  return collected;
}

absl::Status RunMirror::Prepare(bool goes_on) {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json opened, Open(/*begins=*/!goes_on));
  if (goes_on) FTUNE_RETURN_IF_ERROR(Fill(opened.at("inventory")));
  StartReceiving();
  return absl::OkStatus();
}

absl::Status RunMirror::Fill(const nlohmann::json& inventory) {
  // The rank would shorten a log whose last line has no end.
  FTUNE_RETURN_IF_ERROR(RunLog::Open(paths_.log(), 1).status());
  sender_ = std::make_unique<MirrorSender>(MirrorSender::Options{.folder = paths_.folder,
                                                                 .parts = PartsOf(paths_),
                                                                 .there = DecodeMirrorInventory(inventory),
                                                                 .appended_last = true,
                                                                 .send = agents_.WayTo(host_)});
  sender_->Finish();
  const absl::Status waited = agents_.Await([this] { return sender_->finished(); });
  const std::unique_ptr<MirrorSender> sender = std::move(sender_);
  FTUNE_RETURN_IF_ERROR(waited);
  const absl::Status filled = sender->status();
  if (filled.ok()) return filled;
  ErrorDetail detail = DetailOf(filled).value_or(ErrorDetail{.message = std::string(filled.message())});
  detail.key = StrCat("host ", agents_.name(host_));
  return UserError(static_cast<ExitCode>(ExitCodeOf(filled)), std::move(detail));
}

void RunMirror::Take(const Frame& frame) {
  if (frame.kind == mirror::kDo && receiver_) receiver_->Take(frame);
  if (frame.kind == mirror::kDone && sender_) sender_->Take(frame);
}

void RunMirror::OnTick(RankOutput& output) {
  std::error_code error;
  // One that nobody would hear of stays, for the next attempt.
  const bool asks = agents_.connected(host_) && Exists(paths_.save_request());
  if (asks && fs::remove(paths_.save_request(), error)) {
    agents_.WayTo(host_)(
        {.kind = agent::kRequest, .facts = {{"name", paths_.save_request().filename().string()}}});
  }
  for (const absl::Status& failure : receiver_->TakeFailures()) {
    output.Show(
        StrCat("warning: ", std::string(failure.message()), "; training goes on, and it is tried again"));
  }
}

absl::Status RunMirror::Finish() const {
  FTUNE_RETURN_IF_ERROR(WithRoomHint(receiver_->status(), paths_.folder));
  return agents_.mirror_status();
}

void RunMirror::Leave() {
  // A run that is done is done, whatever is left elsewhere.
  agents_.Ask({host_}, agent::kLeave, nlohmann::json::object()).front().status().IgnoreError();
}

}  // namespace ftune
