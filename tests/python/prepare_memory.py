#!/usr/bin/env python3
"""How much memory and time `ftune data` takes for data of a given size.

    tests/python/prepare_memory.py --ftune build/release/ftune --work FOLDER [--megabytes 2000] [--model MODEL]

Writes JSON Lines of text, prepares them, prints the figures as JSON; fails where more than --limit MB were resident.
Standard library only.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

TINY = Path(__file__).resolve().parent.parent / "golden" / "models" / "tiny-chat"


def write_texts(path, megabytes, seed=1):
    """Rows of about two kilobytes, no two alike, of a vocabulary of 20,000 made-up words."""
    rng = random.Random(seed)
    syllables = [c + v for c in "bcdfghklmnprstvw" for v in ("a", "e", "i", "o", "u", "an", "er", "in", "on", "y")]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(20000)]
    sentences = [" ".join(rng.choices(words, k=12)).capitalize() + "." for _ in range(5000)]
    left, row = megabytes * 1000000, 0
    with open(path, "w") as out:
        while left > 0:
            lines = []
            for _ in range(1000):
                lines.append(json.dumps({"text": f"{row}: " + " ".join(rng.choices(sentences, k=24))}) + "\n")
                row += 1
            block = "".join(lines)
            out.write(block)
            left -= len(block)
    return path


def measure(ftune, folder, megabytes, model=TINY, environment=None):
    """Prepares fresh data of that size; → what `ftune data --json` says, with seconds and resident_mb (VmHWM)."""
    folder.mkdir(parents=True, exist_ok=True)
    data = write_texts(folder / f"texts-{megabytes}.jsonl", megabytes)
    recipe = folder / "memory.yaml"
    recipe.write_text(f"model: {{path: {Path(model).resolve()}}}\n"
                      f"data: {{train: {data.resolve()}, sequence_len: 512, prepared_path: {folder.resolve()}/stores}}\n"
                      "train: {global_batch_size: 16}\n")
    start = time.time()
    with open(folder / "answer.json", "w") as answer:
        process = subprocess.Popen([str(ftune), "data", str(recipe), "--json"], stdout=answer, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    result = json.loads((folder / "answer.json").read_text())
    assert os.waitstatus_to_exitcode(status) == 0, result
    cpu = usage.ru_utime + usage.ru_stime
    result.update(megabytes=round(data.stat().st_size / 1e6), seconds=round(time.time() - start, 1),
                  cpu_seconds=round(cpu, 1), resident_mb=round(usage.ru_maxrss * 1024 / 1e6),
                  rows_per_cpu_second=round(result["rows"] / cpu), tokens_per_cpu_second=round(result["tokens"] / cpu))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--model", type=Path, default=TINY)
    parser.add_argument("--limit", type=int, default=500, help="megabytes that may be resident")
    arguments = parser.parse_args()
    result = measure(arguments.ftune.resolve(), arguments.work, arguments.megabytes, arguments.model)
    print(json.dumps(result, indent=1))
    return 0 if result["resident_mb"] < arguments.limit else 1


if __name__ == "__main__":
    sys.exit(main())
