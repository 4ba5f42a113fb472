#!/usr/bin/env python3
"""Several ranks beside one on this machine, side by side in one run.

    tests/bench/mesh_bench.py --ftune build/release/ftune --work build/bench MODEL [--rounds N] [--steps N]

Trains MODEL (a folder or a .gguf file) fully, by turns, as each of MESHES says, and prints the ratio of each to the
first: the median over the rounds of the ratios of tokens a second, a run's being its median step's. Beside it what a
step of each rank waited for communication that its computing did not cover, and which share of the step that is, from
the timelines that the runs write.
"""

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path

import measure

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from faq_recipe import write_faq_recipe

MESHES = {
    "1 rank of 2 threads": ["launch.threads=2"],
    "2 ranks of 1 thread": ["launch.threads=1", "parallel.data=2"],
    "the same, zero 1": ["launch.threads=1", "parallel.data=2", "parallel.zero=1"],
    "the same, zero 2": ["launch.threads=1", "parallel.data=2", "parallel.zero=2"],
    "the same, zero 3": ["launch.threads=1", "parallel.data=2", "parallel.zero=3"],
    "tensor 2": ["launch.threads=1", "parallel.tensor=2"],
}


def write_recipe(arguments, folder):
    return write_faq_recipe(
        folder, arguments.model, {"train_on_inputs": True, "sequence_len": arguments.sequence_len},
        train={"global_batch_size": 2 * arguments.accumulation, "micro_batch_size": 1, "max_steps": arguments.steps,
               "num_epochs": 1000},
        optimizer={"learning_rate": 1e-5, "lr_scheduler": "constant", "warmup_steps": 0},
        log={"trace_step": arguments.steps})


def exposed(trace):
    """→ {rank: (seconds of the step, seconds that it waited for communication)}"""
    ranks = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["ph"] != "X":
            continue
        step, waited = ranks.get(event["pid"], (0.0, 0.0))
        if event["name"].startswith("step "):
            step += event["dur"] / 1e6
        elif event["cat"] == "wait for communication":
            waited += event["dur"] / 1e6
        ranks[event["pid"]] = step, waited
    return ranks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--sequence-len", type=int, default=512)
    parser.add_argument("--accumulation", type=int, default=1, help="microbatches of each rank, of two")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of meshes")
    parser.add_argument("model", type=Path)
    arguments = parser.parse_args()
    folder = (arguments.work / "mesh").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    recipe = write_recipe(arguments, folder)
    names = [name for number, name in enumerate(MESHES)
             if number == 0 or not arguments.only or any(part in name for part in arguments.only)]

    speeds, waits = {name: [] for name in names}, {name: [] for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            run = folder / "run"
            done = measure.run([arguments.ftune, "train", recipe, f"output_dir={run}", "--quiet", *MESHES[name]],
                               run / "log.jsonl", output=folder / "output.txt")
            speeds[name].append(done.tokens_per_second)
            for trace in run.glob("trace.json"):
                waits[name] += [waited / step for step, waited in exposed(trace).values()]
            shutil.rmtree(run)
    for name in names:
        ratios = [mine / one for mine, one in zip(speeds[name], speeds[names[0]])]
        share = f"; waits for communication {100 * statistics.median(waits[name]):.1f} % of a step" if waits[name] else ""
        print(f"{name}: {statistics.median(speeds[name]):.1f} tokens/s, {statistics.median(ratios):.3f} × "
              f"(from {min(ratios):.3f} to {max(ratios):.3f}){share}", flush=True)


if __name__ == "__main__":
    main()
