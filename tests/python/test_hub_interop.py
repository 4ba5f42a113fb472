"""The hub's cache shared with huggingface_hub itself: each finds what the other downloaded, without the network."""

import json
import os
import subprocess
import sys

from cli_case import TINY, run_tests
from hub_server import etag
from test_hub import MODEL, environment, expect, hub_with_model, model_files, repo_folder, requests, tokenize

SCRIPT = """
import json, sys
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download, try_to_load_from_cache
{body}
"""


def python(case, body, **more):
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(body=body)], text=True, capture_output=True,
                          cwd=case.folder, env={**os.environ, **environment(case, **more)})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_ours_for_python(case):
    hub = hub_with_model(case)
    expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
    before, copies = len(hub.log), len(hub.cdn_log)
    found = python(case, f"""
folder = snapshot_download({MODEL!r}, local_files_only=True, allow_patterns=["*.json", "*.safetensors"])
paths = [hf_hub_download({MODEL!r}, name, local_files_only=True) for name in ("config.json", "model.safetensors")]
cached = try_to_load_from_cache({MODEL!r}, "tokenizer.json")
scan = scan_cache_dir()
print(json.dumps([folder, paths, cached, [str(w) for w in scan.warnings], [r.repo_id for r in scan.repos],
                  [f.file_name for r in scan.repos for v in r.revisions for f in v.files], scan.size_on_disk]))
""")
    folder, paths, cached, warnings, repos, names, size = found
    assert warnings == [] and repos == [MODEL], found
    assert all(path.startswith(folder) for path in [*paths, cached]), found
    assert open(paths[1], "rb").read() == (TINY / "model.safetensors").read_bytes()
    assert size == sum(path.stat().st_size for path in TINY.iterdir()), found
    # (It may ask for things of its own.)
    assert not [path for _, path, _ in hub.log[before:] if MODEL in path], hub.log[before:]
    # With the network, it fetches nothing but what is not there.
    python(case, f"print(json.dumps(snapshot_download({MODEL!r})))")
    resolved = [path for _, path, _ in hub.log[before:] if "/resolve/" in path]
    assert not [path for path in resolved if path.endswith(("tokenizer.json", "model.safetensors"))], resolved
    assert [path for _, path, _ in hub.cdn_log[copies:]] == [f"/lfs/{etag('x.bin', b'a pickle')}?signature=a%20b"], hub.cdn_log


def test_transformers_load(case):
    """transformers and peft load by the id what ftune downloaded and trained, offline."""
    hub = hub_with_model(case)
    case.recipe("output_dir: out\n", model=MODEL)
    expect(case.run("train", "recipe.yaml", environment=environment(case)))
    before = requests(hub)
    value = python(case, f"""
from peft import AutoPeftModelForCausalLM
from transformers import AutoTokenizer
model = AutoPeftModelForCausalLM.from_pretrained("out/adapter")
ids = AutoTokenizer.from_pretrained({MODEL!r})("What is 1 plus 1?")["input_ids"]
print(json.dumps([ids, sum(p.numel() for p in model.parameters())]))
""", HF_HUB_OFFLINE="1")
    ours = expect(tokenize(case))
    assert json.loads(ours.stdout) == value[0], (ours.stdout, value)
    assert requests(hub) == before


def test_python_for_us(case):
    hub = hub_with_model(case)
    python(case, f"print(json.dumps(snapshot_download({MODEL!r})))")
    before = requests(hub)
    expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
    expect(tokenize(case))
    # Versions before the listings: the files tell.
    for path in repo_folder(case).glob("trees/*"):
        path.unlink()
    expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
    expect(tokenize(case))
    assert requests(hub) == before


def test_python_in_part(case):
    """What Python's tools left out is fetched, and nothing else."""
    hub = hub_with_model(case)
    for name in ("config.json", "model.safetensors"):
        python(case, f"print(json.dumps(hf_hub_download({MODEL!r}, {name!r})))")
    before = len(hub.log)
    expect(case.run("generate", MODEL, "--prompt", "x", environment=environment(case)))
    names = sorted(path.rsplit("/", 1)[1] for _, path, _ in hub.log[before:] if "/resolve/" in path)
    assert names == ["generation_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"], names


def test_python_dataset(case):
    hub = hub_with_model(case)
    row = json.dumps({"prompt": "a", "completion": " x"}) + "\n"
    hub.add("acme/rows", {"train.jsonl": row * 3, "README.md": "---\nlicense: mit\n---\n"}, kind="datasets")
    python(case, 'print(json.dumps(snapshot_download("acme/rows", repo_type="dataset")))')
    case.recipe("output_dir: out\n")
    before = requests(hub)
    for change in (lambda: None, hub.stop):
        done = expect(case.run("inspect", "recipe.yaml", "data.train=[acme/rows]", "--json", environment=environment(case)))
        assert json.loads(done.stdout)["samples"] == 3
        change()
    assert requests(hub) == before
    # Without a listing the dataset may have more: the hub is asked, and as it is down, what is here is taken.
    for path in repo_folder(case, "datasets", "acme/rows").glob("trees/*"):
        path.unlink()
    done = expect(case.run("inspect", "recipe.yaml", "data.train=[acme/rows]", "--json", environment=environment(case)))
    assert "using what is in the cache" in done.stderr, done.stderr


def test_locks(case):
    """Python's lock on a blob is waited for."""
    hub = hub_with_model(case)
    name = etag("tokenizer.json", model_files()["tokenizer.json"])
    lock = case.cache / "hub" / ".locks" / repo_folder(case).name / f"{name}.lock"
    lock.parent.mkdir(parents=True)
    holder = subprocess.Popen([sys.executable, "-c",
                               "import filelock, sys, time\n"
                               "with filelock.FileLock(sys.argv[1]):\n  print('held', flush=True); time.sleep(2)", str(lock)],
                              stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    done = expect(tokenize(case))
    assert holder.wait() == 0
    assert "tokenizer.json: waiting for another download of it" in done.stderr, done.stderr
    assert requests(hub) > 0


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
