#!/usr/bin/env python3
"""ftune bench: what it measures of this machine, and that plans are made with it.

    test_bench.py --ftune BINARY --work FOLDER [NAMES...]
"""

import json
import platform
import shutil
import sys

from cli_case import run_tests

OPS = ["product", "attention", "attention_backward", "norm", "rope", "gate", "loss", "embedding", "update", "copy"]
RECIPE = "launch: {threads: 1}\n"


def entry_of(case):
    return case.folder.resolve() / "cache" / "ftune" / "devices" / f"{platform.node()}-1.yaml"


def planned(case, *words):
    done = case.run("plan", "recipe.yaml", *words, "--json")
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


def test_measures(case):
    """All kinds of ops and links; the entry is read where plans look for it, and as a file of a user's own."""
    case.recipe(RECIPE)
    unknown = case.run("plan", "recipe.yaml")
    assert unknown.returncode == 0 and "`ftune bench`" in unknown.stdout and "tokens/s" not in unknown.stdout, unknown
    done = case.run("bench", "--threads", 1, "--json")
    assert done.returncode == 0, done
    answer = json.loads(done.stdout)
    assert answer["exit"] == 0 and answer["file"] == str(entry_of(case)), answer
    device = answer["device"]
    assert device["name"] == f"{platform.node()}-1" and device["memory"] > 0 and device["runtime"] > 1 << 20, device
    assert list(device["rates"]) == OPS, device
    for op, rate in device["rates"].items():
        assert 0 < rate["seconds"] < 1 and (rate["flops"] if "attention" in op else rate["bytes"]) > 1e6, (op, rate)
    assert {"f32", "bf16", "f16", "nf4", "q4_k"} <= set(device["products"]), device
    for dtype, rates in device["products"].items():
        sizes = [rate["smallest"] for rate in rates]
        assert sizes == sorted(set(sizes)) and all(rate["flops"] > 1e6 for rate in rates), (dtype, rates)
        assert device["peak"][dtype] == max(rate["flops"] for rate in rates), (dtype, rates)
    for link in ("in_host", "network", "disk"):
        assert 0 < device[link]["latency"] < 1 and device[link]["bandwidth"] > 1e6, device

    plan = planned(case)
    assert plan["on"] == {"hosts": 1, "per_host": 1, "device": device["name"]} and plan["step_seconds"] > 0, plan
    assert plan["roles"][0]["runtime"] == device["runtime"], plan
    assert "tokens/s" in case.run("plan", "recipe.yaml").stdout
    shutil.copy(entry_of(case), case.folder / "mine.yaml")
    elsewhere = planned(case, "--on", "1x1xmine.yaml")
    for key in ("step_seconds", "on", "op_seconds"):
        assert elsewhere[key] == plan[key], (key, elsewhere, plan)
    two = planned(case, "parallel.data=2")
    assert two["on"]["per_host"] == 2 and two["roles"][0]["capacity"] <= plan["roles"][0]["capacity"] // 2 + 1, two
    # What is measured of ranks with one thread says nothing of those with more.
    assert "step_seconds" not in planned(case, "launch.threads=2")


def test_bad_input(case):
    case.recipe(RECIPE)
    for threads in ("0", "-1", "100000"):
        case.fails(2, "bench", f"--threads={threads}", says=["--threads", f"found {threads}", "a number from 1 to"])
    assert case.run("bench", "--threads", "some").returncode == 2
    case.fails(4, "bench", "--threads=1", "--disk=absent", says=["absent", "No such file"])
    entry_of(case).parent.mkdir(parents=True)
    entry_of(case).write_text("name: broken\nmemory: 1GB\nper_hots: 2\n")
    case.fails(2, "plan", "recipe.yaml", says=[f"{entry_of(case)}:3:", "per_hots: unknown key", "did you mean per_host?"])


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
