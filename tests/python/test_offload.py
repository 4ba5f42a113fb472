#!/usr/bin/env python3
"""Full fine-tuning of SmolLM2 with the optimizer's states on disk: the weights of the run in memory to the bit, in less
resident memory.

    test_offload.py --ftune BINARY --gguf SmolLM2.gguf --work FOLDER

Peaks of resident memory (VmHWM) are the kernel's own, read as each process ends. The limit that the run in memory
exceeds is its peak less 40 % of the states' size; the run with states on disk has to stay below it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from faq_recipe import write_faq_recipe

STEPS = 2
SEQUENCE_LEN = 64
SAVED_AT_LEAST = 0.4  # of the states
MIB = 1 << 20


def write_recipe(arguments, folder):
    return write_faq_recipe(
        folder, arguments.gguf, {"sequence_len": SEQUENCE_LEN},
        train={"global_batch_size": 1, "micro_batch_size": 1, "max_steps": STEPS},
        optimizer={"name": "adamw", "learning_rate": 1e-4, "lr_scheduler": "constant", "weight_decay": 0.1})


def run(ftune, recipe, offload, folder):
    """→ (peak of resident memory in bytes, the lines of its log, what it said)"""
    command = [ftune, "train", recipe, f"output_dir={folder}", f"memory.offload={offload}"]
    with open(folder.with_suffix(".txt"), "w+") as said:
        process = subprocess.Popen(list(map(str, command)), stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        words = said.read()
    assert process.returncode == 0, f"exit status {process.returncode} of: {command}\n{words}"
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return usage.ru_maxrss * 1024, log, words


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kill_in_the_middle(ftune, recipe, folder):
    """A run that is killed while it trains leaves its log, and no file of states."""
    command = [ftune, "train", recipe, f"output_dir={folder}", "memory.offload=optimizer", "train.max_steps=50",
               "train.num_epochs=50"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    log = folder / "log.jsonl"
    while not (log.exists() and '"step"' in log.read_text()):
        assert process.poll() is None, "the run ended by itself"
        assert time.monotonic() < deadline, "no step in a minute"
        time.sleep(0.1)
    process.kill()
    process.wait()
    sizes = {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    large = {name: size for name, size in sizes.items() if size > MIB}
    assert not large, f"left behind: {large}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    ftune = arguments.ftune.resolve()
    recipe = write_recipe(arguments, arguments.work)

    peak, log, _ = run(ftune, recipe, "none", arguments.work / "memory")
    disk_peak, disk_log, words = run(ftune, recipe, "optimizer", arguments.work / "disk")
    match = re.search(r"optimizer states: ([0-9.]+) MiB in .*", words)
    assert match, f"nothing is said of the states:\n{words}"
    states = float(match[1]) * MIB
    parameters = next(line["parameters"] for line in log if "parameters" in line)
    assert abs(states - 8 * parameters) < 0.01 * states, f"{states} bytes of states for {parameters} parameters"

    limit = peak - SAVED_AT_LEAST * states
    seconds = [[line["step_seconds"] for line in lines if "step_seconds" in line] for lines in (log, disk_log)]
    kept = [[line["memory"]["optimizer"] for line in lines if "step_seconds" in line][-1] for lines in (log, disk_log)]
    print(match[0])
    print(f"VmHWM: {peak / MIB:.0f} MiB in memory, {disk_peak / MIB:.0f} MiB with states on disk; "
          f"limit {limit / MIB:.0f} MiB; states {states / MIB:.0f} MiB")
    print(f"ledger, optimizer: {kept[0] / MIB:.0f} MiB, {kept[1] / MIB:.0f} MiB")
    print(f"seconds a step: {seconds[0]}, {seconds[1]}")
    assert disk_peak < limit < peak
    assert kept[1] < 0.2 * kept[0]

    want, got = (files_of(arguments.work / name / "model") for name in ("memory", "disk"))
    assert sum(map(len, want.values())) > 4 * parameters * 0.9, "the model was not saved"
    assert want.keys() == got.keys(), f"{sorted(want)} and {sorted(got)}"
    different = [name for name in want if want[name] != got[name]]
    assert not different, f"not the same bytes: {different}"
    losses = [[line["loss"] for line in lines if "step_seconds" in line] for lines in (log, disk_log)]
    assert losses[0] == losses[1] and len(losses[0]) == STEPS, losses
    print(f"{len(want)} files of the model are equal, byte for byte")

    kill_in_the_middle(ftune, recipe, arguments.work / "killed")
    shutil.rmtree(arguments.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
