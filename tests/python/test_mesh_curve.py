#!/usr/bin/env python3
"""The loss curve of SmolLM2 on several meshes: that of one rank.

    test_mesh_curve.py --ftune BINARY --gguf SmolLM2.gguf --work FOLDER [--steps N] [--short]

--short: three meshes of them.

Exits with 1 where a step's loss differs from one rank's by more than 1e-4, or the curve does not fall.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4
MESHES = {
    "data=4 zero=0": ["parallel.data=4"],
    "data=4 zero=1": ["parallel.data=4", "parallel.zero=1"],
    "data=4 zero=2": ["parallel.data=4", "parallel.zero=2"],
    "data=4 zero=3": ["parallel.data=4", "parallel.zero=3"],
    "tensor=2 data=2": ["parallel.tensor=2", "parallel.data=2"],
    "tensor=2 data=2 zero=3, sequence parallel": ["parallel.tensor=2", "parallel.data=2", "parallel.zero=3",
                                                  "parallel.sequence_parallel=true"],
    "pipeline=2, 1f1b": ["parallel.pipeline=2"],
    "pipeline=2, zb-v": ["parallel.pipeline=2", "parallel.schedule=zb-v"],
    "pipeline=4, zb-h1": ["parallel.pipeline=4", "parallel.schedule=zb-h1"],
}
SHORT = ["data=4 zero=1", "tensor=2 data=2 zero=3, sequence parallel", "pipeline=2, 1f1b"]


def write_recipe(arguments, folder):
    path = folder / "recipe.yaml"
    path.write_text(json.dumps({  # JSON is YAML
        "output_dir": "set by each run",
        "model": {"path": str(arguments.gguf.resolve())},
        "data": {"train": [str(ROOT / "recipes" / "data" / "ftune-faq.jsonl")], "sequence_len": arguments.sequence_len,
                 "excess_length_strategy": "truncate"},
        "train": {"global_batch_size": 4, "micro_batch_size": 1, "max_steps": arguments.steps, "num_epochs": 100},
        "precision": {"weights": "fp32"},
        "optimizer": {"name": "adamw", "learning_rate": 5e-5, "weight_decay": 0.01},
        "launch": {"threads": 1},
    }, indent=2))
    return path


def losses(arguments, recipe, mesh, run):
    command = [arguments.ftune, "train", recipe, f"output_dir={run}", "--quiet", *mesh]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, f"exit status {done.returncode} of: {command}\n{done.stdout}{done.stderr}"
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    curve = [line["loss"] for line in lines if line["event"] == "train"]
    assert len(curve) == arguments.steps, curve
    shutil.rmtree(run)  # half a gigabyte of weights
    return curve


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--sequence-len", type=int, default=64)
    parser.add_argument("--short", action="store_true")
    arguments = parser.parse_args()
    folder = arguments.work.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    recipe = write_recipe(arguments, folder)

    one = losses(arguments, recipe, ["parallel.data=1"], folder / "one")
    # A curve that does not fall would agree with anything.
    fall = statistics.mean(one[:5]) - statistics.mean(one[-5:])
    failed = fall < 0.2
    print(f"one rank: {one[0]:.6f} to {one[-1]:.6f}, which falls by {fall:.3f}", flush=True)
    for name in SHORT if arguments.short else MESHES:
        mesh = MESHES[name]
        curve = losses(arguments, recipe, mesh, folder / "mesh")
        worst = max(abs(a - b) for a, b in zip(curve, one))
        failed = failed or worst > TOLERANCE
        print(f"{name}: largest difference {worst:.1e}, at most {TOLERANCE:.0e} is right", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
