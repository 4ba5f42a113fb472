"""A server that plays the routes of the Hugging Face hub that a client needs, on this machine, and fails on demand.

Large files come from a second server, as from the hub's CDN: another origin, by a redirect. Both log what they were
asked, so that a test can say that nothing was asked at all.
"""

import hashlib
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

LFS = (".safetensors", ".parquet", ".gguf", ".bin")
CHUNK = 4096

# Those of whoever runs the tests are not theirs.
for _name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE",
              "TRANSFORMERS_OFFLINE", "HF_HUB_DOWNLOAD_TIMEOUT", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
              "CURL_CA_BUNDLE", "no_proxy", "NO_PROXY", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy",
              "ALL_PROXY"):
    os.environ.pop(_name, None)


def git_id(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def etag(path, data):
    return hashlib.sha256(data).hexdigest() if path.endswith(LFS) else git_id(data)


class Fault:
    """What happens to a request whose path matches, `times` times."""

    def __init__(self, pattern, times=1, **what):
        self.pattern, self.times, self.what = re.compile(pattern), times, what


class Repo:
    def __init__(self, kind, files):
        self.kind, self.commits, self.refs = kind, {}, {}
        self.gated = self.private = False
        self.commit("main", files)

    def commit(self, revision, files):
        files = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
        commit = hashlib.sha1(json.dumps({p: git_id(d) for p, d in files.items()}).encode()).hexdigest()
        self.commits[commit] = files
        self.refs[revision] = commit
        return commit

    def find(self, revision):
        return revision if revision in self.commits else self.refs.get(revision)


class Hub:
    def __init__(self, tls=None, page=1000):
        self.repos, self.faults, self.page = {}, [], page
        self.log, self.cdn_log = [], []
        self.patient = []        # what was waited for too long
        self.moved = {}          # old id: new id
        self.token = None        # what gated and private repositories ask for
        self.lock = threading.Lock()
        self.tls = tls
        self.cdn = self._serve(CdnHandler)
        self.server = self._serve(HubHandler)

    def _serve(self, handler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.hub = self
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.tls / "server.pem", self.tls / "server.key")
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def _url(self, server):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{server.server_address[1]}"

    @property
    def url(self):
        return self._url(self.server)

    @property
    def cdn_url(self):
        return self._url(self.cdn)

    def add(self, repo_id, files, kind="models"):
        repo = self.repos[kind, repo_id] = Repo(kind, files)
        return repo

    def fail(self, pattern, times=1, **what):
        self.faults.append(Fault(pattern, times, **what))

    def fault(self, path):
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.pattern.search(path):
                    fault.times -= 1
                    return fault.what
        return {}

    def environment(self, cache):
        return {"HF_ENDPOINT": self.url, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1"}

    def stop(self):
        for server in (self.server, self.cdn):
            server.shutdown()
            server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError, socket.timeout):
            pass

    def do_HEAD(self):
        self.do_GET()

    def send(self, status, body=b"", headers=None, announced=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_json(self, value, headers=None):
        self.send(200, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def refuse(self, status, code):
        self.send(status, json.dumps({"error": code}).encode(), {"X-Error-Code": code} if code else {})

    def break_off(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def fails(self, fault):
        """Plays what can happen before there is a body; → whether that was all."""
        if "status" in fault:
            self.send(fault["status"], b"no", fault.get("headers", {}))
            return True
        if "silent" in fault:
            self.stay_silent()
            return True
        return False

    def stay_silent(self):
        """Until the client has given up and asks again: one that does not is noted."""
        hub, end = self.server.hub, time.monotonic() + 60
        while sum(path == self.path for _, path, _ in hub.log + hub.cdn_log) < 2:
            if time.monotonic() > end:
                hub.patient.append(self.path)
                break
            time.sleep(0.05)
        self.break_off()

    def send_file(self, data, headers, fault):
        """The file or the range of it that is asked for, with what goes wrong on the way."""
        begin, status = 0, 200
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and not fault.get("no_range"):
            begin, status = int(asked[1]) - fault.get("shift", 0), 206
            if begin >= len(data):
                self.send(416)
                return
            headers = {**headers, "Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}
        body = data[begin:]
        if fault.get("wrong"):
            body = bytes([body[0] ^ 1]) + body[1:]
        if "short" in fault:  # well-formed, but not all of it
            body = body[:fault["short"]]
        if "drop" not in fault and "slow" not in fault:
            self.send(status, body, headers)
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        end = fault.get("drop", len(body))
        for i in range(0, end, CHUNK):
            self.wfile.write(body[i:min(i + CHUNK, end)])
            self.wfile.flush()
            time.sleep(fault.get("slow", 0))
        if "drop" in fault:
            self.break_off()


class CdnHandler(Handler):
    def do_GET(self):
        hub = self.server.hub
        hub.cdn_log.append((self.command, self.path, dict(self.headers)))
        fault = hub.fault(self.path)
        if self.fails(fault):
            return
        wanted = urlsplit(self.path).path.removeprefix("/lfs/")
        for repo in hub.repos.values():
            for files in repo.commits.values():
                for path, data in files.items():
                    if etag(path, data) == wanted:
                        self.send_file(data, {"ETag": '"cdn"'}, fault)
                        return
        self.send(404)


class HubHandler(Handler):
    def do_GET(self):
        hub = self.server.hub
        if self.path.startswith("http://"):  # as a proxy
            hub.log.append(("PROXY", self.path, dict(self.headers)))
            self.path = self.path[self.path.index("/", len("http://")):]
        hub.log.append((self.command, self.path, dict(self.headers)))
        fault = hub.fault(self.path)
        if self.fails(fault):
            return
        url = urlsplit(self.path)
        for old, new in hub.moved.items():
            if f"/{old}/" in url.path:
                self.send(307, b"", {"Location": self.path.replace(old, new, 1)})
                return
        api = re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/(revision|tree)/([^/]+)(/.*)?", url.path)
        file = re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path)
        if api:
            self.api(*api.groups()[:4], parse_qs(url.query))
        elif file:
            self.resolve("datasets" if file[1] else "models", *file.groups()[1:], fault)
        else:
            self.send(404, b"no such route")

    def repo(self, kind, repo_id, gated_too):
        """The repository, or None where access was refused."""
        hub = self.server.hub
        repo = hub.repos.get((kind, repo_id))
        given = self.headers.get("Authorization", "")
        known = hub.token is not None and given == f"Bearer {hub.token}"
        if given and hub.token is not None and not known:
            self.refuse(401, "")
        elif repo is None or (repo.private and not known):
            # The hub does not tell strangers which it is.
            self.refuse(404 if known else 401, "RepoNotFound")
        elif repo.gated and gated_too and not (known and repo.gated != "refused"):
            self.refuse(403 if known else 401, "GatedRepo")
        else:
            return repo
        return None

    def api(self, kind, repo_id, route, revision, query):
        repo = self.repo(kind, repo_id, gated_too=False)
        if repo is None:
            return
        commit = repo.find(unquote(revision))
        if commit is None:
            self.refuse(404, "RevisionNotFound")
        elif route == "revision":
            self.send_json({"id": repo_id, "sha": commit, "siblings": [{"rfilename": p} for p in repo.commits[commit]]})
        else:
            self.tree(repo.commits[commit], query)

    def tree(self, files, query):
        entries = []
        for path, data in files.items():
            entry = {"type": "file", "oid": git_id(data), "size": len(data), "path": path}
            if path.endswith(LFS):
                entry["oid"] = git_id(b"pointer to " + path.encode())
                entry["lfs"] = {"oid": etag(path, data), "size": len(data), "pointerSize": 134}
            entries.append(entry)
        folders = {path.rsplit("/", 1)[0] for path in files if "/" in path}
        entries += [{"type": "directory", "oid": "0" * 40, "size": 0, "path": folder} for folder in folders]
        begin, size = int(query.get("cursor", ["0"])[0]), self.server.hub.page
        headers = {}
        if begin + size < len(entries):
            next_url = f"{self.server.hub.url}{urlsplit(self.path).path}?recursive=true&cursor={begin + size}"
            headers["Link"] = f'<{next_url}>; rel="next"'
        self.send_json(entries[begin:begin + size], headers)

    def resolve(self, kind, repo_id, revision, path, fault):
        repo = self.repo(kind, repo_id, gated_too=True)
        if repo is None:
            return
        commit, path = repo.find(unquote(revision)), unquote(path)
        data = repo.commits.get(commit, {}).get(path)
        if data is None:
            self.refuse(404, "EntryNotFound" if commit else "RevisionNotFound")
            return
        name = etag(path, data)
        headers = {"X-Repo-Commit": commit, "ETag": f'"{name}"'}
        if path.endswith(LFS):
            headers |= {"X-Linked-Etag": f'"{name}"', "X-Linked-Size": str(len(data)),
                        "Location": fault.get("location", f"{self.server.hub.cdn_url}/lfs/{name}?signature={quote('a b')}")}
            self.send(302, b"", headers)
        else:
            self.send_file(data, headers, fault)


def make_certificates(folder):
    """A certificate authority (ca.pem), and what a server on 127.0.0.1 shows (server.pem, server.key)."""
    def openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], cwd=folder, check=True, capture_output=True)

    folder.mkdir(parents=True, exist_ok=True)
    key = ["-newkey", "rsa:2048", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=test hub")
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", "server.pem", "-days", "2", "-extfile", "san")
    return folder
