#!/usr/bin/env python3
"""ftune plan: what a rank needs in all is what its process then has of anonymous and shared memory.

    test_plan_resident.py --ftune BINARY --work FOLDER [NAMES...]
"""

import json
import subprocess
import sys
import time

from cli_case import random_model, run_tests

MB = 1_000_000
ALLOWED = 32 * MB  # a rank
SIZES = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 12,
         "num_key_value_heads": 4, "head_dim": 64}  # 153 MB in fp32
FEW = {
    "saving": ["checkpoint.save_steps=1"],
    "bf16": ["precision.weights=bf16"],
    "qlora": ["adapter.lora_r=8", "adapter.kind=qlora"],
    "recomputed": ["memory.activation_checkpointing=full"],
    "zero 3": ["parallel.data=2", "parallel.zero=3"],
}
MORE = {
    "full": [],
    "lora": ["adapter.lora_r=8"],
    "evaluated": ["data.eval=[short.txt]", "train.eval_steps=1"],
    "microbatches": ["train.micro_batch_size=2"],
    "states on disk": ["memory.offload=optimizer"],
    "threads": ["launch.threads=2"],
    "zero 0": ["parallel.data=2"],
    "zero 1": ["parallel.data=2", "parallel.zero=1"],
    "zero 2": ["parallel.data=2", "parallel.zero=2"],
    "tensor": ["parallel.tensor=2"],
    "tensor, saving": ["parallel.tensor=2", "checkpoint.save_steps=1"],
}


def write_recipe(case):
    random_model(case.folder / "model", **SIZES)
    (case.folder / "long.txt").write_text("the engine trains a model on text " * 5000)
    (case.folder / "short.txt").write_text("the engine trains a model on text " * 50)
    # No copy for saves but where it is asked for.
    (case.folder / "recipe.yaml").write_text(
        "model: {path: model}\ndata: {train: long.txt, sequence_len: 256}\nlaunch: {threads: 1}\n"
        "train: {global_batch_size: 2, max_steps: 2}\ncheckpoint: {save_steps: 2, async: false}\n")


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def resident(pid):
    """→ bytes of anonymous and shared memory, of what several processes share its part."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(1024 * int(line.split()[1]) for line in file if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    except OSError:  # it has ended
        return 0


def highest(case, words, ranks):
    """→ the most that a run's ranks had together. What the allocator has had stays resident, so that looking now and then is enough."""
    command = [case.ftune, "train", "recipe.yaml", "output_dir=out", "--force", *words]
    most = 0
    with subprocess.Popen(command, cwd=case.folder, env=case.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        while run.poll() is None:
            most = max(most, sum(resident(pid) for pid in (children_of(run.pid) if ranks > 1 else [run.pid])))
            time.sleep(0.02)
        assert run.returncode == 0, run.stderr.read()
    return most


def compare(case, recipes):
    write_recipe(case)
    for name, words in recipes.items():
        words = [*words, "checkpoint.async=true"] if "saving" in name else words
        done = case.run("plan", "recipe.yaml", *words, "--json")
        assert done.returncode == 0, (name, done.stderr)
        roles = json.loads(done.stdout)["roles"]
        needs, ranks = sum(role["ranks"] * role["needs"] for role in roles), sum(role["ranks"] for role in roles)
        has = highest(case, words, ranks)
        print(f"{name}: planned {needs / MB:.0f} MB, had {has / MB:.0f} MB", flush=True)
        assert abs(has - needs) < ranks * ALLOWED, (name, has, roles)


def test_few(case):
    compare(case, FEW)


def test_more(case):
    compare(case, MORE)


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
