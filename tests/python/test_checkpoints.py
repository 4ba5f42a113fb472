#!/usr/bin/env python3
"""What users do with checkpoints: `ftune checkpoint`, `ftune export`, `model.init_from`, and the reader of
docs/checkpoints.md; compared with transformers, peft and gguf.

    test_checkpoints.py --ftune BINARY --work FOLDER [NAME ...]
"""

import argparse
import fcntl
import json
import re
import shutil
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel
from safetensors.numpy import load_file, save_file
from transformers.utils import logging

import reference
from test_interop import MODELS, TINY, TOKENIZER_FILES, Case, check_same_files

DOCS = Path(__file__).resolve().parents[2] / "docs"
LORA = {"kind": "lora", "lora_r": 4, "lora_alpha": 8}
TRAIN = {"global_batch_size": 1, "max_steps": 4, "num_epochs": 9, "eval_steps": 2}


def reader():
    """The functions that docs/checkpoints.md has."""
    text = re.search(r"```python\n(.*?)```", (DOCS / "checkpoints.md").read_text(), re.S)[1]
    found = {}
    exec(compile(text, "docs/checkpoints.md", "exec"), found)
    return found["read_checkpoint"]


def train(case, **sections):
    """A run of four steps with checkpoints of steps 2 and 4."""
    return case.train(**{"train": TRAIN, "checkpoint": {"save_steps": 2, "keep_last": 5}, **sections})


def checkpoint(run, step):
    return run / "checkpoints" / f"step-{step:08}"


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def check_equal(got, want):
    assert got.keys() == want.keys(), sorted(got.keys() ^ want.keys())
    for name, values in want.items():
        assert got[name].dtype == values.dtype and got[name].shape == values.shape, name
        assert got[name].tobytes() == values.tobytes(), f"{name}: {np.abs(got[name] - values).max()}"


# --- ftune checkpoint ------------------------------------------------------------------------------------------------

def test_list_and_show(case):
    """ls and show say what the manifest and the log do."""
    run = train(case)
    listed = case.ftune("checkpoint", "ls", run)["checkpoints"]
    assert [c["step"] for c in listed] == [4, 2], listed
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    for c in listed:
        assert c["valid"] and Path(c["path"]) == checkpoint(run, c["step"]), c
        assert c["bytes"] == sum(f.stat().st_size for f in checkpoint(run, c["step"]).iterdir()), c
        assert abs(c["time"] - (checkpoint(run, c["step"]) / "manifest.json").stat().st_mtime) < 1e-3, c
        loss = [line["loss"] for line in log if line["event"] == "train" and line["step"] == c["step"]]
        assert [c["loss"]] == loss, (c, loss)
        evaluated = [line["eval_loss"] for line in log if line["event"] == "eval" and line["step"] == c["step"]]
        assert [c["eval_loss"]] == evaluated, (c, evaluated)
    assert [c["step"] for c in case.ftune("checkpoint", "ls", run, "--step", 2)["checkpoints"]] == [2]

    shown = case.ftune("checkpoint", "show", run)
    manifest = json.loads((checkpoint(run, 4) / "manifest.json").read_text())
    for key in ("step", "state", "mesh", "model", "seed"):
        assert shown[key] == manifest[key], (key, shown[key], manifest[key])
    base = load_file(TINY / "model.safetensors")
    values = {t["name"]: t for t in shown["tensors"] if "state" not in t}
    assert values.keys() == base.keys()
    for name, tensor in values.items():
        assert tensor["shape"] == list(base[name].shape) and tensor["dtype"] == "F32" and tensor["slices"] == 1, tensor
    elements = sum(t.size for t in base.values())
    for kind in ("values", "moment1", "moment2"):
        total = shown["totals"][kind]
        assert total == {"tensors": len(base), "elements": elements, "bytes": 4 * elements}, (kind, total)
    assert case.ftune("checkpoint", "show", checkpoint(run, 2))["step"] == 2


def test_verify(case):
    """A flipped bit in any file is found, and named with what is left to go on from."""
    run = train(case)
    result = case.ftune("checkpoint", "verify", run)
    assert result["resumes_from"] == 4 and all(c["valid"] for c in result["checkpoints"]), result
    for file in sorted(checkpoint(run, 4).glob("*.safetensors")):
        for place in (3, 200, -1):
            flip(file, place)
            done = case.ftune._run(["checkpoint", "verify", run], "")
            result = json.loads(done.stdout)
            assert done.returncode == 4 == result["exit"], done
            newest, other = result["checkpoints"]
            assert not newest["valid"] and other["valid"] and result["resumes_from"] == 2, result
            assert [d["file"] for d in newest["damaged"]] == [str(file)], newest
            assert case.ftune._run(["checkpoint", "verify", run, "--step", 2], "").returncode == 0
            flip(file, place)
    file.unlink()
    (checkpoint(run, 2) / "manifest.json").write_text("{}")
    done = case.ftune._run(["checkpoint", "verify", run], "")
    result = json.loads(done.stdout)
    assert done.returncode == 4 and result["resumes_from"] is None, result
    assert result["checkpoints"][0]["damaged"][0]["file"] == str(file), result
    assert result["checkpoints"][1]["damaged"][0]["file"] == str(checkpoint(run, 2) / "manifest.json"), result
    assert [c["valid"] for c in case.ftune("checkpoint", "ls", run)["checkpoints"]] == [False, False]


def test_diff(case):
    """The largest differences are those that numpy finds in what the documented reader reads."""
    run = train(case)
    _, a, states_a = reader()(checkpoint(run, 2))
    _, b, states_b = reader()(checkpoint(run, 4))
    result = case.ftune("checkpoint", "diff", run, 2, 4)
    assert not result["equal"] and not result["only_in_a"] and not result["only_in_b"], result
    seen = 0
    for tensor in result["tensors"]:
        one, other = ((a[tensor["name"]], b[tensor["name"]]) if "state" not in tensor else
                      (states_a[tensor["name"]][tensor["state"]], states_b[tensor["name"]][tensor["state"]]))
        one, other = one.astype(np.float64), other.astype(np.float64)
        apart = np.abs(one - other)
        assert tensor["different"] == (one != other).sum(), tensor
        assert tensor["max_absolute"] == apart.max(), tensor
        relative = (apart / np.maximum(np.maximum(np.abs(one), np.abs(other)), 1e-300)).max()
        assert abs(tensor["max_relative"] - relative) <= 1e-12, tensor
        seen += 1
    assert seen == len(a) + sum(map(len, states_a.values()))
    changed = {change["key"] for change in result["state"]}
    assert {"position.step", "updates", "loss"} <= changed, changed
    assert result["recipe"] == [], result["recipe"]

    assert case.ftune("checkpoint", "diff", checkpoint(run, 4), run)["equal"]
    other = case.folder / "other"
    shutil.move(run, other)
    rate = train(case, optimizer={"learning_rate": 0.02, "lr_scheduler": "constant", "warmup_steps": 0}, adapter=LORA)
    result = case.ftune("checkpoint", "diff", other, rate)
    assert len(result["only_in_a"]) == sum(map(len, states_a.values())) + len(a), result["only_in_a"]
    assert all("lora_" in name for name in result["only_in_b"]), result["only_in_b"]
    keys = {change["key"]: change for change in result["recipe"]}
    assert keys["optimizer.learning_rate"]["b"] == "0.02" and "adapter.lora_r" in keys, keys


def test_remove(case):
    """rm removes one, but not the last that is whole, and not of a run that is going on."""
    run = train(case)
    flip(checkpoint(run, 4) / "values-00000.safetensors", -1)
    error = case.ftune.error("checkpoint", "rm", run, "--step", 2)
    assert "only checkpoint" in error["message"] and "--force" in error["hint"], error
    with (run / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        error = case.ftune.error("checkpoint", "rm", run, "--step", 4)
        assert "another ftune" in error["message"], error
    assert checkpoint(run, 4).exists() and checkpoint(run, 2).exists()
    result = case.ftune("checkpoint", "rm", run, "--step", 4)  # damaged: it may go
    assert result["removed"] == 4 and [c["step"] for c in result["checkpoints"]] == [2], result
    assert [p.name for p in (run / "checkpoints").iterdir()] == ["step-00000002"]
    assert case.ftune("checkpoint", "rm", run, "--step", 2, "--force")["checkpoints"] == []
    assert "no checkpoint" in case.ftune.error("checkpoint", "ls", run)["message"]


def test_wrong_names(case):
    """What is not there, is no run, or is no number."""
    run = train(case)
    error = lambda *arguments: case.ftune.error("checkpoint", *arguments)
    for word in ("ls", "verify", "show"):
        assert "no such folder" in error(word, case.folder / "nothing")["message"]
        assert "no run in this folder" in error(word, MODELS)["message"]
        found = error(word, run, "--step", 3)
        assert found["found"] == "3" and "2, 4" in found["expected"], found
        assert "--step" in error(word, run, "--step", "two")["message"]
    assert "no run in this folder" in error("rm", MODELS, "--step", 1)["message"]
    assert "missing" in error("rm", run)["message"]
    assert "2, 4" in error("rm", run, "--step", 3)["expected"]
    assert "checkpoint, not a run" in error("rm", checkpoint(run, 2), "--step", 2)["message"]
    assert "a number" in error("diff", run, 2, "x")["expected"]
    assert "2, 4" in error("diff", run, 2, 7)["expected"]
    wrong = error("verfy", run)
    assert wrong["key"] == "verfy" and "did you mean verify?" in wrong["hint"] and "verify" in wrong["expected"], wrong
    assert "subcommand is required" in error()["message"]
    shutil.rmtree(run / "checkpoints")
    assert "no checkpoint yet" in error("ls", run)["message"]


# --- export ----------------------------------------------------------------------------------------------------------

def test_reader(case):
    """The documented reader, the shards' own names, and the run's result agree."""
    run = train(case)
    manifest, values, states = reader()(checkpoint(run, 4))
    check_equal(values, load_file(run / "model" / "model.safetensors"))
    assert states.keys() == values.keys() and all(of.keys() == {"moment1", "moment2"} for of in states.values())
    check_equal(load_file(checkpoint(run, 4) / "values-00000.safetensors"), values)
    assert manifest["state"]["position"]["step"] == 4


def test_export_full(case):
    """A checkpoint as a Hugging Face folder: to the bit in fp32, and as transformers computes."""
    run = train(case)
    for step in (2, 4):
        out = case.folder / f"hf-{step}"
        result = case.ftune("export", checkpoint(run, step), "--out", out, "--dtype", "fp32")
        assert result["max_logit_diff"] == 0 and result["step"] == step and result["path"] == str(out), result
        check_equal(load_file(out / "model.safetensors"), reader()(checkpoint(run, step))[1])
        check_same_files(out, TINY, [*TOKENIZER_FILES, "generation_config.json"])
        case.check_loss(reference.load(out), out, out)
    check_equal(load_file(case.folder / "hf-4" / "model.safetensors"), load_file(run / "model" / "model.safetensors"))
    # A run stands for its result; with --step, or without a result, for a checkpoint.
    assert "step" not in case.ftune("export", run, "--out", case.folder / "own")
    assert case.ftune("export", run, "--step", 2, "--out", case.folder / "two")["step"] == 2
    shutil.rmtree(run / "model")
    result = case.ftune("export", run, "--out", case.folder / "shards", "--shard-size", "10KB", "--dtype", "bf16")
    assert result["step"] == 4 and 0 < result["max_logit_diff"] < 1, result
    assert len(list((case.folder / "shards").glob("model-*.safetensors"))) > 2
    reference.load(case.folder / "shards")
    # Where the newest is damaged, the one before is taken, and that is said.
    flip(checkpoint(run, 4) / "values-00000.safetensors", -1)
    assert case.ftune("export", run, "--out", case.folder / "before")["step"] == 2
    error = case.ftune.error("export", checkpoint(run, 4), "--out", case.folder / "damaged")
    assert "damaged" in error["message"], error


def test_export_needs_no_optimizer(case):
    """What the optimizer keeps is not read."""
    run = train(case)
    flip(checkpoint(run, 4) / "optimizer-00000.safetensors", -1)
    assert case.ftune("export", checkpoint(run, 4), "--out", case.folder / "hf")["step"] == 4


def test_export_bf16(case):
    """With bf16 weights and a master: the result's type by default, the master's precision on demand."""
    run = train(case, precision={"weights": "bf16"})
    _, values, _ = reader()(checkpoint(run, 4))
    case.ftune("export", checkpoint(run, 4), "--out", case.folder / "hf")
    written = (case.folder / "hf" / "model.safetensors").read_bytes()
    assert written == (run / "model" / "model.safetensors").read_bytes()
    case.ftune("export", checkpoint(run, 4), "--out", case.folder / "f32", "--dtype", "fp32")
    check_equal(load_file(case.folder / "f32" / "model.safetensors"), values)
    assert any((v.view("<u4") & 0xFFFF).any() for v in values.values()), "the master is not in fp32"


def test_export_adapter(case):
    """An adapter's checkpoint: as PEFT has it, and merged."""
    for name, adapter in (("lora", LORA), ("dora", {**LORA, "use_dora": True}),
                          ("nf4", {**LORA, "kind": "qlora"}),
                          ("saved", {**LORA, "target_modules": ["q_proj", "embed_tokens"],
                                     "modules_to_save": ["norm"]})):
        run = train(case, adapter=adapter)
        out = case.folder / f"peft-{name}"
        result = case.ftune("export", checkpoint(run, 4), "--format", "peft", "--out", out)
        assert result["max_logit_diff"] == 0, (name, result)
        for file in sorted(p.name for p in (run / "adapter").iterdir()):
            assert (out / file).read_bytes() == (run / "adapter" / file).read_bytes(), (name, file)
        earlier = case.folder / f"peft-{name}-2"
        case.ftune("export", checkpoint(run, 2), "--format", "peft", "--out", earlier)
        assert (earlier / "adapter_model.safetensors").read_bytes() != (out / "adapter_model.safetensors").read_bytes()
        merged = case.folder / f"merged-{name}"
        result = case.ftune("export", checkpoint(run, 4), "--merge", "--dtype", "fp32", "--out", merged)
        assert result["max_logit_diff"] <= 1e-4, (name, result)
        own = case.folder / f"own-{name}"
        case.ftune("export", run, "--merge", "--dtype", "fp32", "--out", own)
        check_equal(load_file(merged / "model.safetensors"), load_file(own / "model.safetensors"))
        if name != "nf4":
            case.check_loss(PeftModel.from_pretrained(reference.load(TINY), out).eval(), TINY, merged)
        error = case.ftune.error("export", checkpoint(run, 4), "--out", case.folder / "not")
        assert "--merge" in error["message"] and "peft" in error["hint"], error
        shutil.rmtree(run)
    run = train(case)
    error = case.ftune.error("export", run, "--format", "peft", "--out", case.folder / "not")
    assert "no adapter" in error["message"], error
    assert "--adapter" in case.ftune.error("export", run, "--step", 4, "--adapter", out, "--merge", "--out",
                                           case.folder / "not")["message"]


def test_export_gguf(case):
    """Readable with llama.cpp's own package: names, types, values, tokenizer, template."""
    import gguf

    for adapter in (None, LORA):
        run = train(case, **({"adapter": adapter} if adapter else {}))
        merge = ["--merge"] if adapter else []
        hf = case.folder / f"hf-{'lora' if adapter else 'full'}"
        case.ftune("export", checkpoint(run, 4), "--out", hf, "--dtype", "fp32", *merge)
        case.ftune("export", hf, "--format", "gguf", "--dtype", "f32", "--out", case.folder / "hf.gguf")
        want = {t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(case.folder / "hf.gguf").tensors}
        for dtype, error in (("f32", 0), ("f16", 1e-3), ("bf16", 8e-3), ("q8_0", 1e-2)):
            out = case.folder / f"{dtype}.gguf"
            result = case.ftune("export", checkpoint(run, 4), "--format", "gguf", "--dtype", dtype, "--out", out, *merge)
            reader = gguf.GGUFReader(out)
            got = {t.name: gguf.dequantize(t.data, t.tensor_type) for t in reader.tensors}
            assert got.keys() == want.keys()
            for name, values in want.items():
                apart = np.abs(got[name].astype(np.float64) - values)
                assert apart.max() <= error * np.abs(values).max(), (dtype, name, apart.max())
            types = {t.tensor_type.name for t in reader.tensors if t.data.ndim > 1}
            # Rows that do not fill blocks of 32 are F16.
            assert types - ({"F16"} if dtype == "q8_0" else set()) == {dtype.upper()}, types
            assert reader.fields["tokenizer.chat_template"].contents()
            assert (result["max_logit_diff"] <= 1e-4) if dtype == "f32" else (result["max_logit_diff"] < 1), result
        case.check_loss(reference.load_gguf(case.folder / "f32.gguf"), TINY, case.folder / "f32.gguf")
        shutil.rmtree(run)


def test_export_added_tokens(case):
    """Added tokens, the recipe's own chat template and a scaled context are in the export as in the result."""
    template = case.folder / "own.jinja"
    template.write_text("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
                        "{# mine #}")
    run = train(case, model={"path": str(TINY), "added_tokens": ["<mine>"],
                             "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
                data={"train": [str(case.chats)], "sequence_len": 64, "chat_template": str(template)},
                train={**TRAIN, "eval_steps": None})
    out = case.folder / "hf"
    result = case.ftune("export", checkpoint(run, 4), "--out", out, "--dtype", "fp32")
    assert result["max_logit_diff"] == 0, result
    names = sorted(p.name for p in (run / "model").iterdir())
    assert names == sorted(p.name for p in out.iterdir())
    for name in names:
        assert (out / name).read_bytes() == (run / "model" / name).read_bytes(), name
    assert "<mine>" in (out / "tokenizer.json").read_text() and "mine" in (out / "chat_template.jinja").read_text()


def test_export_moved_base(case):
    """--base says where the model is that the recipe cannot find."""
    base = case.folder / "base"
    shutil.copytree(TINY, base)
    run = train(case, model={"path": str(base)}, adapter=LORA)
    shutil.move(base, case.folder / "moved")
    error = case.ftune.error("export", run, "--step", 4, "--merge", "--out", case.folder / "hf")
    assert "--base" in error["hint"] and str(base) in error["hint"], error
    case.ftune("export", run, "--step", 4, "--merge", "--out", case.folder / "hf", "--base", case.folder / "moved")
    case.check_loss(reference.load(case.folder / "hf"), TINY, case.folder / "hf")
    edit = case.folder / "moved" / "config.json"
    config = json.loads(edit.read_text())
    edit.write_text(json.dumps({**config, "rms_norm_eps": 1e-3}))
    error = case.ftune.error("export", run, "--step", 4, "--merge", "--out", case.folder / "no", "--base",
                             case.folder / "moved")
    assert "another base" in error["message"], error


def test_export_target(case):
    """What somebody has is not written over: runs and checkpoints never, other folders with --force."""
    run = train(case)
    before = sorted(str(p) for p in run.rglob("*"))
    for out in (run, run / "model", run / "new", checkpoint(run, 4), checkpoint(run, 4) / "new"):
        for force in ([], ["--force"]):
            error = case.ftune.error("export", run, "--step", 2, "--out", out, *force)
            assert error["key"] == "--out" and "--force is of no help" in error["hint"], error
    assert sorted(str(p) for p in run.rglob("*")) == before
    home = case.folder / "home"
    home.mkdir()
    case.ftune("export", run, "--step", 2, "--out", home)
    error = case.ftune.error("export", run, "--step", 4, "--out", home)
    assert error["key"] == "--out" and "--force" in error["hint"], error
    check_equal(load_file(home / "model.safetensors"), reader()(checkpoint(run, 2))[1])
    case.ftune("export", run, "--step", 4, "--out", home, "--force")
    check_equal(load_file(home / "model.safetensors"), reader()(checkpoint(run, 4))[1])


def test_export_loses_too_much(case):
    """An adapter whose halves cancel out has no sum in fp32 that computes what it does: an error."""
    run = train(case, adapter={**LORA, "lora_r": 2})
    path = run / "adapter" / "adapter_model.safetensors"
    tensors = load_file(path)
    draw = np.random.default_rng(1)
    for name, values in tensors.items():
        values[:] = draw.normal(size=values.shape)
        if "lora_A" in name:
            values[0] *= 1e6
            values[1] = np.nextafter(-values[0], 0)  # what is left of their sum is rounding
        else:
            values[:, 1] = values[:, 0]
    save_file(tensors, path)
    out = case.folder / "merged"
    error = case.ftune.error("export", run / "adapter", "--merge", "--dtype", "fp32", "--out", out)
    assert "computes something else than what was exported" in error["message"] and error["file"] == str(out), error
    assert "apart" in error["found"] and "can be removed" in error["hint"], error
    done = case.ftune._run(["export", run / "adapter", "--merge", "--dtype", "fp32", "--out", out, "--force"], "")
    assert done.returncode == 4, done
    # In a lower precision it may be rounding: the difference is told.
    result = case.ftune("export", run / "adapter", "--merge", "--dtype", "bf16", "--out", case.folder / "low")
    assert result["max_logit_diff"] > 0, result


def test_export_other_base(case):
    """A run's adapter is merged into the very base that it was trained on."""
    base = case.folder / "base"
    shutil.copytree(TINY, base)
    run = train(case, model={"path": str(base)}, adapter=LORA)
    case.ftune("export", run, "--merge", "--out", case.folder / "same", "--base", TINY)
    content = bytearray((base / "model.safetensors").read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    for place in range(start + 3, len(content), 4):
        content[place] ^= 0x80
    (base / "model.safetensors").write_bytes(content)
    for source in (run, run / "adapter", f"{run}/adapter/", f"{run}/./adapter//"):
        done = case.ftune._run(["export", source, "--merge", "--out", case.folder / "other"], "")
        assert done.returncode == 4 and "something else than when the run began" in done.stdout, (source, done.stdout)
        assert not (case.folder / "other").exists()


def test_lacks_a_parameter(case):
    """A checkpoint without one of the parameters that its run trains is not whole, and is not exported."""
    run = train(case)
    manifest = checkpoint(run, 4) / "manifest.json"
    parsed = json.loads(manifest.read_text())
    name = "model.layers.0.mlp.down_proj.weight"
    del parsed["xxh3"], parsed["values"][name]
    manifest.write_text(json.dumps(parsed))
    done = case.ftune._run(["checkpoint", "verify", run], "")
    result = json.loads(done.stdout)
    assert done.returncode == 4 and result["resumes_from"] == 2, result
    assert [c["valid"] for c in result["checkpoints"]] == [False, True], result
    assert name in result["checkpoints"][0]["damaged"][0]["error"], result
    error = case.ftune.error("export", run, "--step", 4, "--out", case.folder / "no")
    assert error["key"] == name, error
    del parsed["optimizer"][name]
    manifest.write_text(json.dumps(parsed))
    assert case.ftune._run(["checkpoint", "verify", run], "").returncode == 4


def test_verify_says_step(case):
    """Where the newest cannot be taken, the step to go on from is named; a parser's words are short."""
    run = train(case)
    manifest = checkpoint(run, 4) / "manifest.json"
    text = manifest.read_text()
    says = lambda: subprocess.run([case.ftune.binary, "checkpoint", "verify", str(run)], capture_output=True, text=True)
    assert "ftune resume" not in says().stdout
    manifest.write_text(text[:text.index('"recipe"') + 600])
    cut = says().stdout
    assert f"ftune resume {run} --step 2" in cut, cut
    assert "not valid JSON" in cut and all(len(line.encode()) < 600 for line in cut.splitlines()), cut


# --- model.init_from -------------------------------------------------------------------------------------------------

STILL = {"name": "sgd", "learning_rate": 1e-30, "lr_scheduler": "constant", "warmup_steps": 0}


def test_init_from(case):
    """At a learning rate of zero what was in a checkpoint comes out again, to the bit; so does its export."""
    first = case.folder / "first"
    shutil.move(train(case), first)
    want = load_file(first / "model" / "model.safetensors")
    case.ftune("export", checkpoint(first, 4), "--out", case.folder / "hf", "--dtype", "fp32")
    for source in (checkpoint(first, 4), first, case.folder / "hf"):
        run = case.train(model={"path": str(TINY), "init_from": str(source)}, optimizer=STILL)
        check_equal(load_file(run / "model" / "model.safetensors"), want)
        shutil.rmtree(run)
    earlier = reader()(checkpoint(first, 2))[1]
    run = case.train(model={"path": str(TINY), "init_from": str(checkpoint(first, 2))}, optimizer=STILL)
    check_equal(load_file(run / "model" / "model.safetensors"), earlier)
    # A run's newest checkpoint is named in the recipe that the new run keeps.
    assert f"init_from: {checkpoint(first, 2)}" in (run / "recipe.yaml").read_text()
    # As the base of an adapter.
    shutil.rmtree(run)
    run = case.train(model={"path": str(TINY), "init_from": str(checkpoint(first, 4))}, adapter=LORA, optimizer=STILL)
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    evaluated = [line["eval_loss"] for line in lines if line["event"] == "eval"][0]
    loss, _ = reference.mean_loss(reference.load(case.folder / "hf"), reference.chat_samples(TINY, json_lines(case)))
    assert abs(evaluated - loss) <= 1e-5, (evaluated, loss)


def test_init_from_masters(case):
    """Where the optimizer keeps fp32 masters of bf16 weights, they begin with what the checkpoint's masters were."""
    bf16 = {"weights": "bf16"}
    first = case.folder / "first"
    shutil.move(train(case, precision=bf16), first)
    want = reader()(checkpoint(first, 4))[1]
    assert any((v.view("<u4") & 0xFFFF).any() for v in want.values()), "the masters are rounded"
    for mesh in ({"data": 1}, {"data": 2, "zero": 3}):
        run = train(case, model={"path": str(TINY), "init_from": str(first)}, precision=bf16, optimizer=STILL,
                    train={**TRAIN, "global_batch_size": 2}, parallel=mesh,
                    data={"train": [str(case.chats)], "eval": [str(case.chats)], "sequence_len": 256, "packing": False})
        check_equal(reader()(checkpoint(run, 4))[1], want)
        shutil.rmtree(run)
    # In fp32 they are the weights; without masters there is nothing to keep them.
    run = train(case, model={"path": str(TINY), "init_from": str(first)}, optimizer=STILL)
    check_equal(reader()(checkpoint(run, 4))[1], want)
    shutil.rmtree(run)
    run = train(case, model={"path": str(TINY), "init_from": str(first)}, optimizer=STILL,
                precision={**bf16, "master": "none"})
    assert {t["dtype"] for t in json.loads((checkpoint(run, 4) / "manifest.json").read_text())["values"].values()} == {"BF16"}


def test_export_on_init(case):
    """An adapter on a checkpoint's weights is merged into those, and never into another base."""
    first = case.folder / "first"
    shutil.move(train(case), first)
    run = train(case, model={"path": str(TINY), "init_from": str(first)}, adapter=LORA)
    ways = {"run": [run], "step": [run, "--step", 4], "adapter": [run / "adapter"]}
    for name, source in ways.items():
        case.ftune("export", *source, "--merge", "--dtype", "fp32", "--out", case.folder / f"merged-{name}")
    merged = load_file(case.folder / "merged-step" / "model.safetensors")
    for name in ("run", "adapter"):
        check_equal(load_file(case.folder / f"merged-{name}" / "model.safetensors"), merged)
    losses = [case.ftune("eval", model, case.chats)["eval_loss"] for model in (run, case.folder / "merged-run")]
    assert abs(losses[0] - losses[1]) <= 1e-5, losses
    # PEFT would load another base.
    named = json.loads((run / "adapter" / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert Path(named) == checkpoint(first, 4), named
    for source in ([run], [run, "--step", 4]):
        error = case.ftune.error("export", *source, "--format", "peft", "--out", case.folder / "peft")
        assert "weights of the checkpoint" in error["message"] and not (case.folder / "peft").exists(), error
    # Earlier versions named the model.
    config = run / "adapter" / "adapter_config.json"
    text = config.read_text()
    config.write_text(json.dumps({**json.loads(text), "base_model_name_or_path": str(TINY)}))
    for name, source in (("run", run), ("adapter", f"{run / 'adapter'}/")):
        case.ftune("export", source, "--merge", "--dtype", "fp32", "--out", case.folder / f"earlier-{name}")
        check_equal(load_file(case.folder / f"earlier-{name}" / "model.safetensors"), merged)
    config.write_text(text)
    # A run that goes on from the adapter has the same base.
    second = case.folder / "second"
    shutil.move(run, second)
    run = case.train(model={"path": str(TINY), "init_from": str(checkpoint(second, 4))}, adapter={"kind": "lora"},
                     optimizer=STILL)
    case.ftune("export", run, "--merge", "--dtype", "fp32", "--out", case.folder / "third")
    check_equal(load_file(case.folder / "third" / "model.safetensors"), merged)
    shutil.rmtree(first)
    for source in ([second], [second, "--step", 4], [run]):
        done = case.ftune._run(["export", *source, "--merge", "--out", case.folder / "gone"], "")
        assert done.returncode == 4 and str(checkpoint(first, 4)) in done.stdout, done.stdout


def test_export_init_gone(case):
    """A checkpoint of the whole model needs nothing of what its run began with."""
    first = case.folder / "first"
    shutil.move(train(case), first)
    run = train(case, model={"path": str(TINY), "init_from": str(first)})
    shutil.rmtree(first)
    for name, options in (("plain", []), ("based", ["--base", TINY])):
        case.ftune("export", run, "--step", 2, "--dtype", "fp32", "--out", case.folder / name, *options)
        check_equal(load_file(case.folder / name / "model.safetensors"), reader()(checkpoint(run, 2))[1])


def json_lines(case):
    return [json.loads(line) for line in case.chats.read_text().splitlines()]


def test_init_from_adapter(case):
    """An adapter goes on from a checkpoint, where the recipe does not ask for another."""
    first = case.folder / "first"
    shutil.move(train(case, adapter={**LORA, "lora_r": 3, "target_modules": ["q_proj", "down_proj"]}), first)
    case.ftune("export", checkpoint(first, 2), "--format", "peft", "--out", case.folder / "peft")
    want = load_file(case.folder / "peft" / "adapter_model.safetensors")
    model = {"path": str(TINY), "init_from": str(checkpoint(first, 2))}
    run = case.train(model=model, adapter={"kind": "lora"}, optimizer=STILL)
    check_equal(load_file(run / "adapter" / "adapter_model.safetensors"), want)
    shutil.rmtree(run)

    def error(**sections):
        recipe = {"output_dir": str(run), "data": {"train": [str(case.chats)]}, **sections}
        (case.folder / "wrong.yaml").write_text(json.dumps(recipe))
        return case.ftune.error("train", case.folder / "wrong.yaml")

    assert "adapter.lora_r" in error(model=model, adapter={"kind": "lora", "lora_r": 4})["key"]
    assert "adapter.quantize" in error(model=model, adapter={"kind": "qlora"})["key"]
    assert "a recipe with an adapter section" in error(model=model)["expected"]
    other = MODELS / "llama"
    wrong = error(model={**model, "path": str(other)}, adapter={"kind": "lora"})
    assert wrong["file"], wrong


def test_init_from_other_model(case):
    """Tensors that have no place, or another shape, are named."""
    first = case.folder / "first"
    shutil.move(train(case), first)
    manifest = checkpoint(first, 4) / "manifest.json"
    parsed = json.loads(manifest.read_text())
    del parsed["xxh3"]
    text = json.dumps(parsed)

    def error(old, new):
        manifest.write_text(text.replace(old, new))
        recipe = {"output_dir": str(case.folder / "run"), "data": {"train": [str(case.chats)]},
                  "model": {"path": str(TINY), "init_from": str(checkpoint(first, 4))}}
        (case.folder / "wrong.yaml").write_text(json.dumps(recipe))
        return case.ftune.error("train", case.folder / "wrong.yaml")

    wrong = error('"model.norm.weight"', '"model.nroom.weight"')
    assert wrong["key"] == "model.nroom.weight" and "no such parameter" in wrong["message"], wrong
    rows = parsed["values"]["model.norm.weight"]["shape"][0]
    entry = parsed["values"]["model.norm.weight"]
    entry["shape"] = entry["slices"][0]["size"] = [rows // 2]
    manifest.write_text(json.dumps(parsed))
    wrong = case.ftune.error("train", case.folder / "wrong.yaml")
    assert wrong["key"] == "model.norm.weight" and f"[{rows // 2}]" in wrong["found"], wrong


def main():
    tests = {name.removeprefix("test_"): f for name, f in globals().items() if name.startswith("test_")}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(tests))
    arguments = parser.parse_args()
    arguments.gguf = None
    warnings.filterwarnings("ignore")
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    failed = 0
    for name in arguments.names or tests:
        try:
            tests[name](Case(arguments, arguments.work / name))
            print(f"passed {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
