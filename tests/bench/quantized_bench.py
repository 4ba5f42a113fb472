#!/usr/bin/env python3
"""What a quantised base costs: LoRA steps of 512 tokens on an f32 base and on quantised ones, by turns.

One thread, and its CPU time outside of the kernel: (a run of many steps - a run of one) / the steps between, so that other
work on the machine matters less. Prints each form's seconds a step, its ratio to f32, and the weights' memory by the
ledger.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import read_log
from settings import Case, recipe_of

FORMS = ("none", "nf4", "fp4", "int8")


def cpu_seconds(ftune, recipe, form, steps, folder):
    """→ (CPU seconds of the whole process, MiB of weights)."""
    command = [ftune, "train", recipe, "--force", "--quiet", f"train.max_steps={steps}", "launch.threads=1",
               "precision.weights=fp32", f"adapter.quantize={form}"]
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"quantized_bench: exit status {process.returncode} of: {' '.join(map(str, command))}")
    return usage.ru_utime, read_log(folder / "run" / "log.jsonl")[-1]["memory"]["weights"] / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS, help="none, for f32, is always among them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    arguments = parser.parse_args()
    forms = ["none", *(form for form in arguments.forms if form != "none")]
    seconds = {form: [] for form in forms}
    memory = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        recipe = recipe_of(Case("lora", "long", 1), arguments.model, arguments.steps, folder)
        for _ in range(arguments.rounds):
            for form in forms:
                one, _ = cpu_seconds(arguments.ftune, recipe, form, 1, folder)
                many, memory[form] = cpu_seconds(arguments.ftune, recipe, form, 1 + arguments.steps, folder)
                seconds[form].append((many - one) / arguments.steps)
    base = statistics.median(seconds["none"])
    for form in forms:
        median = statistics.median(seconds[form])
        spread = ", ".join(f"{s:.3f}" for s in sorted(seconds[form]))
        print(f"{form:5} {median:.3f} s a step ({spread}), {median / base:.3f} of f32; weights {memory[form]:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
