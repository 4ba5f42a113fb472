#!/usr/bin/env python3
"""Checkpoints of runs on hosts that share no disk: what the ranks of the other host have to say is sent to the first, which
has the run's folder. Network namespaces play the hosts, and folders their disks: the same relative path is another one.

Exit status 77, which CTest counts as skipped, where there can be no namespaces.
"""

import os
import shutil
import signal
import sys

import checkpoint_check
import netns
from cli_case import TINY, edit_json, run_tests
from test_hosts import LONG, Run

STEPS = 8
MESHES = {
    "data": ([1, 1], ["parallel.data=2"]),
    "zero-2": ([2, 1], ["parallel.data=3", "parallel.zero=2"]),
    "zero-3": ([1, 2], ["parallel.data=3", "parallel.zero=3", "parallel.persistence_threshold=0"]),
    "tensor": ([1, 1], ["parallel.tensor=2"]),
    "pipeline": ([1, 1], ["parallel.pipeline=2"]),
    "pipeline-data": ([2, 2], ["parallel.pipeline=2", "parallel.data=2", "parallel.zero=1"]),
}


class Disks:
    """Of two hosts: each has the recipe and what it names."""

    def __init__(self, case):
        self.case, self.first, self.second = case, case.folder, case.folder / "second"
        model = case.folder / "model"
        shutil.copytree(TINY, model)
        edit_json(model / "config.json", lambda c: c.update(num_attention_heads=6, num_key_value_heads=2, head_dim=4))
        (self.first / "recipe.yaml").write_text(
            "model: {path: model}\ndata: {train: chats.jsonl, sequence_len: 128, packing: false}\n"
            f"train: {{global_batch_size: 12, max_steps: {STEPS}, num_epochs: {LONG}}}\n"
            "optimizer: {learning_rate: 1e-3}\ncheckpoint: {save_steps: 1, keep_last: 3}\n"
            "launch: {heartbeat_timeout: 5s}\n")
        self.second.mkdir()
        for name in ("recipe.yaml", "chats.jsonl"):
            shutil.copy(self.first / name, self.second)
        shutil.copytree(model, self.second / "model")

    def run(self, hosts, layout, *arguments, command="train", what="recipe.yaml"):
        ranks = [(host, rank) for rank, host in enumerate(h for h, count in enumerate(layout) for _ in range(count))]
        return Run(self.case, hosts, layout, what, *arguments, command=command,
                   folders={rank: self.second for host, rank in ranks if host == 1})

    def steps(self, run):
        checkpoints = self.first / run / "checkpoints"
        for step in checkpoint_check.steps(checkpoints):
            checkpoint_check.check_whole(checkpoint_check.folder_of(checkpoints, step))
        return checkpoint_check.steps(checkpoints)

    def files(self, run, step=STEPS):
        return sorted(path.name for path in checkpoint_check.folder_of(self.first / run / "checkpoints", step).iterdir())

    def second_is_empty(self, run):
        left = [path for path in (self.second / run).rglob("*") if path.is_file()] if (self.second / run).exists() else []
        assert not [path for path in left if path.suffix == ".safetensors" or path.name == "manifest.json"], left

    def result(self, run):
        log = {line["step"]: (line["loss"], line["grad_norm"]) for line in self.case.log(run) if line["event"] == "train"}
        return log, (self.first / run / "model" / "model.safetensors").read_bytes()


def test_saved(case):
    """The same files as where all ranks see the disk."""
    disks = Disks(case)
    with netns.Hosts(2) as hosts:
        for name, (layout, mesh) in MESHES.items():
            Run(case, hosts, layout, "recipe.yaml", f"output_dir=shared-{name}", *mesh).end([0])
            disks.run(hosts, layout, f"output_dir={name}", *mesh).end([0])
            assert disks.steps(name) == disks.steps(f"shared-{name}") == [STEPS - 2, STEPS - 1, STEPS]
            assert disks.files(name) == disks.files(f"shared-{name}")
            for file in disks.files(name):
                if file.endswith(".safetensors"):
                    paths = [checkpoint_check.folder_of(disks.first / run / "checkpoints", STEPS) / file for run in (name, f"shared-{name}")]
                    assert paths[0].read_bytes() == paths[1].read_bytes(), (name, file)
            disks.second_is_empty(name)
            assert disks.result(name) == disks.result(f"shared-{name}"), name


def test_resumed(case):
    """Ranks that do not see the run's folder read what they need of it through the first."""
    disks = Disks(case)
    with netns.Hosts(2) as hosts:
        for name, (layout, mesh) in MESHES.items():
            disks.run(hosts, layout, f"output_dir=whole-{name}", *mesh).end([0])
            killed = disks.run(hosts, layout, f"output_dir={name}", *mesh)
            killed.wait_for_steps(name, count=4)
            for rank in killed.ranks.values():
                rank.kill()
            for rank in killed.ranks.values():
                rank.wait()
            steps = disks.steps(name)
            resumed = disks.run(hosts, layout, f"output_dir={name}", *mesh, "--resume")
            resumed.end([0])
            disks.second_is_empty(name)
            assert disks.result(name) == disks.result(f"whole-{name}"), (name, steps)
            print(f"{name}: killed with {steps}", flush=True)


def test_lost_host(case):
    """A host that is gone while a checkpoint is written leaves the ones before."""
    disks = Disks(case)
    layout, mesh = MESHES["zero-2"]
    with netns.Hosts(2) as hosts:
        run = disks.run(hosts, layout, "output_dir=out", f"train.max_steps={LONG}", *mesh, "launch.heartbeat_timeout=2s")
        run.wait_for_steps(count=5)
        before = max(checkpoint_check.steps(disks.first / "out" / "checkpoints"), default=0)
        run.ranks[2].send_signal(signal.SIGKILL)
        run.end([5], ["rank 2"], 20, but=[2])
        run.ranks[2].wait()
        steps = disks.steps("out")
        assert steps and max(steps) >= before, (before, steps)
        # One rank alone goes on with it.
        done = case.run("resume", "out", f"train.max_steps={max(steps) + 1}", "parallel.data=1", "parallel.zero=0")
        assert done.returncode == 0, done.stderr
        assert f"goes on from step {max(steps)}:" in done.stderr, done.stderr
        assert not [name for name in os.listdir(disks.first / "out" / "checkpoints") if name.startswith(".")]


if __name__ == "__main__":
    if missing := netns.unavailable():
        print(f"skipped: {missing}")
        sys.exit(77)
    sys.exit(run_tests(globals(), __doc__))
