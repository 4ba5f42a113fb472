#!/usr/bin/env python3
"""The ftune binary as a user runs it: wrong input of every kind, interruption, the run's folder.

Every failure must be one message that says what, where and what to do, with the exit code of its kind. Standard library
only. `test_cli.py --ftune build/release/ftune --work FOLDER`.
"""

import json
import math
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

from cli_case import CHATS, TINY, edit_json, model_copy, run_tests

# --- what goes right -------------------------------------------------------------------------------------------------

def test_run_folder(case):
    """Everything that a run promises to leave is there and adds up."""
    recipe = case.recipe("optimizer: {learning_rate: 1e-2}\nlog: {every: 1}\n")
    case.rows(CHATS[:3], "eval.jsonl")
    done = case.run("train", recipe, "output_dir=out", "data.eval=[eval.jsonl]", "train.eval_steps=2", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["steps"] == 3 and answer["exit"] == 0 and answer["run"] == "out", answer
    log = case.log()
    events = [line["event"] for line in log]
    assert events == ["start", "eval", "train", "train", "eval", "train", "eval", "save", "save", "end"], events
    train = [line for line in log if line["event"] == "train"]
    keys = {"event", "time", "step", "attempt", "loss", "lr", "grad_norm", "epoch", "tokens", "trained_tokens",
            "tokens_per_second", "flops_per_second", "step_seconds", "data_wait_seconds", "memory"}
    for line in train:
        assert keys <= line.keys(), keys - line.keys()
        assert set(line["memory"]) == {"weights", "gradients", "optimizer", "activations", "buffers", "communication"}
    assert [line["step"] for line in train] == [1, 2, 3]
    assert answer["loss"] == train[-1]["loss"]
    evals = [line for line in log if line["event"] == "eval"]
    assert answer["eval_loss"] == evals[-1]["eval_loss"]
    assert all("loss" not in line for line in evals)
    assert len({line["eval_tokens"] for line in evals}) == 1
    # The resolved recipe says the same again, and nothing of it is open that ftune decides.
    resolved = case.run("train", "out/recipe.yaml", "--print")
    assert resolved.returncode == 0 and resolved.stdout == case.resolved()
    assert (case.folder / "out" / "adapter" / "adapter_config.json").exists()


def test_repeatable(case):
    """The same recipe gives the same losses, to the bit; another seed other ones."""
    recipe = case.recipe("adapter: {lora_r: 4, lora_dropout: 0.2}\n", adapter=False)

    def losses(out, *overrides):
        done = case.run("train", recipe, f"output_dir={out}", *overrides, "--quiet")
        assert done.returncode == 0, done.stderr
        return [line["loss"] for line in case.log(out) if line["event"] == "train"]

    first = losses("one")
    assert losses("two") == first
    assert losses("three", "train.seed=7") != first


def test_zero_is_a_value(case):
    """A learning rate of 0 trains nothing, and is not replaced by a default."""
    recipe = case.recipe("optimizer: {learning_rate: 0, weight_decay: 0, warmup_steps: 0}\n", adapter=False)
    done = case.run("train", recipe, "output_dir=out", "--quiet", "train.seed=0")
    assert done.returncode == 0, done.stderr
    before = (TINY / "model.safetensors").read_bytes()
    after = (case.folder / "out" / "model" / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", before[:8])[0]
    header = json.loads(before[8:8 + size])
    size_after = struct.unpack("<Q", after[:8])[0]
    header_after = json.loads(after[8:8 + size_after])
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = entry["data_offsets"]
        begin_after, end_after = header_after[name]["data_offsets"]
        assert before[8 + size + begin:8 + size + end] == after[8 + size_after + begin_after:8 + size_after + end_after]


def test_all_masked_in_part(case):
    """Rows with nothing to learn from are dropped, counted and listed."""
    case.rows(CHATS + [{"messages": [{"role": "user", "content": "hi"},
                                     {"role": "assistant", "content": "no", "weight": 0}]}])
    done = case.run("train", case.recipe(), "output_dir=out", "--json")
    assert done.returncode == 0, done.stderr
    dropped = [json.loads(line) for line in (case.folder / "out/data/dropped.jsonl").read_text().splitlines()]
    assert [(d["line"], d["reason"]) for d in dropped] == [(13, "nothing_trained")], dropped
    assert "1 dropped" in done.stderr


def test_interrupted(case):
    """SIGINT and SIGTERM: saved, said how to go on, exit 75; and going on from there works."""
    recipe = case.recipe("optimizer: {learning_rate: 1e-2}\n")
    for number in (signal.SIGINT, signal.SIGTERM):
        out = f"out-{number.name}"
        process = subprocess.Popen([case.ftune, "train", recipe, f"output_dir={out}", "train.max_steps=1000000",
                                    "train.num_epochs=1000000"], cwd=case.folder, stderr=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        log = case.folder / out / "log.jsonl"
        deadline = time.monotonic() + 120
        while not (log.exists() and log.read_text().count('"train"') >= 3):
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.02)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 75, (process.returncode, said[-2000:])
        assert f"stopped by {number.name}" in said and f"ftune resume {out}" in said, said[-2000:]
        end = case.log(out)[-1]
        assert end["event"] == "end" and end["exit"] == 75
        trained = [line for line in case.log(out) if line["event"] == "train"]
        assert end["steps"] == trained[-1]["step"] >= 3
    done = case.run("train", recipe, f"model.init_from={out}", "output_dir=on", "--json")
    assert done.returncode == 0, done.stderr
    first = [line for line in case.log("on") if line["event"] == "train"][0]["loss"]
    assert first < trained[0]["loss"], (first, trained[0]["loss"])


def test_killed(case):
    """kill -9 leaves whole lines in the log and no half-written result; the folder is then refused, or replaced."""
    recipe = case.recipe()
    process = subprocess.Popen([case.ftune, "train", recipe, "output_dir=out", "train.max_steps=1000000",
                                "train.num_epochs=1000000", "--quiet"], cwd=case.folder)
    log = case.folder / "out" / "log.jsonl"
    while not (log.exists() and log.read_text().count("\n") >= 3):
        assert process.poll() is None
        time.sleep(0.02)
    case.fails(2, "train", recipe, "output_dir=out", "--force", says=["another ftune is writing to this run"])
    process.kill()
    process.wait()
    assert log.read_bytes().endswith(b"}\n")
    case.log()
    assert not (case.folder / "out" / "adapter").exists()
    case.fails(2, "train", recipe, "output_dir=out", says=["there is a run in this folder already", "--force"])
    (case.folder / "out" / "mine.txt").write_text("kept")
    assert case.run("train", recipe, "output_dir=out", "--force").returncode == 0
    assert (case.folder / "out" / "mine.txt").read_text() == "kept"


def test_force_is_careful(case):
    """--force replaces a run only once the new one starts, and never what no run wrote."""
    recipe = case.recipe()
    assert case.run("train", recipe, "output_dir=out", "--quiet").returncode == 0
    adapter = (case.folder / "out" / "adapter" / "adapter_model.safetensors").read_bytes()
    case.fails(4, "train", recipe, "output_dir=out", "data.train=typo.jsonl", "--force", says=["typo.jsonl"])
    assert (case.folder / "out" / "adapter" / "adapter_model.safetensors").read_bytes() == adapter
    case.fails(2, "train", recipe, "output_dir=out", "model.init_from=out/adapter", "--force",
               says=["out/adapter", "output_dir", "would replace it"])
    assert (case.folder / "out" / "adapter" / "adapter_model.safetensors").read_bytes() == adapter
    case.fails(2, "train", recipe, "output_dir=.", "--force", says=["recipe.yaml", "no run wrote"])
    assert (case.folder / "chats.jsonl").exists() and (case.folder / recipe).read_text()


def test_adapter_says_what_it_is(case):
    """The base that an adapter names is the one it was trained on; partial module names stay as they were given."""
    full = case.recipe("optimizer: {learning_rate: 1e-2, warmup_steps: 0}\n", adapter=False, name="full.yaml")
    assert case.run("train", full, "output_dir=full", "--quiet").returncode == 0
    recipe = case.recipe()
    done = case.run("train", recipe, "output_dir=out", "model.init_from=full/model",
                    "adapter.target_modules=[layers.0.self_attn.q_proj]", "--json")
    assert done.returncode == 0, done.stderr
    config = json.loads((case.folder / "out" / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "full/model", config
    assert config["target_modules"] == ["layers.0.self_attn.q_proj"], config
    assert case.run("generate", "out", "--prompt", "x", "--max-new-tokens", 2).returncode == 0

    def loss():
        return json.loads(case.run("eval", "out", "chats.jsonl", "--json").stdout)["eval_loss"]

    # rsLoRA: alpha / sqrt(r), here as if alpha were 2 * alpha.
    path = case.folder / "out" / "adapter" / "adapter_config.json"
    edit_json(path, lambda c: c.update(use_rslora=True))
    rs = loss()
    edit_json(path, lambda c: c.update(use_rslora=False, lora_alpha=2 * c["lora_alpha"]))
    assert rs == loss()


def test_token_beyond_vocabulary(case):
    model = model_copy(case)

    def add(tokenizer):
        tokenizer["added_tokens"].append({"id": 16000000, "content": "<zap>", "single_word": False, "lstrip": False,
                                          "rstrip": False, "normalized": False, "special": True})

    edit_json(model / "tokenizer.json", add)
    case.fails(2, "generate", model, "--prompt", "a<zap>b", says=["16000000", "vocab_size"])
    assert json.loads(case.run("generate", TINY, "--prompt", "x", "--max-new-tokens", 2**63 - 1, "--json")
                      .stdout)["tokens"]


def test_terminal(case):
    """On a terminal the progress is one line, redrawn; colours only without NO_COLOR."""
    recipe = case.recipe()
    master, slave = pty.openpty()
    process = subprocess.Popen([case.ftune, "train", recipe, "output_dir=out"], cwd=case.folder, stderr=slave,
                               stdout=subprocess.DEVNULL)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other side has closed
            break
        if not piece:
            break
        shown += piece
    process.wait()
    text = shown.decode()
    assert process.returncode == 0
    assert "\r\x1b[K" in text and re.search(r"step 3/3 .*loss .*lr .*tok/s .*left", text), text
    plain = case.run("inspect", recipe, "--sample", "1")
    assert plain.returncode == 0 and "\x1b" not in plain.stdout and "[[" in plain.stdout, plain.stdout


def test_generate(case):
    """Greedy text is a pure function; sampling is one of the seed."""
    greedy = [json.loads(case.run("generate", TINY, "--chat", "Hello", "--max-new-tokens", 12, "--json").stdout)
              for _ in range(2)]
    assert greedy[0] == greedy[1] and 1 <= len(greedy[0]["tokens"]) <= 12

    def sampled(seed):
        return json.loads(case.run("generate", TINY, "--prompt", "Hello", "--temperature", 1.5, "--top-p", 0.95,
                                   "--seed", seed, "--max-new-tokens", 20, "--json").stdout)["tokens"]

    assert sampled(1) == sampled(1)
    assert len({tuple(sampled(seed)) for seed in range(5)}) > 1

    # Of any tokens, bytes in any order among them: what is printed while they come is their text.
    for seed in range(3):
        wild = ["generate", TINY, "--prompt", "x", "--temperature", 50, "--seed", seed, "--max-new-tokens", 60]
        answer = json.loads(case.run(*wild, "--json").stdout)
        ids = json.dumps(answer["tokens"])
        assert case.run(*wild).stdout == answer["text"] + "\n"
        assert case.run("tokenize", TINY, "--decode", text=ids).stdout == answer["text"]


# --- what goes wrong -------------------------------------------------------------------------------------------------

def test_wrong_recipes(case):
    case.fails(2, "train", "absent.yaml", says=["absent.yaml"])
    recipe = case.recipe("optimizer: {learning_rat: 1}\n")
    case.fails(2, "train", recipe, says=["recipe.yaml:5: error: optimizer.learning_rat", "optimizer.learning_rate"])
    case.fails(2, "train", case.recipe(), "parallel.context=2", says=["parallel.context"])
    case.fails(2, "train", case.recipe(), "train.global_batch_size=3", "train.micro_batch_size=2",
               says=["global_batch_size"])
    case.fails(2, "train", case.recipe(), "adapter.target_modules=[q_prj]", "output_dir=o",
               says=["adapter.target_modules", "q_prj", "q_proj"])
    case.fails(2, "train", case.recipe(), "adapter.target_modules=(", "output_dir=o2", says=["adapter.target_modules"])
    unplaced = case.recipe("adapter: {lora_r: 4, rank_pattern: {no_such: 8}}\n", adapter=False, name="pattern.yaml")
    case.fails(2, "train", unplaced, "output_dir=o3", says=["pattern.yaml:", "error: adapter.rank_pattern"])
    case.fails(2, "train", case.recipe(adapter=False), "train.freeze=[nothing_like_it]", "output_dir=o3",
               says=["train.freeze", "nothing_like_it"])
    case.fails(2, "train", case.recipe(adapter=False), "train.freeze=['.*']", "output_dir=o4",
               says=["freezes every parameter"])
    case.fails(2, "train", case.recipe(), "train.freeze=[x]", "output_dir=o5", says=["train.freeze"])
    case.fails(2, "train", case.recipe(), "adapter.rank_pattern={nothing: 2}", "output_dir=o6",
               says=["adapter.rank_pattern", "'nothing'", "q_proj"])
    case.fails(2, "train", case.recipe(), "adapter.modules_to_save=[emb_tokens]", "output_dir=o7",
               says=["adapter.modules_to_save", "'emb_tokens'", "embed_tokens"])
    case.fails(2, "train", case.recipe(), "adapter.modules_to_save=[_proj]", "output_dir=o8",
               says=["adapter.modules_to_save", "in full and by the adapter"])
    for wrong in ("lora_r=0", "lora_alpha=0", "lora_dropout=1"):
        case.fails(2, "train", case.recipe(), f"adapter.{wrong}", "output_dir=o9", says=[wrong.split("=")[0]])
    case.fails(2, "trian", says=["unknown command", "trian", "train"])
    case.fails(2, "train", case.recipe(), "output_dir=/proc/none", says=["/proc/none"])


def test_wrong_models(case):
    case.fails(4, "train", case.recipe(model="absent"), "output_dir=o", says=["absent"])

    def broken(name, code, says, change):
        model = model_copy(case, name)
        change(model)
        case.fails(code, "train", case.recipe(model=model), f"output_dir=out-{name}", says=says)

    def truncate(size):
        def change(model):
            data = (model / "model.safetensors").read_bytes()
            (model / "model.safetensors").write_bytes(data[:size])
        return change

    for size in (0, 5, 8, 100, 40000, 63000):
        broken(f"truncated{size}", 4, ["model.safetensors"], truncate(size))

    def rename(old, new):
        def change(model):
            data = (model / "model.safetensors").read_bytes()
            assert len(old) == len(new)
            (model / "model.safetensors").write_bytes(data.replace(old, new))
        return change

    broken("missing", 4, ["model.norm.weight", "missing"], rename(b'"model.norm.weight"', b'"model.narm.weight"'))
    broken("shape", 4, ["model.embed_tokens.weight", "shape"],
           lambda m: edit_json(m / "config.json", lambda c: c.update(vocab_size=c["vocab_size"] + 1)))
    broken("layers", 4, ["unexpected"],
           lambda m: edit_json(m / "config.json", lambda c: c.update(num_hidden_layers=1)))
    broken("family", 4, ["model_type", "mamba"],
           lambda m: edit_json(m / "config.json", lambda c: c.update(model_type="mamba")))
    broken("rope", 4, ["mrope"], lambda m: edit_json(
        m / "config.json", lambda c: (c.pop("rope_parameters", None),
                                      c.update(rope_scaling={"rope_type": "mrope", "factor": 2.0}, rope_theta=1e4))))
    broken("syntax", 4, ["config.json:1"], lambda m: (m / "config.json").write_text('{"model_type": '))
    broken("tokenizer", 4, ["tokenizer.json"], lambda m: (m / "tokenizer.json").write_text('{"model": {"type": "X"}}'))
    broken("notokenizer", 4, ["tokenizer.json"], lambda m: (m / "tokenizer.json").unlink())
    garbage = case.folder / "garbage.gguf"
    garbage.write_bytes(b"GGUF" + bytes(range(256)))
    case.fails(4, "generate", garbage, "--prompt", "x", says=["garbage.gguf"])


def test_nan_weights(case):
    """Loss that is not a number: exit 7, said at which step, nothing saved."""
    model = model_copy(case)
    data = bytearray((model / "model.safetensors").read_bytes())
    data[-4:] = struct.pack("<f", math.nan)
    (model / "model.safetensors").write_bytes(data)
    case.fails(7, "train", case.recipe(model=model), "output_dir=out", "--force", says=["step 1", "finite"])
    assert not (case.folder / "out" / "adapter").exists()
    case.fails(7, "eval", model, "chats.jsonl", says=["finite"])


def test_wrong_data(case):
    def broken(text, says, code=4):
        (case.folder / "chats.jsonl").write_bytes(text if isinstance(text, bytes) else text.encode())
        case.fails(code, "train", case.recipe(), "output_dir=out", says=says)

    good = json.dumps(CHATS[0])
    broken("", ["chats.jsonl"])
    broken("\n\n", ["chats.jsonl"])
    broken(f"{good}\n{{\"messages\": [\n", ["chats.jsonl:2"])
    broken(f"{good}\n[1, 2]\n", ["chats.jsonl:2"])
    broken(f"{good}\n{{\"message\": 1}}\n", ["chats.jsonl:2", "messages"])
    broken(f"{good}\n" + json.dumps({"messages": [{"content": "no role"}]}) + "\n", ["chats.jsonl:2", "role"])
    broken(json.dumps({"messages": [{"role": "user", "content": "x"}]}) + "\n", ["chats.jsonl:1", "assistant"])
    broken(b'{"messages": "\xff\xfe"}\n', ["chats.jsonl:1", "UTF-8"])
    (case.folder / "chats.jsonl").unlink()
    case.fails(4, "train", case.recipe(), "output_dir=out", says=["chats.jsonl"])
    (case.folder / "chats.jsonl").mkdir()
    case.fails(4, "train", case.recipe(), "output_dir=out", says=["chats.jsonl"])


def test_all_rows_too_long(case):
    case.fails(4, "train", case.recipe(), "output_dir=out", "data.sequence_len=4", says=["chats.jsonl"])


def test_wrong_adapters(case):
    recipe = case.recipe()
    assert case.run("train", recipe, "output_dir=out", "--quiet").returncode == 0
    adapter = case.folder / "out" / "adapter"

    def broken(name, says, change):
        folder = case.folder / name
        shutil.copytree(adapter, folder)
        change(folder)
        case.fails(4, "generate", TINY, "--adapter", folder, "--prompt", "x", says=says)

    config = "adapter_config.json"
    broken("dora", ["lora_magnitude_vector", "the adapter lacks"], lambda f: edit_json(f / config, lambda c: c.update(use_dora=True)))
    broken("rank", ["lora_A"], lambda f: edit_json(f / config, lambda c: c.update(r=8)))
    broken("targets", ["fits no module"], lambda f: edit_json(f / config, lambda c: c.update(target_modules=["k_proj"])))
    broken("bias", ["bias", "not supported"], lambda f: edit_json(f / config, lambda c: c.update(bias="all")))
    broken("pattern", ["rank_pattern", "'nothing'"],
           lambda f: edit_json(f / config, lambda c: c.update(rank_pattern={"nothing": 2})))
    broken("saved", ["modules_to_save", "'emb'"],
           lambda f: edit_json(f / config, lambda c: c.update(modules_to_save=["emb"])))
    broken("empty", [config], lambda f: (f / config).unlink())
    broken("cut", ["adapter_model.safetensors"], lambda f: (f / "adapter_model.safetensors").write_bytes(
        (f / "adapter_model.safetensors").read_bytes()[:-9]))
    broken("form", ["ftune_adapter.json", "quantize", "'nf5'", "nf4"],
           lambda f: (f / "ftune_adapter.json").write_text('{"quantize": "nf5"}'))
    case.fails(2, "generate", TINY, "--quantize", "q4_0", "--prompt", "x", says=["--quantize", "q4_0", "nf4"])
    case.fails(2, "train", recipe, "adapter.quantize=int4", "output_dir=o2", says=["adapter.quantize", "int4", "int8"])
    case.fails(2, "train", recipe, "model.init_from=out/adapter", "adapter.kind=qlora", "output_dir=o2",
               says=["adapter.quantize", "nf4", "none", "init_from"])
    case.fails(2, "train", recipe, "model.init_from=out/adapter", "adapter.lora_r=8", "output_dir=o2", says=["lora_r"])
    for override, says in (("adapter.lora_alpha=3", "lora_alpha"), ("adapter.use_dora=true", "use_dora"),
                           ("adapter.target_modules=[q_proj]", "target_modules"),
                           ("adapter.rank_pattern={q_proj: 2}", "rank_pattern"),
                           ("adapter.modules_to_save=[lm_head]", "modules_to_save")):
        case.fails(2, "train", recipe, "model.init_from=out", override, "output_dir=o2",
                   says=[f"adapter.{says}", "manifest.json"])
    # Another model: the adapter says which it is for.
    case.fails(4, "generate", TINY.parent / "llama", "--adapter", adapter, "--prompt", "x", says=[str(TINY)])
    case.fails(2, "export", TINY, "--adapter", adapter, "--out", "merged", says=["--merge"])
    case.fails(2, "export", "out", "--out", "merged", says=["--merge"])
    case.fails(2, "export", "out", "--merge", "--out", "merged", "--dtype", "int3", says=["--dtype"])
    case.fails(2, "export", "out", "--merge", "--out", "merged", "--dtype", "q8_0", says=["--dtype", "q8_0"])
    case.fails(2, "export", "out", "--merge", "--out", "merged", "--shard-size", "0", says=["--shard-size"])
    case.fails(2, "export", "out", "--merge", "--out", "merged", "--format", "tar", says=["--format", "gguf"])
    case.fails(2, "export", TINY, "--out", "merged", "--format", "gguf", says=["merged.gguf"])
    case.fails(2, "export", TINY, "--out", "m.gguf", "--format", "gguf", "--dtype", "q6_k", says=["--dtype", "q4_k"])


def test_tokenize(case):
    text = "<|im_start|>user\nna\u00efve \u4e00 \U0001f44d\n"
    ids = json.loads(case.run("tokenize", TINY, text=text).stdout)
    assert json.loads(case.run("tokenize", TINY / "tokenizer.json", text=text).stdout) == ids
    assert json.loads(case.run("tokenize", TINY, text="").stdout) == []
    assert case.run("tokenize", TINY, "--decode", "--special", text=json.dumps(ids)).stdout == text
    assert case.run("tokenize", TINY, "--decode", text=json.dumps(ids)).stdout == text.removeprefix("<|im_start|>")
    for wrong, found in (("no json", "JSON array"), ("", "JSON array"), ("{}", "JSON array"), ("[1, 2", "JSON array"),
                         ("[0, 1.5]", "[1]: found 1.5"), ('["a"]', '[0]: found "a"'), ("[-1]", "found -1"),
                         ("[0, 0, 320]", "[2]: found 320"), ("[99999999999999999999]", "[0]"), ("[[0]]", "array"),
                         ("[" * 100000, "JSON array")):
        case.fails(2, "tokenize", TINY, "--decode", text=wrong, says=["standard input", found])
    broken = subprocess.run([case.ftune, "tokenize", TINY], input=b"ok\na\xffb", capture_output=True)
    assert broken.returncode == 4 and broken.stdout == b"", broken
    assert b"standard input:2: error: not UTF-8 at byte 2 of the line" in broken.stderr, broken
    case.fails(4, "tokenize", "nonesuch.json", text="x", says=["nonesuch.json", "no such file"])
    tiktoken = case.folder / "other.tiktoken"
    tiktoken.write_text("IQ== 0\n")
    case.fails(4, "tokenize", tiktoken, text="x", says=["other.tiktoken", "byte 0"])
    pieces = case.folder / "pieces.json"
    pieces.write_text('{"model": {"type": "WordPiece", "vocab": {"a": 0}}}')
    case.fails(4, "tokenize", pieces, text="x", says=["pieces.json", "WordPiece", "not supported"])
    empty = case.folder / "empty.json"
    empty.write_text("")
    case.fails(4, "tokenize", empty, text="x", says=["empty.json"])


def test_wrong_flags(case):
    case.fails(2, "generate", TINY, says=["--prompt"])
    case.fails(2, "generate", TINY, "--prompt", "x", "--chat", "y", says=["--prompt"])
    case.fails(2, "generate", TINY, "--prompt", "x", "--temperature=-1", says=["--temperature"])
    case.fails(2, "generate", TINY, "--prompt", "x", "--top-p", "0", says=["--top-p"])
    case.fails(2, "generate", TINY, "--prompt", "x", "--max-new-tokens", "0", says=["--max-new-tokens"])
    case.fails(2, "generate", TINY, "--prompt", "x " * 5000, says=["tokens"])
    case.fails(2, "inspect", case.recipe(), "--sample", "99999", says=["--sample"])
    case.fails(2, "recipe", says=["--schema"])
    case.fails(2, says=["subcommand"])


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
