#!/usr/bin/env python3
"""Kills runs with SIGKILL while they save, and goes on with them: no checkpoint that was complete is ever lost or damaged,
and the result is that of a run that nobody has disturbed, bit by bit.

A run is killed again and again, each time at a moment of one phase (PHASES) which is waited for by watching its folders,
or at any moment: all of its processes, one rank, or only the launcher. After each kill nothing of it may be left running,
each checkpoint that has a manifest must be whole (checkpoint_check.py), and none may be missing that was there before.

`kill_checkpoint.py --ftune build/release/ftune --work FOLDER [--kills 300] [--seed N]`; needs the wheel xxhash.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import checkpoint_check
import inotify
from cli_case import Case, random_model

STEPS = 8
KEEP = 2
MESHES = {"one": [], "data-2-zero-2": ["parallel.data=2", "parallel.zero=2"], "tensor-2": ["parallel.tensor=2"],
          "pipeline-2": ["parallel.pipeline=2"], "data-3-zero-3": ["parallel.data=3", "parallel.zero=3"]}
RANKS = {"one": 0, "data-2-zero-2": 2, "tensor-2": 2, "pipeline-2": 2, "data-3-zero-3": 3}  # that the launcher starts
# What is waited for, in the order of a save.
PHASES = {
    "any moment": "at any time of the run",
    "start": "before the first step, where a resumed run reads its checkpoint",
    "snapshot": "a step has been logged, and is copied",
    "begin": ".incomplete-* has been made",
    "shard": "a shard has been made, its values are to come",
    "write": "some of a shard has been written",
    "shards": "all shards are there, the manifest is not",
    "manifest": "the manifest is being written",
    "named": "the manifest has its name, the checkpoint has not",
    "renamed": "the checkpoint has its name, old ones are there",
    "removing": "an old one has lost its name",
    "deleting": "a file of it is gone",
    "result": "the result is being written",
}
ALL, RANK, LAUNCHER, PAUSE, STAND_STILL = "all", "a rank", "the launcher", "paused", "stopped for good"
LONG = 60  # seconds, after which something hangs
SHORT = 2  # seconds that ranks may live without their launcher: less than a run takes


def processes_of(token):
    """→ those that have the token in their environment, and have not ended."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            environment = Path(entry.path, "environ").read_bytes()
            state = Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if token in environment and state != "Z":
            found.append(int(entry.name))
    return found


def children_of(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Moments:
    """Tells the phases of a run from what happens in its folders."""

    def __init__(self, out, shards):
        self._notify, self._out, self._shards = inotify.Inotify(), out, shards
        self._closed = set()
        self.newest = max(checkpoint_check.steps(out / "checkpoints"), default=0)  # of what has been seen
        self._notify.watch(out)
        self._notify.watch(out / "checkpoints")

    def next(self, seconds):
        """→ the phases that have begun."""
        return [phase for event in self._notify.events(seconds) for phase in self._phases(*event)]

    def _phases(self, folder, name, what, is_folder):
        path, notify = folder / name, self._notify
        if folder == self._out:
            if name == "checkpoints" and what == inotify.CREATE:
                notify.watch(path)
            elif name == "log.jsonl" and what == inotify.MODIFY:
                yield "snapshot"
            elif name == ".incomplete" and what == inotify.CREATE:
                yield "result"
        elif folder.name == "checkpoints":
            if name.startswith(".incomplete-step-") and what == inotify.CREATE:
                self._closed.clear()
                if notify.watch(path):
                    yield "begin"
            elif name.startswith(".removing-") and what == inotify.MOVED_TO:
                if notify.watch(path):
                    yield "removing"
            elif name.startswith("step-") and what == inotify.MOVED_TO:
                self.newest = max(self.newest, int(name.removeprefix("step-")))
                notify.watch(path)  # if it were removed under its name
                yield "renamed"
        elif folder.name.startswith((".removing-", "step-")):
            if what == inotify.DELETE:
                yield "deleting"
        elif name.endswith(".safetensors"):
            if what == inotify.CREATE:
                yield "shard"
            elif what == inotify.MODIFY:
                yield "write"
            elif what == inotify.CLOSE_WRITE:
                self._closed.add(name)
                if len(self._closed) == self._shards:
                    yield "shards"
        elif "manifest" in name:
            if what == inotify.CREATE:
                yield "manifest"
            elif what == inotify.MOVED_TO:
                yield "named"

    def close(self):
        self._notify.close()


def found_state(out, shards):
    """→ what a killed run has left, in a word."""
    checkpoints = out / "checkpoints"
    names = os.listdir(checkpoints) if checkpoints.is_dir() else []
    if any(name.startswith(".removing-") for name in names):
        return "a checkpoint half removed"
    for name in names:
        if not name.startswith(".incomplete-step-"):
            continue
        try:
            return _state_of_unfinished(checkpoints / name, shards)
        except FileNotFoundError:  # removed by a run that has not been killed whole
            continue
    if (out / ".incomplete").exists():
        return "a result half written"
    return "nothing begun"


def _state_of_unfinished(folder, shards):
    names = os.listdir(folder)
    if "manifest.json" in names:
        return "a checkpoint without its name"
    if any("manifest" in name for name in names):
        return "half a manifest"
    if not names:
        return "an empty folder"
    if len(names) < shards:
        return "some of the shards"
    return "parts of shards" if any(map(has_hole, map(folder.joinpath, names))) else "all shards, no manifest"


def has_hole(path):
    """Whether room was reserved for the file that has not been written."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return size > 0 and os.lseek(file.fileno(), 0, os.SEEK_HOLE) < size


class Life:
    """One run, from its first start to its end."""

    def __init__(self, test, mesh, number):
        self.test, self.mesh, self.number = test, mesh, number
        self.out = test.case.folder / f"run-{number}"
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        self.checkpoints = self.out / "checkpoints"
        self.starts = 0
        self.process = None

    def start(self):
        newest = self.newest()
        begun = (self.out / "recipe.yaml").exists() and (self.out / "log.jsonl").exists()
        if begun:
            arguments = ["resume", self.out.name]
        else:
            # The launcher would start the run again itself.
            arguments = ["train", "recipe.yaml", f"output_dir={self.out.name}", "launch.max_restarts=0", *MESHES[self.mesh]]
        self.token = f"FTUNE_KILL_TEST={os.getpid()}-{self.number}-{self.starts}".encode()
        name, value = self.token.decode().split("=")
        self.said = self.test.case.folder / "said.txt"
        with open(self.said, "w") as said:
            self.process = subprocess.Popen([self.test.case.ftune, *arguments], cwd=self.test.case.folder, stdout=said,
                                            stderr=said, env=self.test.case.environment({name: value}))
        self.starts += 1
        self.ranks = []
        self.expected = f"goes on from step {newest}:" if begun and newest else None

    def newest(self):
        return max(checkpoint_check.steps(self.checkpoints), default=0)

    def victims(self, whom):
        """→ whom it is after all, and the processes: while there are no ranks, there is only the launcher."""
        if len(self.ranks) < RANKS[self.mesh]:
            self.ranks = children_of(self.process.pid)
        if whom in (RANK, STAND_STILL) and self.ranks:
            return whom, [self.test.random.choice(self.ranks)]
        if whom == LAUNCHER:
            return whom, [self.process.pid]
        pids = [self.process.pid, *self.ranks]
        self.test.random.shuffle(pids)
        return PAUSE if whom == PAUSE else ALL, pids

    def wait_for(self, phase, occurrence, delay):
        """→ the newest checkpoint at that moment; None where the run has ended before."""
        if phase in ("any moment", "start"):
            try:
                self.process.wait(delay)
                return None
            except subprocess.TimeoutExpired:
                return self.newest()
        moments = Moments(self.out, self.test.shards[self.mesh])
        try:
            end = time.monotonic() + LONG
            while time.monotonic() < end:
                for come in moments.next(0.05):
                    occurrence -= come == phase
                    if occurrence == 0:
                        if delay:
                            time.sleep(delay)
                        return moments.newest
                if self.process.poll() is not None:
                    return None
                self.victims(ALL)  # known when they are needed
            raise AssertionError(f"the run hangs before {phase}: {self.said.read_text()}")
        finally:
            moments.close()

    def wait_end(self):
        """Until nothing of the run is left, → its exit status."""
        try:
            code = self.process.wait(LONG)
        except subprocess.TimeoutExpired:
            code = None
        end = time.monotonic() + SHORT
        while left := processes_of(self.token):
            if code is None or time.monotonic() > end:
                for pid in left:
                    send(pid, signal.SIGKILL)
                raise AssertionError(f"these are left: {left}, exit {code}: {self.said.read_text()}")
            time.sleep(0.02)
        return code

    def check(self, before):
        steps = checkpoint_check.steps(self.checkpoints)
        assert max(steps, default=0) >= before, f"step {before} is lost: {steps}"
        # One may be there that was about to be removed.
        assert len(steps) <= KEEP + 1, steps
        for step in steps:
            checkpoint_check.check_whole(checkpoint_check.folder_of(self.checkpoints, step))
        said = self.said.read_text()
        assert "damaged" not in said, said
        assert "could not" not in said or self.process.returncode == 5, said  # where a rank has died
        if self.expected and "attempt " in said:
            assert self.expected in said, (self.expected, said)

    def disturb(self, phase, whom):
        """Starts the run and disturbs it at a moment of the phase; → whether that was before its end."""
        draw = self.test.random
        occurrence = draw.randint(1, 3)
        delay = draw.choice([0, 0, draw.uniform(0, 0.002), draw.uniform(0, 0.02)])
        if phase == "any moment":
            delay = draw.uniform(0, self.test.seconds[self.mesh])
        elif phase == "start":
            delay = draw.uniform(0, 0.6) * self.test.seconds[self.mesh]
        elif phase == "result":
            occurrence = 1
        self.start()
        before = self.wait_for(phase, occurrence, delay)
        if before is None:
            return False
        whom, victims = self.victims(whom)
        self.whom = whom
        if whom in (PAUSE, STAND_STILL):
            for pid in victims:
                send(pid, signal.SIGSTOP)
            if whom == PAUSE:
                time.sleep(0.3)
                for pid in victims:
                    send(pid, signal.SIGCONT)
        else:
            for pid in victims:
                send(pid, signal.SIGKILL)
        code = self.wait_end()
        # A rank that ends first of all ends the others; one that has done all its work is not missed.
        expected = {ALL: {-9}, LAUNCHER: {-9}, RANK: {5}, PAUSE: {0}, STAND_STILL: {5, 6}}
        assert code in expected[whom] or code == 0 and self.has_ended(), f"exit {code}: {self.said.read_text()}"
        self.state = found_state(self.out, self.test.shards[self.mesh])
        self.check(before)
        return True

    def has_ended(self):
        log = self.out / "log.jsonl"
        return log.exists() and '"event":"end"' in log.read_text()

    def finish(self):
        """Lets it end, and compares it with the run that nobody has disturbed."""
        before = self.newest()
        if self.process is None or not self.has_ended():
            self.start()
            code = self.wait_end()
            assert code == 0, f"exit {code}: {self.said.read_text()}"
            self.check(before)
        left = sorted(os.listdir(self.checkpoints))
        assert left == [f"step-{step:08d}" for step in range(STEPS - KEEP + 1, STEPS + 1)], left
        assert not (self.out / ".incomplete").exists()
        assert self.test.result_of(self.out) == self.test.results[self.mesh], f"{self.out.name}: another result"


class Test:
    def __init__(self, ftune, work, seed):
        self.random = random.Random(seed)
        self.case = Case(ftune, work)
        random_model(self.case.folder / "model", hidden_size=192, intermediate_size=512, num_attention_heads=6,
                     num_key_value_heads=2, head_dim=32, num_hidden_layers=4)
        self.case.rows([{"messages": [{"role": "user", "content": f"What is {i} plus {i}?"},
                                      {"role": "assistant", "content": f"It is {2 * i}."}]} for i in range(40)])
        (self.case.folder / "recipe.yaml").write_text(
            "model: {path: model}\ndata: {train: chats.jsonl, sequence_len: 128, packing: false}\n"
            f"train: {{global_batch_size: 6, max_steps: {STEPS}, num_epochs: {STEPS}}}\n"
            "optimizer: {learning_rate: 1e-3}\n"
            f"checkpoint: {{save_steps: 1, keep_last: {KEEP}}}\n"
            "launch: {heartbeat_timeout: 5s}\n")
        self.results, self.shards, self.seconds = {}, {}, {}
        for mesh in MESHES:
            begin = time.monotonic()
            done = self.case.run("train", "recipe.yaml", f"output_dir=undisturbed-{mesh}", *MESHES[mesh])
            assert done.returncode == 0, done.stderr
            self.seconds[mesh] = time.monotonic() - begin
            out = self.case.folder / f"undisturbed-{mesh}"
            self.results[mesh] = self.result_of(out)
            last = checkpoint_check.folder_of(out / "checkpoints", STEPS)
            self.shards[mesh] = len(list(last.glob("*.safetensors")))

    def result_of(self, out):
        """→ everything that must not depend on what has happened to the run."""
        log = {}
        for line in (out / "log.jsonl").read_text().splitlines():
            line = json.loads(line)
            if line["event"] == "train":
                log[line["step"]] = {key: line[key] for key in ("loss", "lr", "grad_norm", "epoch", "tokens", "trained_tokens")}
        assert list(sorted(log)) == list(range(1, STEPS + 1)), sorted(log)
        states = {}
        for step in range(STEPS - KEEP + 1, STEPS + 1):
            folder = checkpoint_check.folder_of(out / "checkpoints", step)
            manifest = checkpoint_check.check_whole(folder)
            states[step] = {key: manifest[key] for key in manifest if key not in ("recipe", "xxh3")}  # they name the run
            states[step]["bytes"] = {name: (folder / name).read_bytes() for name in manifest["files"]}
        result = {path.name: path.read_bytes() for path in (out / "model").iterdir()}
        return log, states, result


def aims(draw):
    """→ phases for ever, all equally often."""
    while True:
        phases = list(PHASES)
        draw.shuffle(phases)
        for phase in phases:
            yield phase


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and printed")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    hurry()
    test = Test(str(arguments.ftune.resolve()), arguments.work, seed)
    counts, states, whoms = collections.Counter(), collections.defaultdict(collections.Counter), collections.Counter()
    kills = missed = lives = 0
    phases = aims(test.random)
    phase = next(phases)
    begin = time.monotonic()
    while kills < arguments.kills:
        mesh = list(MESHES)[lives % len(MESHES)]
        life = Life(test, mesh, lives)
        lives += 1
        try:
            for _ in range(test.random.randint(2, 7)):
                if kills == arguments.kills:
                    break
                whom = draw_whom(test.random, mesh)
                if not life.disturb(phase, whom):
                    missed += 1
                    phase = next(phases)
                    break
                whoms[life.whom] += 1
                if life.whom != PAUSE:
                    kills += life.whom != STAND_STILL
                    counts[phase] += 1
                    states[phase][life.state] += 1
                    phase = next(phases)
                if life.has_ended():
                    break
            life.finish()
        except AssertionError:
            print(f"FAILED: run {life.number} ({mesh}), phase '{phase}', seed {seed}, after {kills} kills; it is left in "
                  f"{life.out}", flush=True)
            raise
        shutil.rmtree(life.out)
        print(f"{kills} kills, {lives} runs, {time.monotonic() - begin:.0f} s", flush=True)
    report(counts, states, whoms)
    never = [phase for phase in PHASES if not counts[phase]]
    assert kills < 2 * len(PHASES) or not never, f"moments that never came: {never}"
    print(f"{kills} kills of {lives} runs (seed {seed}; {missed} moments did not come before the end): no complete checkpoint "
          "was lost or damaged, and each run's log, checkpoints and result are byte-equal to those of an undisturbed one")


def draw_whom(draw, mesh):
    if mesh == "one":
        return draw.choices([ALL, PAUSE], [10, 1])[0]
    return draw.choices([ALL, RANK, LAUNCHER, PAUSE, STAND_STILL], [8, 8, 4, 1, 1])[0]


def report(counts, states, whoms):
    width = max(map(len, PHASES))
    for phase, meaning in PHASES.items():
        left = ", ".join(f"{state} {count}" for state, count in states[phase].most_common())
        print(f"  {phase:{width}} {counts[phase]:4}  {meaning}; left: {left or '-'}")
    print("  " + ", ".join(f"{whom}: {count}" for whom, count in sorted(whoms.items())))


def hurry():
    """A moment that is seen late is another moment."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        print("this is not root: moments may be seen late", flush=True)


if __name__ == "__main__":
    sys.exit(main())
