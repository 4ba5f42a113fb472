// The hub's routes: what a revision is, what files it has, where they are; and what its refusals mean.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/http/http_client.h"
#include "base/hub/repo.h"
#include "base/hub/repo_file.h"
#include "base/hub/settings.h"

namespace ftune {

// Told before each wait for another try.
using OnRetry = std::function<void(const std::string& why)>;

class HubApi {
 public:
  // All outlive it.
  HubApi(HttpClient& client, const HubSettings& settings, const Repo& repo)
      : client_(client), settings_(settings), repo_(repo) {}

  // The commit of a branch, a tag or a commit.
  absl::StatusOr<std::string> Commit(const std::string& revision, const OnRetry& on_retry);
  absl::StatusOr<std::vector<RepoFile>> Tree(const std::string& commit, const OnRetry& on_retry);
  Url FileUrl(const std::string& commit, const std::string& path) const;

 private:
  Url At(const std::string& path) const;
  // The body of an answer of status 200, after as many tries as are of use.
  absl::StatusOr<HttpAnswer> Get(const Url& url, const std::string& revision, const OnRetry& on_retry);

  HttpClient& client_;
  const HubSettings& settings_;
  const Repo& repo_;
};

// The options of a client that talks to the hub.
HttpClientOptions HubClientOptions(const HubSettings& settings);

// An answer that is no success, as an error that says what to do. `file`: the path in the repository that was
// asked for, or empty.
absl::Status HubError(const HttpAnswer& answer, const HubSettings& settings, const Repo& repo,
                      const std::string& revision, const std::string& file);
// Whether that error is one of the network or of a server that is down, not a refusal.
bool IsUnreachable(const absl::Status& status);

}  // namespace ftune
