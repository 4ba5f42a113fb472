#!/usr/bin/env python3
"""ftune beside PyTorch: the same model, batches and machine, by turns in one run. Prints ratios. See run.sh.

Of PyTorch's settings (settings.py) the fastest one in fp32 and the fastest one in bf16 are found in a trial
first; both then run by turns with ftune. fp32 is what ftune computes in.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import measure
from report import print_report
from settings import LORA_R, SEQUENCE_LEN, candidates, cases_of, recipe_of

HERE = Path(__file__).resolve().parent
TRIAL_STEPS = 3


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.work = arguments.work.resolve()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.count = 0

    def _folder(self, name):
        self.count += 1
        folder = self.work / f"{self.count:03}-{name}"
        folder.mkdir()
        return folder

    def fma_peak(self):
        """Operations a second that all cores reach together now; None where nobody measures it."""
        if self.arguments.kernels_bench is None:
            return None
        # The second argument picks kernels by name: here none. The peak is printed always.
        command = [self.arguments.kernels_bench, str(os.cpu_count()), "peak only"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(re.search(r"fma_peak_gflops\s+([0-9.]+)", text).group(1)) * 1e9

    def prepare(self, case):
        """The case's recipe, and the batches that ftune will train on. → (recipe, batches)"""
        folder = self._folder(f"{case.name}-batches")
        recipe = recipe_of(case, self.arguments.model, self.arguments.steps, folder)
        done = subprocess.run([self.arguments.ftune, "inspect", recipe, "--batches", str(self.arguments.steps),
                               "--json"], check=True, capture_output=True, text=True)
        (folder / "batches.json").write_text(done.stdout)
        return recipe, folder / "batches.json"

    def run_ftune(self, case, recipe):
        folder = self._folder(f"{case.name}-ftune")
        command = [self.arguments.ftune, "train", recipe, f"output_dir={folder / 'run'}"]
        measured = measure.run(command, folder / "run" / "log.jsonl", output=folder / "output.txt")
        shutil.rmtree(folder / "run" / "model", ignore_errors=True)  # half a gigabyte each
        return measured

    def run_pytorch(self, case, setting, batches, steps):
        folder = self._folder(f"{case.name}-pytorch-{setting.name}")
        command = [sys.executable, "-W", "ignore", HERE / "bench_pytorch.py", "--model", self.arguments.model,
                   "--batches", batches, "--mode", case.mode, "--steps", steps, "--lora-r", LORA_R,
                   "--learning-rate", case.learning_rate, "--log", folder / "log.jsonl", *setting.flags]
        return measure.run(command, folder / "log.jsonl", output=folder / "output.txt")

    def trial(self, case, batches):
        """→ the fastest setting of each dtype, and what every setting reached."""
        reached = {}
        for setting in candidates(case.packs):
            if not re.search(self.arguments.settings, setting.name):
                continue
            try:
                reached[setting] = self.run_pytorch(case, setting, batches, TRIAL_STEPS)
            except measure.RunFailed as failure:
                print(f"  {setting.name}: {failure}", file=sys.stderr)
                continue
            print(f"  {setting.name}: {reached[setting].tokens_per_second:.1f} tokens/s", file=sys.stderr)
        best = {}
        for setting, measured in reached.items():
            if setting.dtype not in best or (
                    measured.tokens_per_second > reached[best[setting.dtype]].tokens_per_second):
                best[setting.dtype] = setting
        return best, reached

    def run_case(self, case):
        print(f"{case.name}: PyTorch's settings, {TRIAL_STEPS} steps each", file=sys.stderr)
        recipe, batches = self.prepare(case)
        best, reached = self.trial(case, batches)
        rounds = {"ftune": []} | {dtype: [] for dtype in best}
        peaks = []
        for i in range(self.arguments.rounds):
            print(f"{case.name}: round {i + 1} of {self.arguments.rounds}", file=sys.stderr)
            peaks.append(self.fma_peak())
            rounds["ftune"].append(self.run_ftune(case, recipe))
            for dtype, setting in best.items():
                rounds[dtype].append(self.run_pytorch(case, setting, batches, self.arguments.steps))
        self.check_same_work(case, rounds)
        return summarise(case, best, reached, rounds, [p for p in peaks if p is not None])

    def check_same_work(self, case, rounds):
        """In fp32 both begin with the same loss: else they do not compute the same."""
        ours, theirs = rounds["ftune"][0].losses[0], rounds["fp32"][0].losses[0]
        if abs(ours - theirs) > 1e-3:
            raise SystemExit(f"{case.name}: the first loss is {ours} in ftune and {theirs} in PyTorch")


def summarise(case, best, reached, rounds, peaks):
    def of(measurements):
        middle = lambda key: statistics.median(getattr(m, key) for m in measurements)
        speeds = [m.tokens_per_second for m in measurements]
        return {"tokens_per_second": middle("tokens_per_second"), "slowest": min(speeds),
                "fastest": max(speeds), "peak_bytes": middle("peak_bytes"),
                "first_step_seconds": middle("first_step_seconds")}

    result = {"case": case.name, "mode": case.mode, "packs": case.packs, "data": case.data,
              "sequence_len": SEQUENCE_LEN, "ftune": of(rounds["ftune"]), "pytorch": {}, "fma_peak": None}
    for dtype, setting in best.items():
        result["pytorch"][dtype] = {"setting": setting.name, **of(rounds[dtype])}
    result["trial_tokens_per_second"] = {s.name: m.tokens_per_second for s, m in reached.items()}
    result["trial_first_step_seconds"] = {s.name: m.first_step_seconds for s, m in reached.items()}
    flops = statistics.median(m.flops_per_second for m in rounds["ftune"])
    result["ftune"]["flops_per_second"] = flops
    if peaks:
        result["fma_peak"] = statistics.median(peaks)
        result["ftune"]["share_of_peak"] = flops / result["fma_peak"]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a Hugging Face directory in fp32")
    parser.add_argument("--work", type=Path, required=True, help="a scratch folder; emptied")
    parser.add_argument("--kernels-bench", type=Path, help="prints fma_peak_gflops")
    parser.add_argument("--modes", default="lora,full")
    parser.add_argument("--packs", default="1,4", help="packs an optimizer step")
    parser.add_argument("--data", default="long,short", help="long: one sample fills a pack; short: many do")
    parser.add_argument("--settings", default="", help="a regular expression: PyTorch's settings to try")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--json", type=Path, help="where the results go")
    arguments = parser.parse_args()
    for name in ("ftune", "model", "kernels_bench"):
        if (path := getattr(arguments, name)) is not None:
            setattr(arguments, name, path.resolve())

    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"bench: the machine is not idle (load {load:.1f}): the figures will be noisy", file=sys.stderr)
    bench = Bench(arguments)
    results = []
    for case in cases_of(arguments.modes.split(","), arguments.data.split(","), arguments.packs.split(",")):
        results.append(bench.run_case(case))
        if arguments.json:
            arguments.json.write_text(json.dumps({"load": load, "results": results}, indent=2) + "\n")
    print_report(results)


if __name__ == "__main__":
    main()
