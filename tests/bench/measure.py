"""Runs one program to its end and says what it took: time to the first step, tokens a second, peak memory."""

import json
import os
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


class RunFailed(Exception):
    pass


@dataclass(frozen=True)
class Measurement:
    tokens_per_second: float  # median over the steps after the first
    peak_bytes: int
    first_step_seconds: float  # from the start of the process to the end of the first step
    losses: list
    flops_per_second: float | None  # ftune says it, PyTorch does not


def read_log(path):
    """The train lines of a log.jsonl; of a step that is there twice, the last."""
    steps = {}
    for text in Path(path).read_text().splitlines():
        line = json.loads(text)
        if line["event"] == "train":
            steps[line["step"]] = line
    return [steps[s] for s in sorted(steps)]


def run(command, log, environment=None, output=None):
    """`log` is the log.jsonl that the command writes; `output` keeps what it prints."""
    with open(output or os.devnull, "w") as sink:
        start = time.time()
        process = subprocess.Popen([str(c) for c in command], stdout=sink, stderr=subprocess.STDOUT,
                                   env={**os.environ, **(environment or {})})
        # wait4, for the peak of this one process. Linux counts it in KiB.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RunFailed(f"exit status {process.returncode} of: {' '.join(map(str, command))} (see {output})")
    lines = read_log(log)
    if len(lines) < 2:
        raise RunFailed(f"{log}: {len(lines)} steps, at least 2 are needed")
    later = lines[1:]
    flops = [line["flops_per_second"] for line in later if "flops_per_second" in line]
    return Measurement(
        tokens_per_second=statistics.median(line["tokens"] / line["step_seconds"] for line in later),
        peak_bytes=usage.ru_maxrss * 1024,
        first_step_seconds=lines[0]["time"] - start,
        losses=[line["loss"] for line in lines],
        flops_per_second=statistics.median(flops) if flops else None)
