"""What a training thread waits for its data, as a share of a step, from the run's own log.

    tests/bench/data_wait.py --ftune build/release/ftune --work build/bench MODEL [MODEL …]

Trains each model (a folder or a .gguf file) on the lines of a book, packed, and prints medians over the steps
but for the first, which waits for the first batch; and that first one.
"""

import argparse
import json
import shutil
import statistics
import subprocess
from pathlib import Path

MATERIAL = Path(__file__).resolve().parents[3] / "shared" / "material"
BOOK = MATERIAL / "datasets" / "text" / "botchan.txt"


def run(ftune, folder, model, arguments):
    folder.mkdir(parents=True)
    lines = [line for line in BOOK.read_text().splitlines() if len(line) > 20]
    (folder / "book.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    recipe = {"model": {"path": str(model)}, "output_dir": str(folder / "out"),
              "data": {"train": str(folder / "book.jsonl"), "sequence_len": arguments.sequence_len},
              "train": {"global_batch_size": 4, "max_steps": arguments.steps, "num_epochs": 1000}}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    subprocess.run([ftune, "train", folder / "recipe.yaml", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    events = [json.loads(line) for line in (folder / "out" / "log.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == "train"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--sequence-len", type=int, default=256)
    parser.add_argument("models", nargs="+", type=Path)
    arguments = parser.parse_args()
    work = arguments.work / "data_wait"
    shutil.rmtree(work, ignore_errors=True)
    for number, model in enumerate(arguments.models):
        steps = run(arguments.ftune.resolve(), work / str(number), model.resolve(), arguments)
        rest = steps[1:]
        wait = statistics.median(step["data_wait_seconds"] for step in rest)
        step = statistics.median(step["step_seconds"] for step in rest)
        total = sum(s["data_wait_seconds"] for s in rest) / sum(s["step_seconds"] for s in rest)
        print(f"{model.name}: {step:.4f} s a step, {1e6 * wait:.1f} µs of it waiting ({100 * wait / step:.4f} %; "
              f"{100 * total:.4f} % of all steps together); first wait {1000 * steps[0]['data_wait_seconds']:.2f} ms")


if __name__ == "__main__":
    main()
