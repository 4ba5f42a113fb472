"""Faults that are played on a cluster, each several times, at moments that are drawn; and the table of what became of them."""

import argparse
import random
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

COLUMNS = "| fault | times | first cause named | detected after (s) | trained again after (s) | weights equal |"


@dataclass(frozen=True)
class Outcome:
    """Of one fault, when everything was as it should be. Times are in seconds since the fault, and None where there is none."""

    said: str  # the cause as it was named, or what became of the run
    detected: float | None = None  # all ranks have ended that could be told to
    trained: float | None = None  # a step of the next attempt
    weights: bool = True  # there were some at the end, and they are those of an undisturbed run


def draw_step(draw, steps):
    """When a run of so many steps is disturbed."""
    return draw.randrange(steps // 20, 4 * steps // 5)


def times_of(run, begun):
    """→ what was said of the first failure of a run that goes on by itself, when its ranks had ended, and when it trained again."""
    log = run.log()
    restart = next(line for line in log if line["event"] == "restart")
    trained = next(line for line in log if line["event"] == "train" and line["attempt"] >= restart["attempt"])
    # What became of a rank is the last that its file is told, when all have ended.
    ended = max(path.stat().st_mtime for path in run.rank_logs(restart["attempt"] - 1))
    return restart["cause"].partition("error: ")[2], ended - begun, trained["time"] - begun


def _span(values):
    shown = sorted({f"{value:.1f}" for value in values if value is not None}, key=float)
    return "–".join([shown[0], shown[-1]] if len(shown) > 1 else shown)


def _row(name, played, outcomes):
    times = str(played) if len(outcomes) == played else f"{len(outcomes)} of {played}"
    said = outcomes[0].said.partition("; its log")[0].replace("|", "/") if outcomes else ""
    weights = sum(outcome.weights for outcome in outcomes)
    compared = "" if not weights else "yes" if weights == played else f"{weights} of {played}"
    spans = [_span([outcome.detected for outcome in outcomes]), _span([outcome.trained for outcome in outcomes])]
    return f"| {' | '.join([name, times, said, *spans, compared])} |"


def _update(path, script, order, rows):
    """Writes rows into the part of a document between the script's two marks; others that are there stay."""
    begin, end = f"<!-- {script} begins -->\n", f"<!-- {script} ends -->\n"
    before, _, rest = path.read_text().partition(begin)
    table, _, after = rest.partition(end)
    there = {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines()[2:]}
    there.update(rows)
    lines = [COLUMNS, "|---|---|---|---|---|---|", *(there[name] for name in order if name in there)]
    path.write_text(before + begin + "\n".join(lines) + "\n" + end + after)


def main(script, doc, names, open_stage, missing):
    """`open_stage(ftune, work, steps)` → what plays a fault, by its name and a random.Random, and gives its Outcome or an exception."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the first time; the next has the next")
    parser.add_argument("--steps", type=int, default=600, help="of each run: fewer on a slow machine")
    parser.add_argument("--table", type=Path, help="a document whose table has the results")
    parser.add_argument("names", nargs="*", metavar="FAULT", help="; ".join(names))
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"unknown: {', '.join(unknown)}")
    if missing:
        print(f"skipped: {missing}")
        return 77
    play = open_stage(arguments.ftune.resolve(), arguments.work, arguments.steps)
    outcomes = {name: [] for name in arguments.names or names}
    rows = {}
    failures = []
    for number in range(arguments.times):
        seed = arguments.seed + number
        for name, of_name in outcomes.items():
            print(f"{name}, seed {seed}: ", end="", flush=True)
            begun = time.monotonic()
            try:
                of_name.append(play(name, random.Random(f"{name} {seed}")))
                print(f"{of_name[-1]}, in {time.monotonic() - begun:.0f} s", flush=True)
            except Exception:
                failures.append(f"--times 1 --seed {seed} '{name}'")
                print(f"FAILED\n{traceback.format_exc()}", flush=True)
            rows[name] = _row(name, number + 1, of_name)
            if arguments.table:
                _update(arguments.table, script, names, rows)
    print("\n".join([COLUMNS, *rows.values()]))
    for failure in failures:
        print(f"to repeat what failed: {failure}")
    return 1 if failures else 0
