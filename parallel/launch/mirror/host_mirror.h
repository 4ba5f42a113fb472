// An agent's part in keeping a run's folder where its launcher is: a folder of this host, in which the first
// rank writes as if it were the run's, and which the launcher's is kept equal to.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "parallel/launch/frame.h"
#include "parallel/launch/mirror/mirror_inventory.h"
#include "parallel/launch/mirror/mirror_parts.h"
#include "parallel/launch/mirror/mirror_receiver.h"
#include "parallel/launch/mirror/mirror_sender.h"

namespace ftune {

struct MirrorOrder {
  std::string folder;    // where the run's is, on the launcher's host
  std::string identity;  // of that folder, among those of all hosts
  std::string lock;      // the file in it that who writes there has locked
  MirrorParts parts;
  bool begins = false;  // the run does: nothing of an earlier one is kept
  // What the launcher has of the first file that grows, but for lines with `own` in them, which it has added.
  AppendedFile log;
  std::string own;
};
nlohmann::json Encode(const MirrorOrder& order);
// Throws as the JSON library does.
MirrorOrder DecodeMirrorOrder(const nlohmann::json& json);

class HostMirror {
 public:
  using Send = std::function<void(const Frame&)>;

  // In a folder of the same name, where that can be made or is this run's mirror already; else in this host's
  // cache. Nobody else has it for as long as this lives.
  static absl::StatusOr<std::unique_ptr<HostMirror>> Open(const MirrorOrder& order, const Send& send);

  const std::filesystem::path& folder() const { return folder_; }
  // What the launcher needs to know: folder, inventory; continues, whether all of its log is here: then what
  // is here and not there came after what it has; and same_log, whether that is all of the log: what a log
  // tells of comes after it.
  absl::StatusOr<nlohmann::json> Facts() const;
  // A frame of mirror::kDo or mirror::kDone.
  void Take(const Frame& frame);

  // From now on what changes here goes to the launcher, which has what is here now; until it is stopped,
  // which may leave some of it.
  absl::Status StartSending();
  // The same where the launcher has something else; nothing that it has is removed.
  void StartSending(MirrorInventory there);
  // The last of it; then `finished`, and `status` says whether all could be read here.
  void Finish();
  bool finished() const { return sender_->finished(); }
  absl::Status status() const { return sender_->status(); }
  void StopSending() { sender_.reset(); }

  // Makes an empty file, by which somebody asks the ranks for something. Where it cannot be made (a full
  // disk), PassRequests, which is called now and then, makes it when it can.
  void Request(const std::string& name);
  void PassRequests();
  // Removes what it has of the run, and the folder if that is all.
  absl::Status Remove();

 private:
  HostMirror(std::filesystem::path folder, Descriptor lock, const MirrorOrder& order, Send send);
  static absl::StatusOr<std::unique_ptr<HostMirror>> Claim(const std::filesystem::path& folder,
                                                           const MirrorOrder& order, const Send& send);
  absl::Status RemoveParts() const;
  absl::Status RemoveLeftOvers() const;

  std::filesystem::path folder_;
  Descriptor lock_;
  MirrorOrder order_;
  Send send_;
  std::set<std::string> requests_;  // that could not be passed on yet
  std::unique_ptr<MirrorReceiver> receiver_;
  std::unique_ptr<MirrorSender> sender_;
};

}  // namespace ftune
