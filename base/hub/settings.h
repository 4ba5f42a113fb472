// Where the hub and its cache are, as Hugging Face's own tools are told by the environment.
#pragma once

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "base/http/proxy.h"
#include "base/http/url.h"

namespace ftune {

struct HubSettings {
  Url endpoint;  // HF_ENDPOINT, else the public hub
  std::filesystem::path
      cache;                 // HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub
  std::string token;         // HF_TOKEN, or the file HF_TOKEN_PATH or $HF_HOME/token; may be empty
  std::string offline;       // the variable that forbids the network: HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE
  int timeout_seconds = 10;  // HF_HUB_DOWNLOAD_TIMEOUT
  EnvironmentReader environment;
};

// An error names the variable whose value cannot be used.
absl::StatusOr<HubSettings> ReadHubSettings(const EnvironmentReader& environment);

}  // namespace ftune
