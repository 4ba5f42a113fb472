#!/usr/bin/env python3
"""ftune's tokenizers beside the wheel's `encode_batch`, both with one thread, on the same texts, by turns.

    tests/bench/tokenizer_bench.py --tool build/release/tests/tokenize_lines [--megabytes 4] [--rounds 3]

A round is a new process of each, which goes over the texts twice: the first time its cache of words is empty. Seconds are
processor time, without reading the texts and the tokenizer. Needs the packages of third_party/requirements.txt and
../shared/material.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

PASSES = 2
SHORTEST = 200  # characters
WHEEL = """
import json, os, sys, time
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_str(open(sys.argv[1], encoding="utf-8").read())
tokenizer.no_truncation()
tokenizer.no_padding()
texts = [json.loads(line) for line in sys.stdin.buffer.read().split(b"\\n")[:-1]]
for _ in range(int(sys.argv[2])):
    start = time.process_time()
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    seconds = time.process_time() - start
    print(seconds, sum(len(encoding.ids) for encoding in encoded))
"""


def passes(command, texts):
    """Of each pass of one process: seconds and number of tokens."""
    environment = dict(os.environ, TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
    done = subprocess.run(command, input=texts, capture_output=True, env=environment)
    if done.returncode != 0:
        sys.exit(done.stderr.decode())
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    return [(float(seconds), int(tokens)) for seconds, tokens in lines]


def gather(real, size):
    """Real texts, none twice, in random order: messages and documents, not the names and numbers between them."""
    distinct = sorted({text for text in real if len(text) >= SHORTEST})
    random.Random(0).shuffle(distinct)
    texts, total = [], 0
    for text in distinct:
        if total >= size:
            break
        texts.append(text)
        total += len(text.encode())
    return texts, total


def compare(tool, name, ours_path, wheel_path, texts, size, rounds):
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(passes([tool, ours_path, str(PASSES)], texts))
        theirs.append(passes([sys.executable, "-c", WHEEL, wheel_path, str(PASSES)], texts))
    counts = {tokens for each in ours + theirs for _, tokens in each}
    assert len(counts) == 1, f"{name}: not the same tokens: {counts}"
    columns = []
    for index in range(PASSES):
        mine = statistics.median(each[index][0] for each in ours)
        wheel = statistics.median(each[index][0] for each in theirs)
        ratios = [b[index][0] / a[index][0] for a, b in zip(ours, theirs)]
        columns.append(f"{size / 1e6 / mine:7.2f} {size / 1e6 / wheel:7.2f}  {statistics.median(ratios):5.2f} "
                       f"({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"{name:<28} {counts.pop():>9}  " + "   ".join(columns), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("/tmp/tokenizer_bench"), help="for the wheel's files")
    parser.add_argument("names", nargs="*", help="some tokenizers only")
    arguments = parser.parse_args()
    from tokenizer_kinds import material
    from tokenizer_texts import real_texts
    arguments.work.mkdir(parents=True, exist_ok=True)
    texts, size = gather(real_texts(), arguments.megabytes * 1e6)
    lines = "".join(json.dumps(text) + "\n" for text in texts).encode()
    print(f"{len(texts)} texts, {size / 1e6:.1f} MB; MB/s of ftune and of the wheel, and ftune ÷ wheel: first pass, later")
    for name, (path, wheel) in material().items():
        if arguments.names and name not in arguments.names:
            continue
        wheel_path = arguments.work / "wheel.json"
        wheel_path.write_text(wheel)
        compare(arguments.tool, name, path, wheel_path, lines, size, arguments.rounds)


if __name__ == "__main__":
    main()
