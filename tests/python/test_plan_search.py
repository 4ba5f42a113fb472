#!/usr/bin/env python3
"""ftune plan --search: the fastest way to run a recipe that fits.

    test_plan_search.py --ftune BINARY --work FOLDER [NAMES...]
"""

import json
import shutil
import sys

from cli_case import HERE, run_tests

MODELS = HERE.parent / "golden" / "models"
# Of so little memory that no rank of the model's recipe fits whole.
SMALL = """\
name: small
memory: {memory}
per_host: 4
runtime: 4KiB
fragmentation: 0
activations: f32
peak: {{f32: 1e9}}
memory_bandwidth: 1e9
call_seconds: 0
efficiency: {{product: 1, attention: 1, attention_backward: 1, stream: 1}}
in_host: {{bandwidth: 1e9, latency: 1e-6}}
network: {{bandwidth: 1e8, latency: 1e-5}}
"""


def prepared(case, memory="1GiB"):
    shutil.copytree(MODELS / "smollm2", case.folder / "model")
    (case.folder / "recipe.yaml").write_text(
        "model: {path: model}\ndata: {train: none.jsonl, sequence_len: 64}\nprecision: {weights: fp32}\n"
        "train: {global_batch_size: 16}\n")
    (case.folder / "small.yaml").write_text(SMALL.format(memory=memory))


def searched(case, *words, status=0):
    done = case.run("plan", "recipe.yaml", "--search", *words, "--json")
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


def test_order(case):
    """What fits, the fastest first; each is what a plan of that recipe says."""
    prepared(case)
    result = searched(case, "--on", "2x4xsmall.yaml", "--write", "best.yaml")
    found = result["found"]
    assert result["fits"] and 1 < len(found) <= 10 <= result["planned"], result
    seconds = [plan["step_seconds"] for plan in found]
    assert seconds == sorted(seconds) and all(plan["needs"] <= plan["capacity"] for plan in found), found
    assert result["plan"]["fits"] and abs(result["plan"]["step_seconds"] / seconds[0] - 1) < 0.02, (result["plan"], found[0])
    best = json.loads(case.run("plan", "best.yaml", "--on", "2x4xsmall.yaml", "--json").stdout)
    assert best["step_seconds"] == result["plan"]["step_seconds"] and best["roles"] == result["plan"]["roles"], (best, result["plan"])
    # The same from elsewhere, and its global batch is that of the recipe.
    (case.folder / "elsewhere").mkdir()
    (case.folder / "best.yaml").rename(case.folder / "elsewhere" / "best.yaml")
    done = case.run("plan", "elsewhere/best.yaml", "--on", "2x4xsmall.yaml", "train.global_batch_size=16", "--json")
    assert json.loads(done.stdout)["roles"] == best["roles"], done


def test_hosts(case):
    """More hosts are tried; over the slow network they may not be worth it, but all are there."""
    prepared(case)
    one, more = searched(case, "--on", "1x4xsmall.yaml"), searched(case, "--on", "1x4xsmall.yaml", "--max-hosts", "4")
    assert {plan["hosts"] for plan in one["found"]} == {1} and more["planned"] > 2 * one["planned"], (one, more)
    assert more["found"][0]["step_seconds"] <= one["found"][0]["step_seconds"], (one["found"][0], more["found"][0])


def test_room(case):
    """Less memory: what is found needs less and takes no less time; none at all is said, with what comes closest."""
    prepared(case)
    rich = searched(case, "--on", "1x4xsmall.yaml")["found"][0]
    tight = max(int(rich["needs"] * 0.6), 1)
    (case.folder / "small.yaml").write_text(SMALL.format(memory=tight))
    poor = searched(case, "--on", "1x4xsmall.yaml")["found"][0]
    assert poor["needs"] <= tight < rich["needs"] and poor["step_seconds"] >= rich["step_seconds"], (rich, poor)
    (case.folder / "small.yaml").write_text(SMALL.format(memory="1KiB"))
    none = searched(case, "--on", "1x4xsmall.yaml", status=3)
    assert not none["fits"] and not none["found"] and none["others"], none
    assert all(plan["needs"] > plan["capacity"] for plan in none["others"]), none
    lacking = [plan["needs"] for plan in none["others"]]
    assert lacking == sorted(lacking), lacking


def test_words(case):
    prepared(case)
    done = case.run("plan", "recipe.yaml", "--search", "--on", "1x4xsmall.yaml")
    for part in ("plans were made", "s a step", "tokens/s", "data 4", "the first of them, whole: ", "the recipe fits"):
        assert part in done.stdout, (part, done.stdout)


def test_wrong_input(case):
    prepared(case)
    case.fails(2, "plan", "recipe.yaml", "--search", "--on", "1x4xnothing", says=["nothing"])
    case.fails(2, "plan", "recipe.yaml", "--on", "1x4xsmall.yaml", "--write", "x.yaml", says=["--search"])
    case.fails(2, "plan", "recipe.yaml", "--search", "--on", "1x4xsmall.yaml", "--max-hosts", "0", says=["--max-hosts"])
    case.fails(2, "plan", "recipe.yaml", "--search", "--on", "1x4xsmall.yaml", "--schedule", "x.svg", says=["--schedule"])
    done = case.run("plan", "recipe.yaml", "--search", "--on", "1x4xsmall.yaml", "--write", "nowhere/best.yaml")
    assert done.returncode != 0 and "nowhere" in done.stderr and not done.stderr.startswith("terminate"), done


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
