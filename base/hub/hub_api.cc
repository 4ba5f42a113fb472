#include "base/hub/hub_api.h"

#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "base/error.h"
#include "base/http/backoff.h"
#include "base/json_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr int kMostPages = 10000;
constexpr char kUnreachable[] = "ftune/unreachable";

// The address of `<ADDRESS>; rel="next"` in a Link header (RFC 8288).
std::optional<std::string> NextPage(const std::string& link) {
  size_t begin = 0;
  while ((begin = link.find('<', begin)) != std::string::npos) {
    const size_t end = link.find('>', begin);
    if (end == std::string::npos) return std::nullopt;
    const size_t next = std::min(link.find('<', end), link.size());
    if (link.substr(end, next - end).find("rel=\"next\"") != std::string::npos)
      return link.substr(begin + 1, end - begin - 1);
    begin = next;
  }
  return std::nullopt;
}

std::string PageOf(const HubSettings& settings, const Repo& repo) {
  return StrCat(settings.endpoint.text(), "/", repo.address());
}

struct Meaning {
  std::string message, hint;
};

Meaning NoAccess(const HubSettings& settings, const Repo& repo, const HttpAnswer& answer) {
  const std::string page = PageOf(settings, repo);
  const std::string code = answer.head.Header("x-error-code");
  const bool has_token = !settings.token.empty();
  const std::string token = has_token ? "use a token (HF_TOKEN) of an account that has access"
                                      : "set HF_TOKEN to a token of an account that has access";
  if (code == "GatedRepo") {
    return {StrCat("access to this ", repo.what(), " must be granted by its owners"),
            StrCat("ask for it at ", page, ", then ", token)};
  }
  if (answer.head.status == 401 && has_token) {
    return {StrCat("the hub does not take the token, or has no such ", repo.what()),
            "check HF_TOKEN (or the token that you logged in with) and the name"};
  }
  return {StrCat("the hub has no such ", repo.what(), ", or it is private"),
          StrCat("check the name at ", page, "; if it is private, ", token)};
}

Meaning NotFound(const HubSettings& settings, const Repo& repo, const HttpAnswer& answer,
                 const std::string& revision, const std::string& file) {
  const std::string code = answer.head.Header("x-error-code");
  if (code == "RevisionNotFound") {
    return {StrCat("the ", repo.what(), " has no revision '", revision, "'"),
            "give a branch, a tag or a commit"};
  }
  if (code == "EntryNotFound" || !file.empty()) {
    return {StrCat("the ", repo.what(), " has no file '", file, "' at revision '", revision, "'"),
            "check the name"};
  }
  return NoAccess(settings, repo, answer);
}

Meaning MeaningOf(const HubSettings& settings, const Repo& repo, const HttpAnswer& answer,
                  const std::string& revision, const std::string& file) {
  if (!answer.ok()) return {answer.problem, answer.advice};
  const std::string retry_after = answer.head.Header("retry-after");
  switch (answer.head.status) {
    case 401:
    case 403:
      return NoAccess(settings, repo, answer);
    case 404:
      return NotFound(settings, repo, answer, revision, file);
    case 429:
      return {"the hub says that there were too many requests (429)",
              StrCat("try again later", retry_after.empty() ? "" : StrCat(" (in ", retry_after, " s)"),
                     settings.token.empty() ? "; with a token (HF_TOKEN) more are allowed" : "")};
    default:
      return {StrCat("the hub answered with status ", answer.head.status),
              answer.head.status >= 500 ? "try again later: what has been downloaded is kept"
                                        : "check HF_ENDPOINT and HTTPS_PROXY"};
  }
}

}  // namespace

HttpClientOptions HubClientOptions(const HubSettings& settings) {
  return {.user_agent = "ftune",
          .token = settings.token,
          .token_origin = settings.endpoint.origin(),
          .timeout_seconds = settings.timeout_seconds,
          .environment = settings.environment};
}

absl::Status HubError(const HttpAnswer& answer, const HubSettings& settings, const Repo& repo,
                      const std::string& revision, const std::string& file) {
  const Meaning meaning = MeaningOf(settings, repo, answer, revision, file);
  absl::Status status =
      DataError({.file = PageOf(settings, repo), .message = meaning.message, .hint = meaning.hint});
  if (!answer.ok() || MayPass(answer)) status.SetPayload(kUnreachable, absl::Cord());
  return status;
}

bool IsUnreachable(const absl::Status& status) { return status.GetPayload(kUnreachable).has_value(); }

Url HubApi::At(const std::string& path) const {
  Url url = settings_.endpoint;
  url.target += path;
  return url;
}

Url HubApi::FileUrl(const std::string& commit, const std::string& path) const {
  return At(StrCat("/", repo_.address(), "/resolve/", commit, "/", PercentEncode(path, "/")));
}

absl::StatusOr<HttpAnswer> HubApi::Get(const Url& url, const std::string& revision, const OnRetry& on_retry) {
  Backoff backoff;
  while (true) {
    FTUNE_ASSIGN_OR_RETURN(HttpAnswer answer, client_.Get(url, {{"Accept", "application/json"}}));
    if (answer.ok() && answer.head.status == 200) return answer;
    const absl::Status error = HubError(answer, settings_, repo_, revision, "");
    const std::optional<std::chrono::milliseconds> wait = backoff.Next(answer);
    if (!wait) return error;
    on_retry(DetailOf(error)->message);
    std::this_thread::sleep_for(*wait);
  }
}

absl::StatusOr<std::string> HubApi::Commit(const std::string& revision, const OnRetry& on_retry) {
  const Url url = At(StrCat("/api/", repo_.api_address(), "/revision/", PercentEncode(revision)));
  FTUNE_ASSIGN_OR_RETURN(const HttpAnswer answer, Get(url, revision, on_retry));
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json info, ParseJson(answer.body, url.text()));
  FTUNE_ASSIGN_OR_RETURN(const std::string commit, RequiredField<std::string>(info, "sha", url.text()));
  if (IsCommit(commit)) return commit;
  return DataError({.file = url.text(),
                    .key = "sha",
                    .found = Excerpt(commit),
                    .expected = "a commit",
                    .hint = "check HF_ENDPOINT"});
}

absl::StatusOr<std::vector<RepoFile>> HubApi::Tree(const std::string& commit, const OnRetry& on_retry) {
  std::vector<RepoFile> files;
  Url url = At(StrCat("/api/", repo_.api_address(), "/tree/", commit, "?recursive=true"));
  for (int page = 0; page < kMostPages; ++page) {
    FTUNE_ASSIGN_OR_RETURN(const HttpAnswer answer, Get(url, commit, on_retry));
    FTUNE_RETURN_IF_ERROR(AddTreePage(answer.body, url.text(), files));
    const std::optional<std::string> next = NextPage(answer.head.Header("link"));
    if (!next) return files;
    const std::optional<Url> next_url = ResolveUrl(answer.url, *next);
    if (!next_url || !SameOrigin(*next_url, answer.url)) break;
    url = *next_url;
  }
  return DataError({.file = url.text(),
                    .message = "the listing of the repository does not end, or goes on elsewhere",
                    .hint = "check HF_ENDPOINT"});
}

}  // namespace ftune
