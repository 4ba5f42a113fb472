#!/usr/bin/env python3
"""Meshes over several hosts, which network namespaces play, over gloo between them and shared memory inside of each,
compared with one rank as `ftune verify` does.

    test_verify_hosts.py --ftune BINARY --work FOLDER [NAME …]

Exit status 77, which CTest counts as skipped, where there can be no namespaces.
"""

import json
import sys

import netns
from cli_case import run_tests
from test_hosts import Run
from verify_recipe import ADAPTER, parity_recipe

STEPS = 3

# model → points: the ranks of each host, the mesh, and what else the recipe has
POINTS = {
    "llama": [([1, 1], "data=2", []),
              ([1, 1], "data=2,zero=3", ["train.micro_batch_size=1"]),
              ([2, 2], "tensor=2,data=2,zero=2,sequence_parallel=true", []),
              ([2, 2], "data=4,zero=3,shard_size=2", [ADAPTER])],
    "qwen3": [([1, 1, 1], "data=3,zero=1", ["train.micro_batch_size=2"]),
              ([1, 1], "tensor=2,sequence_parallel=true", []),
              ([2, 2], "tensor=2,data=2,zero=3", [ADAPTER])],
    "gemma2": [([2, 1], "data=3,zero=2", [ADAPTER, "train.micro_batch_size=1"]),
               ([2, 2], "tensor=4", []),
               ([2, 2], "data=4,zero=1", ["train.micro_batch_size=3"])],
    "gpt2": [([2, 2, 2], "tensor=2,data=3,zero=3", []),
             ([1, 1], "tensor=2", [ADAPTER])],
}


def reference(case, recipe, name, overrides):
    """What one rank does, in a folder that all hosts see."""
    folder = case.folder / name
    if not folder.exists():
        folder.mkdir()
        done = case.run("train", recipe, *overrides, "parallel.data=1", f"output_dir=one-{name}", "--quiet",
                        f"--verify-reference={folder.resolve()}", f"--verify-steps={STEPS}")
        assert done.returncode == 0, done.stdout + done.stderr
    return folder.resolve()


def check(case, hosts, recipe, layout, mesh, overrides):
    """All ranks say the same: that they do what one rank does."""
    adapter = ADAPTER in overrides
    folder = reference(case, recipe, "reference-lora" if adapter else "reference", [ADAPTER] if adapter else [])
    run = Run(case, hosts, layout, recipe, *overrides, *(f"parallel.{part}" for part in mesh.split(",")),
              "output_dir=mesh", "--force", "--json", "--quiet", f"--verify-reference={folder}", "--verify-steps=0")
    ends = [(*rank.communicate(timeout=120), rank.returncode) for rank in run.ranks.values()]
    what = f"{recipe}, {layout} ranks on each host, {mesh} {overrides}"
    assert all(code == 0 for _, _, code in ends), f"{what}: {ends}"
    answers = [json.loads(out) for out, _, _ in ends]
    assert all(answer == answers[0] for answer in answers), f"{what}: {answers}"
    assert answers[0]["ok"] is True and answers[0]["worst"]["error"] > 0, f"{what}: {answers[0]}"
    print(f"ok {what}: {answers[0]['worst']['name']} is off by {answers[0]['worst']['error']:.1e}", flush=True)


def check_model(case, name):
    points = POINTS[name]
    recipe = parity_recipe(case, name)
    with netns.Hosts(max(len(layout) for layout, _, _ in points)) as hosts:
        for layout, mesh, overrides in points:
            check(case, hosts, recipe, layout, mesh, overrides)


def test_llama(case):
    check_model(case, "llama")


def test_qwen3(case):
    check_model(case, "qwen3")


def test_gemma2(case):
    check_model(case, "gemma2")


def test_gpt2(case):
    check_model(case, "gpt2")


if __name__ == "__main__":
    if (missing := netns.unavailable()) is not None:
        print(f"skipped: {missing}")
        sys.exit(77)
    sys.exit(run_tests(globals(), __doc__))
