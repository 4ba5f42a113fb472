#!/usr/bin/env python3
"""Saving and loading a checkpoint beside what the disk can do with the same bytes, and beside PyTorch's distributed
checkpoint of the same tensors, by turns in one run. By hand: it writes some gigabytes, and wants a quiet machine.

    checkpoint_bench.py --ftune build/release/ftune --model SmolLM2-135M-Instruct.gguf --work DIR [--rounds 3]

Full fine-tuning in fp32 with AdamW, one rank. Each round:
  raw write    a copy of the checkpoint's files, from the page cache, in pieces of 8 MiB, each fsynced
  sync, async  `ftune train`, which saves in the foreground, and in the background while it trains, by its log
  torch save   torch.distributed.checkpoint.save, which fsyncs too
  raw read     the files, read into memory in pieces of 8 MiB
  check        `ftune checkpoint verify`: what `ftune resume` does first, to be sure of every byte
  load         by the log of `ftune resume`, which has just checked the files: from its start line to the first step, less
               that of a run that begins anew
  torch load   torch.distributed.checkpoint.load, into tensors that are there
Before anything is read its files leave the page cache.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import checkpoint_check

PIECE = 8 << 20
STEPS, EVERY = 18, 6  # in the background, far enough from each other that none waits for the one before


def forget(files):
    """What is read next comes from the disk."""
    for path in files:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(function, *arguments):
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


def raw_write(files, to):
    buffer = bytearray(PIECE)
    for path in files:
        with open(path, "rb", buffering=0) as source, open(to / path.name, "wb", buffering=0) as target:
            while count := source.readinto(buffer):
                target.write(memoryview(buffer)[:count])
            os.fsync(target.fileno())


def raw_read(files):
    buffer = bytearray(PIECE)
    for path in files:
        with open(path, "rb", buffering=0) as source:
            while source.readinto(buffer):
                pass


class Bench:
    def __init__(self, arguments):
        self.ftune, self.work = str(arguments.ftune.resolve()), arguments.work.resolve()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        rows = [{"messages": [{"role": "user", "content": f"What is {i} plus {i}?"},
                              {"role": "assistant", "content": f"It is {2 * i}."}]} for i in range(20)]
        (self.work / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (self.work / "recipe.yaml").write_text(
            f"model: {{path: {arguments.model.resolve()}}}\n"
            "data: {train: chats.jsonl, sequence_len: 64, packing: false}\n"
            f"train: {{global_batch_size: 1, max_steps: 2, num_epochs: {STEPS}}}\n"
            "checkpoint: {save_steps: 1, keep_last: 1}\nprecision: {weights: fp32}\n")

    def run(self, *command):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.work / "cache")}
        done = subprocess.run([self.ftune, *command], cwd=self.work, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"exit status {done.returncode} of {command}: {done.stderr}")
        return [json.loads(line) for line in (self.work / "out" / "log.jsonl").read_text().splitlines()]

    def train(self, *arguments):
        shutil.rmtree(self.work / "out", ignore_errors=True)
        return self.run("train", "recipe.yaml", "output_dir=out", *arguments)

    def resume(self):
        return self.run("resume", "out", f"train.max_steps={STEPS + 1}", f"checkpoint.save_steps={EVERY}")

    def files(self):
        return sorted(checkpoint_check.folder_of(self.work / "out" / "checkpoints", STEPS).iterdir())


def begin_seconds(log):
    """Of the last attempt, from its start line to the beginning of its first step."""
    start = max(i for i, line in enumerate(log) if line["event"] == "start")
    first = next(line for line in log[start:] if line["event"] == "train")
    return first["time"] - first["step_seconds"] - log[start]["time"]


def saves(log):
    return [line for line in log if line["event"] == "save" and "bytes" in line]


def torch_tensors(files):
    """→ what the files have, as a state dict."""
    from safetensors.torch import load_file
    return {f"{path.name}:{name}": tensor for path in files if path.suffix == ".safetensors"
            for name, tensor in load_file(path).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    import torch
    import torch.distributed.checkpoint as dcp
    torch.set_num_threads(1)
    bench = Bench(arguments)
    times = {name: [] for name in ("raw write", "sync", "async", "torch save", "raw read", "load", "torch load", "check")}
    firsts, stalls, shares = [], [], []
    for _ in range(arguments.rounds):
        log = bench.train("checkpoint.async=false")
        times["sync"] += [save["seconds"] for save in saves(log)]
        log = bench.train(f"train.max_steps={STEPS}", f"checkpoint.save_steps={EVERY}")
        first, second, _ = saves(log)  # the last one ends when training has
        times["async"] += [first["seconds"], second["seconds"]]
        firsts.append(first["stall_seconds"])
        stalls.append(second["stall_seconds"])
        shares.append(second["stall_seconds"] / (second["time"] - first["time"]))
        anew = begin_seconds(log)
        files = bench.files()
        size = sum(path.stat().st_size for path in files)
        raw = bench.work / "raw"
        for _ in range(2):
            shutil.rmtree(raw, ignore_errors=True)
            raw.mkdir()
            times["raw write"].append(timed(raw_write, files, raw))
        forget(files)
        times["raw read"].append(timed(raw_read, files))
        forget(files)
        times["check"].append(timed(lambda: bench.run("checkpoint", "verify", "out")))
        forget(files)
        times["load"].append(begin_seconds(bench.resume()) - anew)
        state = torch_tensors(sorted(raw.iterdir()))
        shutil.rmtree(bench.work / "torch", ignore_errors=True)
        times["torch save"].append(timed(lambda: dcp.save(state, checkpoint_id=bench.work / "torch")))
        forget((bench.work / "torch").iterdir())
        times["torch load"].append(timed(lambda: dcp.load(state, checkpoint_id=bench.work / "torch")))
        del state
    report(times, firsts, stalls, shares, size)


def report(times, firsts, stalls, shares, size):
    middle = {name: statistics.median(values) for name, values in times.items()}
    print(f"{size / 1e9:.2f} GB; seconds, median (range)")
    for name, values in times.items():
        print(f"  {name:10} {middle[name]:7.2f} ({min(values):.2f} to {max(values):.2f})  {size / 1e6 / middle[name]:6.0f} MB/s")
    middle["check and load"] = middle["check"] + middle["load"]
    for ours, theirs in (("sync", "raw write"), ("async", "raw write"), ("sync", "torch save"), ("check and load", "raw read"),
                         ("check and load", "torch load")):
        print(f"  rate of {ours} ÷ that of {theirs}: {middle[theirs] / middle[ours]:.2f}")
    stall = statistics.median(stalls)
    print(f"  training stands still for {stall:.2f} s a save (for {statistics.median(firsts):.2f} s at the first, which takes the memory for "
          f"the copy): {100 * stall / 900:.3f} % of 15 minutes; here {100 * statistics.median(shares):.1f} % of the time between two "
          f"saves that are {EVERY} steps apart")


if __name__ == "__main__":
    main()
