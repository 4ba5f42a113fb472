"""Models and datasets by hub id: the ftune binary against a server that plays the hub (hub_server.py)."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

from cli_case import CHATS, TINY, run_tests
from hub_server import LFS, Hub, etag, make_certificates

MODEL = "acme/tiny-chat"
ROWS = "".join(json.dumps(row) + "\n" for row in CHATS)
WEIGHTS = "model.safetensors"


def model_files(**more):
    files = {path.name: path.read_bytes() for path in TINY.iterdir()}
    # Neither is ever to be fetched.
    return {**files, "pytorch_model.bin": b"a pickle", "README.md": "# tiny\n", "onnx/model.onnx": b"x", **more}


def hub_with_model(case, **options):
    hub = Hub(**options)
    hub.add(MODEL, model_files())
    case.hub, case.cache = hub, case.folder / "hf home"
    return hub


def environment(case, **more):
    return {**case.hub.environment(case.cache), **more}


def tokenize(case, name=MODEL, **more):
    return case.run("tokenize", name, text="What is 1 plus 1?", environment=environment(case, **more))


def expect(done, code=0):
    assert done.returncode == code, f"exit {done.returncode}, expected {code}: {done.stdout}{done.stderr}"
    return done


def fails(done, *says, code=4):
    expect(done, code)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1, done.stderr
    for text in says:
        assert text in errors[0], f"'{text}' is not in: {errors[0]}"


def requests(hub):
    return len(hub.log) + len(hub.cdn_log)


def fetched(hub):
    """Names of the files that were fetched from the hub."""
    return sorted(path.split("/resolve/")[1].split("/", 1)[1] for _, path, _ in hub.log if "/resolve/" in path)


def repo_folder(case, kind="models", name=MODEL):
    return case.cache / "hub" / f"{kind}--{name.replace('/', '--')}"


def test_train_by_id(case):
    """Over https: model and data by id, the run names what it used, and goes without the hub from then on."""
    certificates = make_certificates(case.folder / "tls")
    hub = hub_with_model(case, tls=certificates)
    hub.add("acme/chats", {"train.jsonl": ROWS, "test.jsonl": ROWS * 2}, kind="datasets")
    trust = {"SSL_CERT_FILE": str(certificates / "ca.pem")}
    (case.folder / "recipe.yaml").write_text(
        f"model: {{path: {MODEL}}}\noutput_dir: out\nadapter: {{lora_r: 4}}\n"
        "data: {train: [{path: acme/chats, split: train}], eval: [{path: acme/chats, split: test}], sequence_len: 128}\n"
        "train: {global_batch_size: 2, max_steps: 3, num_epochs: 3}\n")
    fails(case.run("train", "recipe.yaml", environment=environment(case)), "certificate", "SSL_CERT_FILE")
    expect(case.run("train", "recipe.yaml", environment=environment(case, **trust)))
    assert [line["loss"] for line in case.log() if line["event"] == "train"]
    commit = hub.repos["models", MODEL].refs["main"]
    recipe = (case.folder / "out" / "recipe.yaml").read_text()
    assert MODEL in recipe and commit in recipe and hub.repos["datasets", "acme/chats"].refs["main"] in recipe, recipe
    config = json.loads((case.folder / "out" / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == MODEL and config["revision"] == commit, config
    assert fetched(hub) == sorted(["config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                                   "special_tokens_map.json", "tokenizer_config.json", "test.jsonl", "train.jsonl"]), fetched(hub)
    # From the cache: the server is gone.
    before = requests(hub)
    hub.stop()
    for arguments in (["train", "recipe.yaml", "output_dir=again"], ["inspect", "recipe.yaml"],
                      ["eval", "out", "acme/chats", "--split", "test"], ["generate", "out", "--prompt", "What"],
                      ["eval", MODEL, "acme/chats", "--split", "train"], ["generate", MODEL, "--prompt", "What"],
                      ["export", MODEL, "--out", "copy"], ["export", "out", "--merge", "--out", "merged"]):
        expect(case.run(*arguments, environment=environment(case, **trust)))
    assert requests(hub) == before
    # The run's own recipe, which names commits, gives the same losses.
    shutil.copy(case.folder / "out" / "recipe.yaml", case.folder / "own.yaml")
    expect(case.run("train", "own.yaml", "output_dir=own", environment=environment(case, **trust)))
    losses = [[line["loss"] for line in case.log(run) if line["event"] == "train"] for run in ("out", "own")]
    assert losses[0] == losses[1], losses


def test_layout(case):
    hub = hub_with_model(case)
    expect(case.run("export", MODEL, "--out", "copy", environment=environment(case)))
    root, commit = repo_folder(case), hub.repos["models", MODEL].refs["main"]
    assert (root / "refs" / "main").read_text() == commit
    for name, data in model_files().items():
        path = root / "snapshots" / commit / name
        if name in ("pytorch_model.bin", "README.md", "onnx/model.onnx"):
            assert not path.exists()
            continue
        assert os.readlink(path) == f"../../blobs/{etag(name, data)}", os.readlink(path)
        assert path.read_bytes() == data
    assert not list(root.glob("blobs/*.incomplete"))
    tree = json.loads((root / "trees" / f"{commit}.json").read_text())
    assert tree["files"]["pytorch_model.bin"]["lfs_size"] == 8
    assert (case.cache / "hub" / ".locks" / root.name).is_dir()
    # A folder of its own, and the older name of the variable.
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        expect(tokenize(case, **{name: str(case.folder / name)}))
        assert (case.folder / name / root.name / "refs" / "main").exists()


def test_tokenizer_only(case):
    """tokenize and template need no weights."""
    hub = hub_with_model(case)
    expect(tokenize(case))
    chat = json.dumps({"messages": CHATS[0]["messages"]})
    done = expect(case.run("template", MODEL, text=chat, environment=environment(case)))
    assert "What is 0 plus 0?" in done.stdout
    assert WEIGHTS not in fetched(hub) and not hub.cdn_log
    # The rest comes when it is needed, and only that.
    before = len(fetched(hub))
    expect(case.run("generate", MODEL, "--prompt", "What", environment=environment(case)))
    assert len(fetched(hub)) == before + 3, fetched(hub)


def test_config_only(case):
    """plan needs no more."""
    hub = hub_with_model(case)
    recipe = case.recipe(model=MODEL, adapter=False)
    plan = ["plan", recipe, "parallel.pipeline=2", "--schedule", "out.txt"]
    scaled = "model.rope_scaling={rope_type: linear, factor: 2}"
    for more in ((), (scaled,)):
        done = expect(case.run(*plan, *more, environment=environment(case)))
        assert "stage 1: " in done.stdout, done.stdout
    wanted = {"config.json", "generation_config.json"}
    assert set(fetched(hub)) <= wanted and "config.json" in fetched(hub) and not hub.cdn_log, fetched(hub)
    # Training takes the rest.
    expect(case.run("train", recipe, "output_dir=out", environment=environment(case)))
    assert WEIGHTS in fetched(hub), fetched(hub)


def test_no_network(case):
    """What is on this disk wins; what cannot be an id is not asked for."""
    hub = hub_with_model(case)
    shutil.copytree(TINY, case.folder / "acme" / "tiny-chat")
    expect(tokenize(case))
    case.recipe("output_dir: out\n")
    expect(case.run("train", "recipe.yaml", environment=environment(case)))
    for name in ("nothing", "./acme/nothing", "/acme/nothing", "acme/x.gguf", "data/chats.jsonl", "a/b/c", "../a",
                 "acme/", "acme/-x", "a--b/c"):
        fails(tokenize(case, name), code=4)
    for name in ("data/chats.jsonl", "data/chats.json.gz", "no-such", "a/b/c"):
        expect(case.run("eval", TINY, name, environment=environment(case)), 4)
    assert requests(hub) == 0, hub.log
    for key in ("model.revision=main", "data.train=[{path: chats.jsonl, split: train}]",
                "data.train=[{path: chats.jsonl, name: x}]", "data.train=[{path: chats.jsonl, revision: main}]"):
        fails(case.run("train", "recipe.yaml", key, "output_dir=other", environment=environment(case)),
              key.split("=")[0], code=2)
    fails(case.run("eval", TINY, "chats.jsonl", "--split", "train", environment=environment(case)), "--split", code=2)
    assert requests(hub) == 0, hub.log


def test_offline(case):
    hub = hub_with_model(case)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        fails(tokenize(case, **{name: "1"}), MODEL, name)
    assert requests(hub) == 0
    expect(tokenize(case))
    before = requests(hub)
    expect(tokenize(case, HF_HUB_OFFLINE="1"))
    # The weights are not there yet.
    fails(case.run("generate", MODEL, "--prompt", "x", environment=environment(case, HF_HUB_OFFLINE="1")), "HF_HUB_OFFLINE")
    assert requests(hub) == before


def test_passing_faults(case):
    """Each is mended by trying again; what has come is not fetched twice."""
    faults = {
        "unavailable": dict(status=503),
        "too many": dict(status=429, headers={"Retry-After": "1"}),
        "dropped": dict(drop=6000),
        "short": dict(short=7000),
        "wrong": dict(wrong=True),
        "silent": dict(silent=True),
    }
    for name, fault in faults.items():
        for pattern in ("/lfs/", "/resolve/.*tokenizer.json") + (("/api/",) if "status" in fault else ()):
            hub = hub_with_model(case)
            shutil.rmtree(case.cache, ignore_errors=True)
            hub.fail(pattern, **fault)
            start = time.monotonic()
            out = f"{name} {pattern.strip('/').partition('/')[0]}"
            done = case.run("export", MODEL, "--out", out,
                            environment=environment(case, HF_HUB_DOWNLOAD_TIMEOUT="1"))
            expect(done)
            assert "again" in done.stderr, (name, done.stderr)
            assert not hub.patient, hub.patient
            if "headers" in fault:
                assert time.monotonic() - start >= 1
            copies = [(path, headers.get("Range")) for _, path, headers in hub.cdn_log]
            if pattern == "/lfs/":
                assert len(copies) == 2, (name, copies)
                expected = {"dropped": "bytes=6000-", "short": "bytes=7000-"}.get(name)
                assert copies[1][1] == expected, (name, copies)
            hub.stop()


def test_lasting_faults(case):
    hub = hub_with_model(case)
    hub.fail("/lfs/", times=9, wrong=True)
    done = case.run("generate", MODEL, "--prompt", "x", environment=environment(case))
    fails(done, WEIGHTS, "SHA-256", "not what it announces")
    blobs = [path.name for path in repo_folder(case).glob("blobs/*")]
    assert etag(WEIGHTS, model_files()[WEIGHTS]) not in blobs, blobs
    hub.faults.clear()
    hub.fail("/api/", times=99, status=429, headers={"Retry-After": "4000"})
    shutil.rmtree(case.cache)
    fails(tokenize(case), "429", "4000")
    hub.faults.clear()
    hub.fail("/api/", times=99, status=500)
    fails(tokenize(case), "500", "try again later")
    assert len([1 for _, path, _ in hub.log if "/api/" in path]) >= 8
    hub.stop()
    fails(tokenize(case), "cannot be reached", "HF_ENDPOINT")
    fails(tokenize(case, HF_ENDPOINT="ftp://x"), "HF_ENDPOINT", code=2)


def test_no_ranges(case):
    """A server that starts anew each time, and one that does not like the range."""
    hub = hub_with_model(case)
    hub.fail("/lfs/", drop=20000)
    hub.fail("/lfs/", no_range=True)
    expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
    assert len(hub.cdn_log) == 2
    shutil.rmtree(case.cache)
    hub.fail("/lfs/", drop=20000)
    hub.fail("/lfs/", status=416)
    expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
    # One that sends another range than was asked for: seen before it is written.
    shutil.rmtree(case.cache)
    hub.fail("/lfs/", drop=20000)
    hub.fail("/lfs/", shift=7)
    done = expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
    assert "not what the hub announced" not in done.stderr, done.stderr
    # What an older version, or a broken disk, left behind: too much, and something else.
    for rubbish in (b"x" * 10 ** 6, b"x" * 1000):
        shutil.rmtree(case.cache)
        expect(tokenize(case))
        blob = repo_folder(case) / "blobs" / (etag(WEIGHTS, model_files()[WEIGHTS]) + ".incomplete")
        blob.write_bytes(rubbish)
        expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
        assert not blob.exists()


def test_refusals(case):
    hub = hub_with_model(case)
    hub.token = "hf_right"
    fails(tokenize(case, "acme/nothing"), "no such model", "HF_TOKEN", "taken for a model of the hub")
    fails(tokenize(case, "acme/nothing", HF_TOKEN="hf_right"), "no such model")
    fails(tokenize(case, "acme/nothing", HF_TOKEN="hf_wrong"), "does not take the token")
    hub.repos["models", MODEL].private = True
    fails(tokenize(case), "private", "HF_TOKEN")
    expect(tokenize(case, HF_TOKEN="hf_right"))
    hub.add("acme/gated", model_files()).gated = True
    fails(tokenize(case, "acme/gated"), "granted by its owners", f"{hub.url}/acme/gated", "set HF_TOKEN")
    hub.repos["models", "acme/gated"].gated = "refused"
    fails(tokenize(case, "acme/gated", HF_TOKEN="hf_right"), "granted by its owners", "of an account that has access")
    assert "hf_right" not in tokenize(case, "acme/gated", HF_TOKEN="hf_right").stderr
    hub.add("acme/pickle", {"config.json": "{}", "pytorch_model.bin": b"x"})
    fails(case.run("generate", "acme/pickle", "--prompt", "x", environment=environment(case)), "pickles")
    hub.add("acme/quants", {"a-Q4_K.gguf": b"x", "a-Q8_0.gguf": b"y"})
    fails(case.run("generate", "acme/quants", "--prompt", "x", environment=environment(case)), "acme/quants/a-Q4_K.gguf")
    fails(case.run("generate", "acme/quants/b.gguf", "--prompt", "x", environment=environment(case)), "no file 'b.gguf'")
    case.recipe(f"output_dir: out\n", model="acme/open")
    hub.add("acme/open", model_files())
    fails(case.run("train", "recipe.yaml", "model.revision=v9", environment=environment(case)), "no revision 'v9'")
    fails(case.run("train", "recipe.yaml", "model.revision=../x", environment=environment(case)), "revision", code=2)
    assert fetched(hub).count("pytorch_model.bin") == 0


def test_token(case):
    """It goes to the hub alone, not to where the hub redirects; from the variable, or from the file of a login."""
    hub = hub_with_model(case)
    hub.token = "hf_right"
    hub.repos["models", MODEL].private = True
    expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case, HF_TOKEN="hf_right")))
    assert all(headers.get("Authorization") == "Bearer hf_right" for _, _, headers in hub.log)
    assert hub.cdn_log and all("Authorization" not in headers for _, _, headers in hub.cdn_log)
    shutil.rmtree(case.cache)
    case.cache.mkdir()
    (case.cache / "token").write_text("hf_right\n")
    expect(tokenize(case))
    shutil.rmtree(case.cache / "hub")
    (case.folder / "other").write_text("hf_wrong")
    fails(tokenize(case, HF_TOKEN_PATH=str(case.folder / "other")), "does not take the token")
    fails(tokenize(case, HF_TOKEN="a\tb"), "HF_TOKEN", code=2)


def test_redirects(case):
    hub = hub_with_model(case)
    hub.moved["old/name"] = MODEL
    expect(tokenize(case, "old/name"))
    assert (repo_folder(case, name="old/name") / "refs" / "main").exists()
    hub.fail("/resolve/.*safetensors", times=99, location="/acme/tiny-chat/resolve/main/model.safetensors")
    fails(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)), "circles")
    hub.faults.clear()
    hub.fail("/resolve/.*safetensors", times=99, location="file:///etc/passwd")
    fails(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)), "redirects to no address")
    certificates = make_certificates(case.folder / "tls")
    plain, hub = case.hub, hub_with_model(case, tls=certificates)
    hub.fail("/resolve/.*safetensors", times=99, location=f"{plain.cdn_url}/lfs/x")
    case.cache = case.folder / "another"
    fails(case.run("generate", MODEL, "--prompt", "x",
                   environment=environment(case, REQUESTS_CA_BUNDLE=str(certificates / "ca.pem"))), "from https to http")
    fails(tokenize(case, "acme/other", SSL_CERT_FILE="/nowhere"), "SSL_CERT_FILE")
    fails(tokenize(case, "acme/other", HF_ENDPOINT=plain.url.replace("http:", "https:")), "no encrypted connection")


def kill_when(case, arguments, part, size):
    """Runs ftune until there are more than `size` bytes of `part`, kills it, and → what had come."""
    process = subprocess.Popen([case.ftune, *arguments], cwd=case.folder, env={**os.environ, **environment(case)},
                               stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (part.exists() and part.stat().st_size > size):
        assert process.poll() is None, process.returncode
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return part.stat().st_size


def test_killed(case):
    """kill -9 in the middle: the next run goes on where it stopped."""
    hub = hub_with_model(case)
    hub.fail("/lfs/", slow=0.2)  # some 16 pieces
    size = len(model_files()[WEIGHTS])
    part = repo_folder(case) / "blobs" / (etag(WEIGHTS, model_files()[WEIGHTS]) + ".incomplete")
    came = kill_when(case, ["generate", MODEL, "--prompt", "x"], part, 10000)
    assert 10000 < came < size
    done = expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
    assert hub.cdn_log[-1][2]["Range"] == f"bytes={came}-", hub.cdn_log[-1]
    assert "were here already" in done.stderr, done.stderr
    assert not part.exists()


def test_train_killed(case):
    """train by ids, killed within the weights, then within the data; the third run goes on, and trains as on folders."""
    hub = hub_with_model(case)
    rows = ROWS * 50
    hub.add("acme/chats", {"train.jsonl": rows}, kind="datasets")
    case.recipe("output_dir: out\n", model=MODEL)
    arguments = ["train", "recipe.yaml", "data.train=[acme/chats]"]
    weights = repo_folder(case) / "blobs" / (etag(WEIGHTS, model_files()[WEIGHTS]) + ".incomplete")
    data = repo_folder(case, "datasets", "acme/chats") / "blobs" / (etag("train.jsonl", rows.encode()) + ".incomplete")
    hub.fail("/lfs/", slow=0.2)
    hub.fail("train.jsonl", slow=0.2)
    came = kill_when(case, arguments, weights, 10000)
    assert not list(case.folder.glob("out/*"))
    came_data = kill_when(case, arguments, data, 6000)
    assert not weights.exists()
    done = expect(case.run(*arguments, environment=environment(case)))
    assert [headers.get("Range") for _, _, headers in hub.cdn_log] == [None, f"bytes={came}-"], hub.cdn_log
    ranges = [headers.get("Range") for _, path, headers in hub.log if path.endswith("train.jsonl")]
    assert ranges == [None, f"bytes={came_data}-"], ranges
    assert "were here already" in done.stderr, done.stderr
    losses = [line["loss"] for line in case.log() if line["event"] == "train"]
    (case.folder / "chats50.jsonl").write_text(rows)
    expect(case.run("train", "recipe.yaml", f"model.path={TINY}", "data.train=[chats50.jsonl]", "output_dir=local"))
    assert losses == [line["loss"] for line in case.log("local") if line["event"] == "train"] and len(losses) == 3, losses


def test_without_library(case):
    """What knows HTTP is not even loaded for what is in the cache, or on this disk; for what is not, it is missed."""
    hub = hub_with_model(case)
    expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
    shutil.copy(case.ftune, case.folder / "ftune")
    case.ftune = str(case.folder / "ftune")
    case.recipe("output_dir: out\n", model=MODEL)
    expect(case.run("train", "recipe.yaml", environment=environment(case)))
    expect(case.run("train", "recipe.yaml", f"model.path={TINY}", "output_dir=local", environment=environment(case)))
    before = requests(hub)
    fails(tokenize(case, "acme/other"), "libftune_network.so", "downloads need")
    assert requests(hub) == before


def test_two_at_once(case):
    hub = hub_with_model(case)
    hub.fail("/lfs/", times=9, slow=0.1)
    both = [subprocess.Popen([case.ftune, "generate", MODEL, "--prompt", "x"], cwd=case.folder, text=True,
                             env={**os.environ, **environment(case)}, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    assert len(hub.cdn_log) == 1, hub.cdn_log
    assert sum("waiting for another download" in errors for _, errors in outputs) >= 1, outputs


def test_gguf(case):
    expect(case.run("export", TINY, "--format", "gguf", "--out", "tiny.gguf"))
    hub = Hub()
    case.hub, case.cache = hub, case.folder / "cache"
    data = (case.folder / "tiny.gguf").read_bytes()
    hub.add("acme/quants", {"tiny-f32.gguf": data, "sub/two.gguf": data, "three.gguf": b"never"})
    for name in ("acme/quants/tiny-f32.gguf", "acme/quants/sub/two.gguf"):
        expect(case.run("generate", name, "--prompt", "What", environment=environment(case)))
    assert fetched(hub) == ["tiny-f32.gguf"], fetched(hub)  # the other has the same content


def test_datasets(case):
    """Which files: by their names, by what the README says, by subset and split."""
    hub = hub_with_model(case)
    row = {name: json.dumps({"prompt": name, "completion": " x"}) + "\n" for name in ("a", "b", "c")}
    readme = ("---\nconfigs:\n- config_name: one\n  data_files:\n  - split: train\n    path: one/*.jsonl\n"
              "  - split: extra\n    path: [\"one/deep/**\"]\n- config_name: two\n  data_files: \"two/**/*.jsonl\"\n---\n# x\n")
    hub.add("acme/configs", {"README.md": readme, "one/x.jsonl": row["a"], "one/deep/y/z.jsonl": row["b"],
                             "two/w.jsonl": row["c"] + row["c"]}, kind="datasets")
    hub.add("acme/sharded", {"data/train-00000-of-00002.jsonl": row["a"], "data/train-00001-of-00002.jsonl": row["b"],
                             "data/test-00000-of-00001.jsonl": row["c"], "dataset_infos.json": "{}"}, kind="datasets")
    hub.add("acme/plain", {"x.jsonl": row["a"] + row["b"], "y.jsonl": row["c"], "LICENSE.txt": "free"}, kind="datasets")
    case.recipe("output_dir: out\n")

    def samples(text, code=0, *says):
        done = case.run("inspect", "recipe.yaml", f"data.train=[{text}]", "--json", environment=environment(case))
        expect(done, code)
        if code == 0:
            return json.loads(done.stdout)["samples"]
        message = json.loads(done.stdout)["error"]["message"]
        assert all(part in message for part in says), message
        return None

    assert samples("{path: acme/configs, name: one}") == 1
    assert samples("{path: acme/configs, name: one, split: extra}") == 1
    assert samples("{path: acme/configs, name: two}") == 2
    samples("{path: acme/configs}", 4, "several subsets", "one, two")
    samples("{path: acme/configs, name: three}", 4, "no such subset", "one, two")
    samples("{path: acme/configs, name: one, split: test}", 4, "no such split", "extra, train")
    assert samples("acme/sharded") == 2
    assert samples("{path: acme/sharded, split: test}") == 1
    assert samples("acme/plain") == 3
    assert samples("{path: acme/plain, split: train}, acme/sharded") == 5
    samples("{path: acme/none, split: train}", 4, "no such dataset")
    done = case.run("eval", TINY, "acme/sharded", environment=environment(case))
    fails(done, "several splits", "test, train")
    assert "LICENSE.txt" not in fetched(hub)
    # Other revisions.
    old = hub.repos["datasets", "acme/plain"].refs["main"]
    new = hub.repos["datasets", "acme/plain"].commit("refs/pr/1", {"x.jsonl": row["a"]})
    assert samples("{path: acme/plain, revision: refs/pr/1}") == 1
    assert samples(f"{{path: acme/plain, revision: {new}}}") == 1
    assert samples(f"{{path: acme/plain, revision: {old}}}") == 3


def test_large_listing(case):
    """In pages; with files in folders and names that must be encoded."""
    hub = hub_with_model(case, page=5)
    row = json.dumps({"prompt": "a", "completion": " x"}) + "\n"
    files = {f"some folder/part #{i} é%.jsonl": row * (i + 1) for i in range(23)}
    hub.add("acme/many", files, kind="datasets")
    case.recipe("output_dir: out\n")
    done = expect(case.run("inspect", "recipe.yaml", "data.train=[acme/many]", "--json", environment=environment(case)))
    assert json.loads(done.stdout)["samples"] == sum(range(1, 24))
    assert sum("cursor=" in path for _, path, _ in hub.log) >= 4
    assert "23 files downloaded" in done.stderr, done.stderr


def test_hostile_listing(case):
    """Names that would lead out of the cache, digests that are none."""
    hub = hub_with_model(case)
    for name, files in {"up": {"../../../escaped": b"x"}, "root": {"/tmp/escaped": b"x"}, "empty": {"a//b": b"x"}}.items():
        hub.add(f"acme/{name}", {**model_files(), **files})
        fails(tokenize(case, f"acme/{name}"), "listing cannot be used")
    repo = hub.repos["models", MODEL]
    repo.refs["main"] = "../../x"
    repo.commits["../../x"] = {}
    fails(tokenize(case), "expected a commit")
    for body in (b"<html>", b"[1, 2]", b"{", b"{\"sha\": 1}"):
        hub.repos["models", MODEL].refs["main"] = "x"
        hub.fail("/api/", status=200, headers={})
        done = tokenize(case)
        expect(done, 4)
    assert not list(case.folder.rglob("escaped"))


def test_proxy(case):
    hub = hub_with_model(case)
    endpoint = {"HF_ENDPOINT": "http://hub.invalid", "NO_PROXY": "", "no_proxy": ""}
    expect(tokenize(case, **endpoint, HTTP_PROXY=hub.url))
    assert hub.log[0][0] == "PROXY" and hub.log[0][1].startswith("http://hub.invalid/api/"), hub.log[0]
    shutil.rmtree(case.cache)
    fails(tokenize(case, **{**endpoint, "NO_PROXY": "x,.invalid"}, HTTP_PROXY=hub.url), "cannot be reached")
    fails(tokenize(case, **endpoint, HTTP_PROXY="socks5://x:1"), "HTTP_PROXY", code=2)


def test_no_space(case):
    """A file that cannot be written to its end, and a cache that cannot be made."""
    hub = hub_with_model(case)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

    done = subprocess.run([case.ftune, "generate", MODEL, "--prompt", "x"], cwd=case.folder, text=True, capture_output=True,
                          env={**os.environ, **environment(case)}, preexec_fn=limit)
    fails(done, "cannot write")
    expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
    assert hub.cdn_log[-1][2]["Range"] == "bytes=20000-", hub.cdn_log
    (case.folder / "file").write_text("x")
    fails(tokenize(case, HF_HOME=str(case.folder / "file")), str(case.folder / "file"))


def test_broken_cache(case):
    """A blob that was cut, a link to nothing, a listing that is none: fetched again."""
    hub = hub_with_model(case)
    expect(tokenize(case))
    root, commit = repo_folder(case), hub.repos["models", MODEL].refs["main"]
    link = root / "snapshots" / commit / "tokenizer.json"
    for damage in (lambda: link.resolve().write_bytes(b"cut"), lambda: link.resolve().unlink(), link.unlink):
        damage()
        expect(tokenize(case))
        assert link.read_bytes() == (TINY / "tokenizer.json").read_bytes()
    (root / "trees" / f"{commit}.json").write_text("{")
    expect(tokenize(case))
    (root / "refs" / "main").write_text("../../..")
    expect(tokenize(case))
    assert (root / "refs" / "main").read_text() == commit


def test_quiet(case):
    hub_with_model(case)
    done = expect(case.run("tokenize", MODEL, "--quiet", text="x", environment=environment(case)))
    assert done.stderr == "", done.stderr


assert WEIGHTS.endswith(LFS)
if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
