#!/usr/bin/env python3
"""Four files of a model downloaded by ftune and by huggingface_hub, by turns, from a server on this machine.

Prints each one's seconds, CPU seconds and peak resident memory, and the ratios. Both begin with an empty cache and fetch
four files at once; ftune checks their hashes.
"""

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import hub_server

MODEL = "acme/big"
PYTHON = f"from huggingface_hub import snapshot_download; snapshot_download({MODEL!r}, max_workers=4)"
SHARDS = 4


class Content(bytes):
    """Hashed by what it is called: the server asks for its digests again and again."""

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self is other


def resident(process):
    """Its peak so far in MiB. (What wait4 says counts this process, from which it was forked.)"""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return max((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), default=0.0)


def download(command, hub, size):
    """→ (seconds, CPU seconds, peak MiB)."""
    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        process = subprocess.Popen(command, env={**os.environ, **hub.environment(cache)}, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        peak = 0.0
        while True:
            done, _, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            peak = max(peak, resident(process.pid))
            time.sleep(0.01)
        process.returncode = 0  # ftune's is not: there is no model in these files
        seconds = time.perf_counter() - begin
        blobs = list(Path(cache).glob("hub/models--*/blobs/*"))
        came = sum(path.stat().st_size for path in blobs if not path.name.endswith(".incomplete"))
        if came < size:
            sys.exit(f"hub_bench: only {came} of {size} bytes came by: {' '.join(map(str, command))}")
    return seconds, usage.ru_utime + usage.ru_stime, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    hub_server.etag = functools.cache(hub_server.etag)
    hub_server.git_id = functools.cache(hub_server.git_id)
    files = {}
    for i in range(SHARDS):
        name = f"model-{i + 1:05}-of-{SHARDS:05}.safetensors"
        files[name] = Content(os.urandom((arguments.mebibytes << 20) // SHARDS))
        files[name].name = name
    size = sum(map(len, files.values()))
    hub = hub_server.Hub()
    hub.add(MODEL, {**files, "config.json": b"{}", "model.safetensors.index.json": b"{ }"})
    for name, data in files.items():
        hub_server.etag(name, data), hub_server.git_id(data)
    commands = {"ftune": [arguments.ftune, "generate", MODEL, "--prompt", "x"], "huggingface_hub": [sys.executable, "-c", PYTHON]}
    results = {name: [] for name in commands}
    for _ in range(arguments.rounds):
        for name, command in commands.items():
            results[name].append(download(command, hub, size))
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in results.items()}
    for name, rows in results.items():
        seconds, cpu, memory = medians[name]
        spread = [row[0] for row in rows]
        print(f"{name:16} {seconds:.2f} s ({min(spread):.2f} to {max(spread):.2f}), {cpu:.2f} s of CPU, {memory:.0f} MiB")
    print("ftune / huggingface_hub:", ", ".join(f"{a / b:.2f}" for a, b in zip(*medians.values())))


if __name__ == "__main__":
    main()
