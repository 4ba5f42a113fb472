// Where the ranks of a run leave each other small messages before they are connected.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ftune {

class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // An error of kTimeout where the store does not take it in time.
  virtual absl::Status Set(const std::string& key, const std::string& value, absl::Duration timeout) = 0;
  absl::Status Set(const std::string& key, const std::string& value) {
    return Set(key, value, absl::Seconds(10));
  }
  // Waits until some rank has set the key; an error of kTimeout where none has in time, of
  // kRankFailed where the store is gone.
  virtual absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) = 0;
  // The values of keys that are all set, in their order, in the time of one question. Errors as Get's.
  virtual absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                          absl::Duration timeout) = 0;
  // The first reason why the run cannot go on that the store knows of: what a rank told, or that one died. OK
  // where there is none, or the store does not say in time.
  virtual absl::Status Trouble(absl::Duration timeout) = 0;
  // Tells the others why this rank cannot go on.
  virtual void TellTrouble(const absl::Status& trouble) = 0;
};

}  // namespace ftune
