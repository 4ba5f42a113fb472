// Addresses, proxies, retries and the environment of the hub.
#include <doctest/doctest.h>

#include <map>

#include "base/http/backoff.h"
#include "base/http/proxy.h"
#include "base/http/url.h"
#include "base/hub/settings.h"

namespace ftune {
namespace {

EnvironmentReader Variables(std::map<std::string, std::string> values) {
  return [values](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
  };
}

TEST_CASE("addresses are taken apart") {
  const std::optional<Url> url = ParseUrl("HTTPS://Hub.Example:8443/a/b?c=d#e");
  REQUIRE(url);
  CHECK(url->host == "hub.example");
  CHECK(url->port == 8443);
  CHECK(url->target == "/a/b?c=d");
  CHECK(url->origin() == "https://hub.example:8443");
  CHECK(ParseUrl("http://[::1]:80/x")->host == "::1");
  CHECK(ParseUrl("http://[::1]:81")->text() == "http://[::1]:81/");
  CHECK(ParseUrl("https://h?q")->target == "/?q");
  for (const char* wrong :
       {"", "x", "ftp://x", "http://", "http://a b/", "http://u@h/", "http://h:0", "http://h:99999",
        "http://h/a b", "http://h/\r\nX: y", "http://[::1", "http://h:x/", "https:///x"}) {
    CAPTURE(wrong);
    CHECK_FALSE(ParseUrl(wrong));
  }
}

TEST_CASE("redirects lead to addresses, paths and queries") {
  const Url from = *ParseUrl("https://h:8/a/b?x=y");
  CHECK(ResolveUrl(from, "http://o/z")->text() == "http://o/z");
  CHECK(ResolveUrl(from, "//o/z")->text() == "https://o/z");
  CHECK(ResolveUrl(from, "/z?q=http://t")->text() == "https://h:8/z?q=http://t");
  CHECK(ResolveUrl(from, "z")->text() == "https://h:8/a/z");
  CHECK(ResolveUrl(from, "z?u=http://t")->text() == "https://h:8/a/z?u=http://t");
  CHECK(ResolveUrl(from, "?q")->text() == "https://h:8/a/b?q");
  CHECK_FALSE(ResolveUrl(from, ""));
  CHECK_FALSE(ResolveUrl(from, "file:///x"));
}

TEST_CASE("what a path cannot hold is encoded") {
  CHECK(PercentEncode("refs/pr/1 é%") == "refs%2Fpr%2F1%20%C3%A9%25");
  CHECK(PercentEncode("a/b#c?", "/") == "a/b%23c%3F");
}

TEST_CASE("proxies by scheme, and hosts that have none") {
  const Url secure = *ParseUrl("https://hub.example.org/x"), plain = *ParseUrl("http://hub.example.org");
  const EnvironmentReader both =
      Variables({{"HTTPS_PROXY", "http://u:p%40w@p:3128"}, {"http_proxy", "q:99"}});
  const std::optional<Proxy> proxy = *ProxyFor(secure, both);
  REQUIRE(proxy);
  CHECK(proxy->host == "p");
  CHECK(proxy->port == 3128);
  CHECK(proxy->user == "u");
  CHECK(proxy->password == "p@w");
  CHECK((*ProxyFor(plain, both))->host == "q");
  CHECK((*ProxyFor(secure, Variables({{"ALL_PROXY", "http://a:1"}})))->host == "a");
  CHECK_FALSE(*ProxyFor(secure, Variables({})));
  for (const char* except :
       {"*", "example.org", ".example.org", "x, hub.example.org", "hub.example.org:443"}) {
    CAPTURE(except);
    CHECK_FALSE(*ProxyFor(secure, Variables({{"HTTPS_PROXY", "p:1"}, {"NO_PROXY", except}})));
  }
  for (const char* other : {"ample.org", "other.org", "hub.example.org:80", "hub"}) {
    CAPTURE(other);
    CHECK(*ProxyFor(secure, Variables({{"HTTPS_PROXY", "p:1"}, {"NO_PROXY", other}})));
  }
  const absl::Status wrong =
      ProxyFor(secure, Variables({{"HTTPS_PROXY", "socks5://user:secret@p:1"}})).status();
  CHECK_FALSE(wrong.ok());
  CHECK(wrong.message().find("secret") == absl::string_view::npos);
}

HttpAnswer Answer(int status, const std::string& retry_after = "") {
  HttpAnswer answer;
  answer.head.status = status;
  if (!retry_after.empty()) answer.head.headers["retry-after"] = retry_after;
  return answer;
}

TEST_CASE("waits grow, follow what the server asks, and end") {
  using std::chrono::milliseconds;
  Backoff backoff;
  CHECK(backoff.Next(Answer(503)) == milliseconds(500));
  CHECK(backoff.Next(Answer(500)) == milliseconds(1000));
  CHECK(backoff.Next(Answer(429, "7")) == milliseconds(7000));
  CHECK(backoff.Next(Answer(429, "Wed, 21 Oct 2026 07:28:00 GMT")) == milliseconds(4000));
  CHECK(backoff.Next(Answer(502)) == milliseconds(8000));
  CHECK_FALSE(backoff.Next(Answer(502)));
  backoff.Progress();
  CHECK(backoff.Next(Answer(502)) == milliseconds(500));
  CHECK_FALSE(Backoff().Next(Answer(404)));
  CHECK_FALSE(Backoff().Next(Answer(401)));
  CHECK_FALSE(Backoff().Next(Answer(429, "100000")));
  HttpAnswer unreachable;
  unreachable.failure = HttpFailure::kConnect;
  Backoff connect;
  CHECK(connect.Next(unreachable));
  CHECK(connect.Next(unreachable));
  CHECK_FALSE(connect.Next(unreachable));
  unreachable.failure = HttpFailure::kCertificate;
  CHECK_FALSE(Backoff().Next(unreachable));
}

TEST_CASE("the environment says where the hub and its cache are") {
  const auto read = [](std::map<std::string, std::string> values) {
    return *ReadHubSettings(Variables(values));
  };
  CHECK(read({{"HOME", "/h"}}).cache == "/h/.cache/huggingface/hub");
  CHECK(read({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}).cache == "/x/huggingface/hub");
  CHECK(read({{"HOME", "/h"}, {"HF_HOME", "~/f"}}).cache == "/h/f/hub");
  CHECK(read({{"HF_HOME", "/f"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}).cache == "/old");
  CHECK(read({{"HF_HUB_CACHE", "/new"}, {"HUGGINGFACE_HUB_CACHE", "/old"}}).cache == "/new");
  CHECK(read({}).endpoint.text() == "https://huggingface.co");
  CHECK(read({{"HF_ENDPOINT", "http://m:80/hub/"}}).endpoint.text() == "http://m/hub");
  CHECK(read({{"HF_TOKEN", " t\n"}}).token == "t");
  CHECK(read({{"HF_HUB_OFFLINE", "0"}}).offline.empty());
  CHECK(read({{"HF_HUB_OFFLINE", "True"}}).offline == "HF_HUB_OFFLINE");
  CHECK(read({{"TRANSFORMERS_OFFLINE", "1"}}).offline == "TRANSFORMERS_OFFLINE");
  CHECK(read({{"HF_HUB_DOWNLOAD_TIMEOUT", "3"}}).timeout_seconds == 3);
  for (const auto& [name, value] : std::map<std::string, std::string>{{"HF_ENDPOINT", "hub"},
                                                                      {"HF_TOKEN", "a b"},
                                                                      {"HF_HUB_DOWNLOAD_TIMEOUT", "0"},
                                                                      {"HF_HUB_DOWNLOAD_TIMEOUT", "1s"}}) {
    CAPTURE(name);
    const absl::Status status = ReadHubSettings(Variables({{name, value}})).status();
    CHECK(status.message().find(name) != absl::string_view::npos);
  }
}

}  // namespace
}  // namespace ftune
