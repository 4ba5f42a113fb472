#!/usr/bin/env python3
"""ftune plan --on: a recipe on devices that are not here, built in or of a user's own.

    test_devices.py --ftune BINARY --work FOLDER [NAMES...]
"""

import json
import sys
from pathlib import Path

from cli_case import run_tests

CONFIG = Path(__file__).resolve().parents[3] / "shared" / "material" / "model_configs" / "hf_style" / "llama3_1_8b.config.json"
GIB = 1 << 30
MINE = """name: mine
memory: 16GiB
per_host: 4
runtime: 1GiB
fragmentation: 0.1
activations: bf16
peak: {f32: 50e12, bf16: 100e12}
memory_bandwidth: 1e12
efficiency: {product: 0.8, attention: 0.5, attention_backward: 0.4, stream: 0.9}
in_host: {bandwidth: 20e9, latency: 1e-5}
network: {bandwidth: 3e9, latency: 2e-5}
"""
LAUNCH = "launch: {hosts: [a, {host: b, slots: 3}], ranks_per_host: 2, kind: ssh, device: cpu, hostfile: null}\n"


def on(case, target, *words, recipe="recipe.yaml"):
    done = case.run("plan", recipe, *words, "--on", target, "--json")
    assert done.returncode in (0, 3), (target, words, done.stdout, done.stderr)
    plan = json.loads(done.stdout)
    assert plan["exit"] == done.returncode == (0 if plan["fits"] else 3), plan
    return plan


def test_mesh(case):
    """The devices are what the mesh is resolved for, whatever the recipe says of hosts."""
    for name, launch in {"recipe.yaml": "", "hosts.yaml": LAUNCH}.items():
        case.recipe(launch, name=name)
        for target, ranks in {"1x1xH200": 1, "1x2xa100-80g": 2, "2X2XA100-40G": 4}.items():
            plan = on(case, target, "train.global_batch_size=8", recipe=name)
            assert sum(role["ranks"] for role in plan["roles"]) == ranks, plan
            assert plan["on"]["hosts"] * plan["on"]["per_host"] == ranks, plan
    assert plan["on"]["device"] == "A100-40G", plan
    error = case.fails(2, "plan", "recipe.yaml", "parallel.data=3", "--on", "2x2xH200",
                       says=["--on", "4 ranks on 2 hosts", "data 3 = 3 ranks"])
    assert error["file"] == "command line", error


def test_memory(case):
    """Of bf16 weights and activations, beside what a device needs itself; of an entry that is a user's own."""
    (case.folder / "mine.yaml").write_text(MINE)
    case.recipe(adapter=False)
    here = json.loads(case.run("plan", "recipe.yaml", "--json").stdout)["roles"][0]
    assert here["runtime"] > 0 == here["fragmentation"] and here["needs"] == here["peak"] + here["runtime"], here
    role = on(case, "1x1xmine.yaml")["roles"][0]
    assert role["capacity"] == 16 * GIB and role["runtime"] == GIB, role
    assert role["peak"] == sum(role["memory"].values()) and role["fragmentation"] == int(0.1 * role["peak"]), role
    assert role["needs"] == role["peak"] + role["runtime"] + role["fragmentation"], role
    assert role["memory"]["weights"] < 0.6 * here["memory"]["weights"], (role, here)
    assert role["memory"]["activations"] < 0.6 * here["memory"]["activations"], (role, here)
    full = on(case, "1x1xmine.yaml", "precision.weights=fp32")["roles"][0]["memory"]
    assert full["weights"] == here["memory"]["weights"] and full["activations"] < 0.6 * here["memory"]["activations"], full
    # What does not fit for the sake of the device's own needs alone.
    tight = MINE.replace("16GiB", f"{GIB + role['peak']}")
    (case.folder / "tight.yaml").write_text(tight)
    assert not on(case, "1x1xtight.yaml")["fits"]
    (case.folder / "loose.yaml").write_text(MINE.replace("16GiB", f"{role['needs']}"))
    assert on(case, "1x1xloose.yaml")["fits"]
    # Ranks on a CPU share their host's memory.
    (case.folder / "cpu.yaml").write_text(MINE + "cpu: true\n")
    assert on(case, "1x2xcpu.yaml", "train.global_batch_size=2")["roles"][0]["capacity"] == 32 * GIB


def test_disk(case):
    """The optimizer's states are read and written once a step, by all ranks of a host at once; ops and what is nearer hide some of it."""
    case.recipe(adapter=False)

    def with_disk(bandwidth, *words, target="1x1"):
        disk = f"disk: {{bandwidth: {bandwidth}, latency: 0}}\n" if bandwidth else ""
        (case.folder / "mine.yaml").write_text(MINE + disk)
        return on(case, f"{target}xmine.yaml", "memory.offload=optimizer", *words)
    unknown = with_disk(None)
    moved = 2 * unknown["disk"]["states"]
    assert moved > 0 == unknown["disk_seconds"], unknown
    slow = with_disk("1e6")
    assert abs(slow["disk_seconds"] / (moved / 1e6) - 1) < 0.05, (slow, moved)
    assert abs(slow["step_seconds"] - unknown["step_seconds"] - slow["disk_seconds"]) < 1e-6 * slow["step_seconds"], (slow, unknown)
    assert "waits for its disk" in case.run("plan", "recipe.yaml", "--on", "1x1xmine.yaml", "memory.offload=optimizer").stdout
    # Two ranks with all the states each share the disk.
    two = with_disk("1e6", "train.global_batch_size=2", target="1x2")
    assert abs(two["disk_seconds"] / slow["disk_seconds"] - 2) < 0.05, (two, slow)
    assert with_disk("1e15")["disk_seconds"] < 1e-3 * slow["disk_seconds"]


def test_v100(case):
    """Has no bf16."""
    case.recipe()
    text = case.run("plan", "recipe.yaml", "--on", "1x1xV100")
    assert text.returncode == 0 and "on 1 host of 1 V100: the recipe fits" in text.stdout, text
    assert "runtime" in text.stdout and "fragmentation" in text.stdout, text.stdout


def test_real_model(case):
    """Of 8 billion parameters, 16 bytes each are needed of weights, gradients and states: more than one H100 has, not more than two."""
    if not CONFIG.exists():
        print("skipped real_model: no", CONFIG)
        return
    case.recipe("parallel: {zero: 3}\nmemory: {activation_checkpointing: full}\n", model=CONFIG, adapter=False)
    assert not on(case, "1x1xH100-SXM")["fits"] and not on(case, "1x2xA100-40G")["fits"]
    plan = on(case, "1x4xH100-SXM", "train.global_batch_size=4")
    assert plan["fits"] and plan["roles"][0]["capacity"] == 81559 << 20, plan


def test_bad_input(case):
    case.recipe()
    for target, says in {
            "1x8xA100": ["unknown device", "'A100'", "A100-40G, A100-80G"],
            "1x8xH1O0-SXM": ["unknown device", "did you mean H100-SXM?"],
            "0x8xH200": ["'0x8xH200'", "HOSTSxDEVICESxNAME"],
            "8xH200": ["'8xH200'"], "1x8x": ["'1x8x'"], "H200": ["'H200'"], "-1x2xA10": ["A100-80G"], "1x2.5xA10": ["1x2.5xA10"],
            "1000000x2xA10": ["at most 1000000 devices"], "1x2xno.yaml": ["no.yaml", "cannot open"],
    }.items():
        case.fails(2, "plan", "recipe.yaml", f"--on={target}", says=says)
    for name, (old, new, says) in {
            "key": ("memory: 16GiB", "memroy: 16GiB", ["key.yaml:2:", "memroy: unknown key", "did you mean memory?"]),
            "none": ("in_host: {bandwidth: 20e9, latency: 1e-5}\n", "", ["none.yaml:", "in_host: missing"]),
            "zero": ("memory_bandwidth: 1e12", "memory_bandwidth: 0", ["zero.yaml:8:", "memory_bandwidth: found 0"]),
            "less": ("bandwidth: 3e9", "bandwidth: -3e9", ["less.yaml:11:", "network.bandwidth: found -3e9"]),
            "text": ("runtime: 1GiB", "runtime: some", ["text.yaml:4:", "runtime: found some"]),
            "yaml": ("peak: {f32", "peak: [f32", ["yaml.yaml:7:", "not valid YAML"]),
    }.items():
        assert old in MINE
        (case.folder / f"{name}.yaml").write_text(MINE.replace(old, new))
        case.fails(2, "plan", "recipe.yaml", "--on", f"1x1x{name}.yaml", says=says)


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
