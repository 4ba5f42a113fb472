#!/usr/bin/env python3
"""What `ftune plan` says of time beside what a run takes on this machine, side by side in one run.

    tests/bench/plan_time.py --ftune build/release/ftune --work build/bench [--rounds N] [--steps N] MODEL [NAMES...]

By turns, measures this machine (`ftune bench`), plans a step with that and trains MODEL (a folder or a .gguf file) for some,
as each of RECIPES says; machines that others use are faster at one time than at another. Prints for each the medians of
the planned and of the measured seconds of a step, and their ratio; at last, in how many pairs of recipes with equal
batches the plan has the faster one right.
"""

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import measure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from faq_recipe import write_faq_recipe

ONE = ["launch.threads=2"]
TWO = ["launch.threads=1"]
LORA = ["adapter.lora_r=16"]
RECIPES = {
    "full": [*ONE],
    "full, one microbatch": [*ONE, "train.micro_batch_size=2"],
    "full, bf16": [*ONE, "precision.weights=bf16"],
    "full, recomputed": [*ONE, "memory.activation_checkpointing=full"],
    "full, sgd": [*ONE, "optimizer.name=sgd"],
    "lora": [*ONE, *LORA],
    "qlora": [*ONE, *LORA, "adapter.kind=qlora"],
    "states on disk": [*ONE, "memory.offload=optimizer"],
    "long texts": [*ONE, "data.sequence_len=1024", "train.global_batch_size=1"],
    "2 ranks": [*TWO, "parallel.data=2"],
    "2 ranks, zero 1": [*TWO, "parallel.data=2", "parallel.zero=1"],
    "2 ranks, zero 3": [*TWO, "parallel.data=2", "parallel.zero=3"],
    "tensor 2": [*TWO, "parallel.tensor=2"],
    "pipeline 2": [*TWO, "parallel.pipeline=2"],
}


def ftune(arguments, *words):
    done = subprocess.run([arguments.ftune, *map(str, words)], cwd=arguments.work, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"ftune {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def planned_step(arguments, recipe, words):
    threads = 2 if "launch.threads=2" in words else 1
    device = arguments.work / f"device-{threads}.yaml"
    ftune(arguments, "bench", "--threads", threads, "--disk", arguments.work, "--out", device)
    return json.loads(ftune(arguments, "plan", recipe, *words, "--on", f"1x{3 - threads}x{device}", "--json"))["step_seconds"]


def trained(arguments, recipe, words):
    out = arguments.work / "out"
    shutil.rmtree(out, ignore_errors=True)
    ftune(arguments, "train", recipe, f"output_dir={out}", *words)
    return [line["step_seconds"] for line in measure.read_log(out / "log.jsonl")][1:]


def right_pairs(planned, measured):
    """→ (pairs whose order the plan has right, pairs), of recipes whose measured times differ by more than a tenth"""
    pairs = [(a, b) for a, b in itertools.combinations(planned, 2) if not 0.9 < measured[a] / measured[b] < 1.1]
    return sum((planned[a] < planned[b]) == (measured[a] < measured[b]) for a, b in pairs), len(pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("--work", type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("model", type=lambda path: Path(path).resolve())
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    # Full packs, all of which are learned: what a plan reckons with.
    recipe = write_faq_recipe(
        arguments.work, arguments.model, {"train_on_inputs": True, "sequence_len": 512},
        train={"global_batch_size": 2, "micro_batch_size": 1, "max_steps": arguments.steps, "num_epochs": 1000},
        optimizer={"learning_rate": 1e-6, "lr_scheduler": "constant", "warmup_steps": 0},
        checkpoint={"save_steps": 1000000})
    recipes = {name: words for name, words in RECIPES.items() if not arguments.names or name in arguments.names}
    seconds, plans = {name: [] for name in recipes}, {name: [] for name in recipes}
    for _ in range(arguments.rounds):
        for name, words in recipes.items():
            plans[name].append(planned_step(arguments, recipe, words))
            seconds[name] += trained(arguments, recipe, words)
    planned = {name: statistics.median(steps) for name, steps in plans.items()}
    measured = {name: statistics.median(steps) for name, steps in seconds.items()}
    for name in recipes:
        print(f"{name:24} planned {planned[name]:7.3f} s  measured {measured[name]:7.3f} s  ratio {planned[name] / measured[name]:.2f}")
    right, pairs = right_pairs(planned, measured)
    print(f"of {pairs} pairs that differ by more than a tenth, {right} are in the right order")


if __name__ == "__main__":
    sys.exit(main())
