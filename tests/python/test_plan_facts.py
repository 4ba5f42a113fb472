#!/usr/bin/env python3
"""ftune plan: what it says of the data, of checkpoints and the disk is what a run then shows; `ftune train` of what does not fit.

    test_plan_facts.py --ftune BINARY --work FOLDER [NAMES...]
"""

import json
import shutil
import sys

from cli_case import random_model, run_tests
from test_plan import planned, total, write_recipe

SAVED = ["checkpoint.save_steps=1"]
FACTS = ("samples", "tokens", "trained_tokens", "packs", "fill", "steps_per_epoch", "total_steps")
# What is planned and then trained with a checkpoint at each step.
SAVING = {
    "full": [],
    "bf16": ["precision.weights=bf16"],
    "8 bit": ["optimizer.name=adamw_8bit"],
    "states on disk": ["memory.offload=optimizer"],
    "lora": ["adapter.lora_r=4"],
    "in the foreground": ["checkpoint.async=false"],
    "zero 0": ["parallel.data=2"],
    "zero 1": ["parallel.data=2", "parallel.zero=1"],
    "zero 3, offloaded": ["parallel.data=2", "parallel.zero=3", "memory.offload=optimizer"],
    "tensor": ["parallel.tensor=2"],
    "pipeline": ["parallel.pipeline=2"],
}


def size_of(folder, suffix):
    return sum(path.stat().st_size for path in folder.iterdir() if path.name.endswith(suffix))


def test_saving(case):
    """Memory with the copy that is written in the background, to the byte; a checkpoint's and the result's bytes, within a percent."""
    for name, words in SAVING.items():
        for leftover in ("llama", "out"):
            shutil.rmtree(case.folder / leftover, ignore_errors=True)
        recipe = write_recipe(case, "llama")
        plan = planned(case, recipe, *SAVED, *words)
        done = case.run("train", recipe, "output_dir=out", *SAVED, *words)
        assert done.returncode == 0, (name, done.stderr)
        log = case.log()
        if name != "pipeline":  # what is on its way between stages differs from run to run
            peak = max((line["memory"] for line in log if line["event"] == "train"), key=total)
            most = max((role["step_after_save"] for role in plan["roles"]), key=total)
            assert most == peak, (name, most, peak)
        for role in plan["roles"]:
            assert role["peak"] >= total(role["step_after_save"]) >= total(role["step"]), (name, role)
        disk = plan["disk"]
        saved = [line["bytes"] for line in log if line["event"] == "save" and "bytes" in line]
        assert saved and all(abs(disk["checkpoint"] / size - 1) < 0.01 for size in saved), (name, disk, saved)
        result = case.folder / "out" / ("adapter" if name == "lora" else "model")
        assert abs(disk["result"] / size_of(result, ".safetensors") - 1) < 0.01 + 4096 / disk["result"], (name, disk)
        assert disk["checkpoints"] == 3 and disk["fits"], (name, disk)
        assert disk["needed"] == 3 * disk["checkpoint"] + disk["result"] + disk["states"], (name, disk)
        assert (disk["states"] > 0) == ("memory.offload=optimizer" in words), (name, disk)


def test_copy_of_a_save(case):
    """What is kept for the next save counts in the steps, but where none comes after a save."""
    recipe = write_recipe(case, "llama")
    copied, last = (planned(case, recipe, f"checkpoint.save_steps={steps}")["roles"][0] for steps in (2, 3))
    (alone,) = planned(case, recipe, *SAVED, "checkpoint.async=false")["roles"]
    copy = copied["step_after_save"]["buffers"] - copied["step"]["buffers"]
    assert copy > 0 and alone["step_after_save"] == alone["step"], (copied, alone)
    assert copied["peak"] == alone["peak"] + copy > last["peak"] >= alone["peak"], (copied, last, alone)


def test_disk(case):
    """No more checkpoints than are saved; more with what is kept beside the newest; a warning where the disk has no room."""
    recipe = write_recipe(case, "llama")
    for words, count in ((["checkpoint.save_steps=2", "checkpoint.keep_last=9"], 2), (["checkpoint.keep_last=1"], 2),
                         (["checkpoint.keep_last=1", "checkpoint.keep_best=true", "data.eval=[long.txt]"], 3),
                         (["checkpoint.save_steps=1", "checkpoint.keep_every=3", "train.max_steps=90"], 33)):
        disk = planned(case, recipe, *words)["disk"]
        assert disk["checkpoints"] == count, (words, disk)
    # More than any disk has.
    done = case.run("plan", recipe, "checkpoint.keep_last=1000000000")
    assert done.returncode == 0 and "warning: there are only" in done.stdout and "keep_last" in done.stdout, done


def test_data(case):
    """The same numbers as `ftune data` and a run have; read from the prepared data that either leaves."""
    recipe = write_recipe(case, "llama")
    for words in ([], ["data.packing=false"], ["data.val_set_size=0.1"]):
        words = [*words, "data.train=rows.jsonl", "train.num_epochs=2", "train.max_steps=null"]
        plan = planned(case, recipe, *words)
        first = plan["data"]
        data = json.loads(case.run("data", recipe, *words, "--json").stdout)
        assert all(first[key] == data[key] for key in FACTS), (words, first, data)
        assert data["reused_shards"] == data["shards"] > 0, data
        done = case.run("train", recipe, "output_dir=out", "--force", *words)
        assert done.returncode == 0, done.stderr
        log = case.log()
        steps = [line for line in log if line["event"] == "train"]
        flops = sum(line["flops_per_second"] * line["step_seconds"] for line in steps)
        # What packs of the data need on the mean; a model this small is mostly a head, which has no more than trained tokens.
        assert abs(plan["flops_per_token"] / (flops / sum(line["tokens"] for line in steps)) - 1) < 0.15, (words, plan, flops)
        start = log[0]
        assert all(first[key] == start[key] for key in FACTS), (words, first, start)
    text = case.run("plan", recipe, *words).stdout
    assert f"{first['samples']} samples, {first['tokens']} tokens ({first['trained_tokens']} trained)" in text, text


def test_data_that_is_not_there(case):
    """The plan is whole, and says in one line why it knows nothing of the data."""
    recipe = write_recipe(case, "llama")
    whole = planned(case, recipe)
    (case.folder / "bad.jsonl").write_text('{"messages": [}\n')
    (case.folder / "large.jsonl").write_text(json.dumps({"text": "word " * 1000}) + "\n")
    with open(case.folder / "large.jsonl", "a") as file:
        file.truncate(300_000_000)
    cases = {
        "none.jsonl": ["data.train=none.jsonl"],
        "bad.jsonl:1": ["data.train=bad.jsonl"],
        "no/dataset": ["data.train=no/dataset"],
        "streamed": ["data.train=bad.jsonl", "data.streaming=true"],
        "not prepared yet": ["data.train=large.jsonl"],
        "not a model": ["model.path=llama/config.json"],
    }
    for part, words in cases.items():
        plan = planned(case, recipe, *words)
        assert list(plan["data"]) == ["not_looked_at"] and part in plan["data"]["not_looked_at"], (part, plan["data"])
        if part != "not a model":
            assert plan["roles"] == whole["roles"], part
        text = case.run("plan", recipe, *words)
        lines = [line for line in text.stdout.splitlines() if line.startswith("data: not looked at: ")]
        assert text.returncode == 0 and len(lines) == 1 and part in lines[0], (part, text.stdout)
        assert "error" not in text.stderr, text.stderr


def too_large(case):
    """→ a recipe whose activations take more than twice what this host has, and the microbatch that does it."""
    recipe = write_recipe(case, "llama")
    random_model(case.folder / "wide", hidden_size=512, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=8,
                 num_key_value_heads=8, head_dim=64)
    (role,) = planned(case, recipe, "model.path=wide", "train.global_batch_size=64", "train.micro_batch_size=64")["roles"]
    size = 64
    while size * role["memory"]["activations"] < 64 * 2 * role["capacity"]:
        size *= 2
    return recipe, ["model.path=wide", f"train.global_batch_size={size}", f"train.micro_batch_size={size}"], size


def test_train_does_not_fit(case):
    """`ftune train` says so before it loads, with changes of which each makes it fit."""
    recipe, large, size = too_large(case)
    done = case.run("train", recipe, "output_dir=out", *large)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert done.returncode == 3 and len(errors) == 1 and "--force" in errors[0], done.stderr
    assert not (case.folder / "out" / "log.jsonl").exists()
    named = errors[0].split("what would fit: ")[1].split("; ")[0].split(", or ")
    assert 1 <= len(named) <= 4, errors
    for change in named:
        words = change.split(" (")[0].split()
        assert planned(case, recipe, *large, *words)["fits"], change
    answer = json.loads(case.run("train", recipe, "output_dir=out", *large, "--json").stdout)
    assert answer["exit"] == 3, answer


def test_train_goes_on(case):
    """With --force; and where it depends on the data, which is then looked at: that is not there, so that nothing is allocated."""
    recipe, large, size = too_large(case)
    large.append("data.train=none.jsonl")
    done = case.run("train", recipe, "output_dir=out", *large)
    assert done.returncode == 3, done.stderr
    # Texts of one token each would fit.
    short = ["data.packing=false", "data.sequence_len=512", f"train.micro_batch_size={size // 8}"]
    for words, says in ((["--force"], "--force goes on"), (short, "depends on the data")):
        done = case.run("train", recipe, "output_dir=out", *large, *words)
        assert done.returncode == 4 and says in done.stderr and "none.jsonl" in done.stderr, (words, done.stderr)
    # What cannot be planned is refused by the run itself.
    done = case.run("train", recipe, "output_dir=out", *large, "parallel.tensor=9", "train.global_batch_size=auto")
    assert done.returncode == 2 and "parallel.tensor" in done.stderr, done.stderr


def test_several_ranks_do_not_fit(case):
    """Who starts ranks says it, once for all."""
    recipe, large, size = too_large(case)
    done = case.run("train", recipe, "output_dir=out", "parallel.data=2", *large[:2], f"train.micro_batch_size={size // 2}")
    assert done.returncode == 3 and done.stderr.count("error:") == 1 and "what would fit" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
