#!/usr/bin/env python3
"""log.tensorboard: what TensorBoard's own reader finds in a run's event files is what log.jsonl says.

`test_event_files.py --ftune build/release/ftune --work FOLDER`; the Python has the package tensorboard.
"""

import json
import logging
import struct
import subprocess
import sys
import time

from cli_case import TINY, run_tests
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2

CURVES = {"train/loss": "loss", "train/learning_rate": "lr", "train/grad_norm": "grad_norm",
          "train/tokens_per_second": "tokens_per_second", "train/step_seconds": "step_seconds"}
EVALUATED = "data: {train: chats.jsonl, sequence_len: 128, val_set_size: 4}\ntrain: {global_batch_size: 2, num_epochs: 1000, eval_steps: 10}\n"


def f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def event_files(case, run="out"):
    return sorted((case.folder / run / "tensorboard").iterdir())


def expected(case, run="out"):
    """→ by tag and step: the wall time and the value that log.jsonl has, of a step's last line."""
    curves = {}
    for line in case.log(run):
        values = {}
        if line["event"] == "train":
            values = {tag: line[key] for tag, key in CURVES.items()}
            values |= {f"memory/{kind}": size for kind, size in line["memory"].items()}
        elif line["event"] == "eval":
            values = {"eval/loss": line["eval_loss"]}
        for tag, value in values.items():
            curves.setdefault(tag, {})[line["step"]] = (line["time"], f32(value))
    return curves


def check(case, run="out"):
    """TensorBoard has what log.jsonl has, each step once and in order."""
    accumulator = EventAccumulator(str(case.folder / run / "tensorboard"), size_guidance={"scalars": 0})
    accumulator.Reload()
    curves = expected(case, run)
    assert accumulator.Tags()["scalars"] and sorted(accumulator.Tags()["scalars"]) == sorted(curves), accumulator.Tags()
    for tag, points in curves.items():
        found = [(event.step, (event.wall_time, event.value)) for event in accumulator.Scalars(tag)]
        assert found == sorted(points.items()), (tag, found[:5], sorted(points.items())[:5])
    return curves


def recipe_of(case):
    (case.folder / "recipe.yaml").write_text(f"model: {{path: {TINY}}}\nadapter: {{lora_r: 4}}\nlog: {{tensorboard: true}}\n{EVALUATED}")
    return "recipe.yaml"


def last_step(log, attempt):
    """The last step that an attempt has trained, by a log that is still written."""
    lines = [json.loads(line) for line in log.splitlines(keepends=True) if line.endswith("\n")]
    return max((line["step"] for line in lines if line["event"] == "train" and line["attempt"] == attempt), default=0)


def test_curves(case):
    """One rank; of two, the first alone; a run that replaces another leaves nothing of its files."""
    recipe = recipe_of(case)
    for words in ([], ["parallel.data=2"]):
        done = case.run("train", recipe, "train.max_steps=30", "output_dir=out", "--force", *words)
        assert done.returncode == 0, done.stderr
        curves = check(case)
        assert sorted(curves["train/loss"]) == list(range(1, 31)) and sorted(curves["eval/loss"]) == [0, 10, 20, 30]
        (file,) = event_files(case)
        assert file.name.startswith("events.out.tfevents.") and file.name.endswith(".1"), file
    first = event_pb2.Event()
    content = file.read_bytes()
    first.ParseFromString(content[12:12 + struct.unpack("<Q", content[:8])[0]])
    assert first.file_version == "brain.Event:2", first


def test_killed(case):
    """A run that is killed, and goes on from a checkpoint: what it trains again replaces what it had written."""
    recipe = recipe_of(case)
    log = case.folder / "out" / "log.jsonl"
    words = ["train.max_steps=20000", "checkpoint.save_steps=10", "output_dir=out"]
    for attempt, steps in ((1, 35), (2, 65)):
        command = ["train", recipe, *words] if attempt == 1 else ["resume", "out"]
        process = subprocess.Popen([case.ftune, *command, "--quiet"], cwd=case.folder, env=case.environment())
        end = time.monotonic() + 120
        while last_step(text := log.read_text() if log.exists() else "", attempt) < steps:
            assert process.poll() is None and time.monotonic() < end, text[-500:]
            time.sleep(0.01)
        process.kill()
        process.wait()
    done = case.run("resume", "out", "train.max_steps=80", "--quiet")
    assert done.returncode == 0, done.stderr
    starts = [line["step"] for line in case.log() if line["event"] == "start"]
    assert len(starts) == 3 and starts[2] >= starts[1] >= 10, starts
    assert sorted(check(case)["train/loss"]) == list(range(1, 81))
    assert [file.name.rpartition(".")[2] for file in event_files(case)] == ["1", "2", "3"]


def test_from_the_beginning(case):
    """A run without a checkpoint begins again at step 0, and so do its curves."""
    recipe = recipe_of(case)
    done = case.run("train", recipe, "train.max_steps=30", "output_dir=out", "--quiet")
    assert done.returncode == 0, done.stderr
    subprocess.run(["rm", "-r", case.folder / "out" / "checkpoints"], check=True)
    done = case.run("resume", "out", "train.max_steps=40", "--quiet")
    assert done.returncode == 0, done.stderr
    assert len(event_files(case)) == 2
    assert sorted(check(case)["train/loss"]) == list(range(1, 41))


def test_no_training(case):
    """Neither comparisons nor range tests are runs."""
    recipe = recipe_of(case)
    hook = f"log.hook=touch {case.folder.resolve()}/called"
    for words in (["train", recipe, "--lr-range-test", hook, "output_dir=test"], ["verify", recipe, "--mesh", "data=2", hook]):
        done = case.run(*words, "--quiet")
        assert done.returncode == 0, done.stderr
    assert not list(case.folder.rglob("tensorboard")) and not (case.folder / "called").exists()


if __name__ == "__main__":
    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    sys.exit(run_tests(globals(), __doc__))
