#!/usr/bin/env python3
"""What disks, files and other people can do to the checkpoints of a run, and what `ftune resume` says of it.

`test_checkpoint_faults.py --ftune build/release/ftune --work FOLDER`; needs the wheel xxhash. Tests that mount file systems
are left out, with a line that counts them, where this is not allowed.
"""

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager

import checkpoint_check
from cli_case import random_model, run_tests

LONG = 100000  # steps: more than any test waits for
PATIENCE = 90  # seconds for what takes one


def recipe(case, checkpoint="save_steps: 1", more="", **options):
    return case.recipe(f"checkpoint: {{{checkpoint}}}\n{more}", adapter=False, **options)


def steps_of(case, run="out", but=()):
    """→ the steps of all complete checkpoints, each of which is whole."""
    checkpoints = case.folder / run / "checkpoints"
    steps = [step for step in checkpoint_check.steps(checkpoints) if step not in but]
    for step in steps:
        checkpoint_check.check_whole(checkpoint_check.folder_of(checkpoints, step))
    return steps


def folder_of(case, step, run="out"):
    return checkpoint_check.folder_of(case.folder / run / "checkpoints", step)


def good(done, code=0):
    assert done.returncode == code, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    return done


def begun(case, steps=4, checkpoint="save_steps: 1, keep_last: 3", more=""):
    """A run that has been stopped after so many steps."""
    name = recipe(case, checkpoint, more)
    good(case.run("train", name, "output_dir=out", f"train.max_steps={steps}", f"train.num_epochs={LONG}", "--quiet"))
    return name


def resumed(case, *arguments, code=0, steps=6, run="out"):
    return good(case.run("resume", run, f"train.max_steps={steps}", *arguments), code)


class Running:
    """A run in the background."""

    def __init__(self, case, *arguments):
        self.case, self.words = case, case.folder / "said.txt"
        with open(self.words, "w") as said:
            self.process = subprocess.Popen([case.ftune, *map(str, arguments)], cwd=case.folder, stdout=said, stderr=said,
                                            env=case.environment())

    def said(self):
        return self.words.read_text()

    def wait_until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, f"it has ended before {what}: {self.said()}"
            assert time.monotonic() < end, f"no {what} after {PATIENCE} s: {self.said()}"
            time.sleep(0.01)

    def end(self, code, with_signal=None):
        if with_signal:
            self.process.send_signal(with_signal)
        found = self.process.wait(PATIENCE)
        assert found == code, f"exit {found}, expected {code}: {self.said()}"
        return self.said()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


# --- disks -----------------------------------------------------------------------------------------------------------

def mount(*arguments):
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True)


@contextmanager
def mounted(folder, *arguments):
    folder.mkdir(parents=True, exist_ok=True)
    done = mount(*arguments, folder)
    assert done.returncode == 0, done.stderr
    try:
        yield folder
    finally:
        for _ in range(50):  # until nothing of a process that was killed is in the way
            if subprocess.run(["umount", folder], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)


def small_disk(folder, size):
    return mounted(folder, "-t", "tmpfs", "-o", f"size={size}", "tmpfs")


def grow(folder, size):
    done = mount("-o", f"remount,size={size}", folder)
    assert done.returncode == 0, done.stderr


@contextmanager
def read_only(folder):
    with mounted(folder, "--bind", folder):
        done = mount("-o", "remount,ro,bind", folder)
        assert done.returncode == 0, done.stderr
        yield


def fill(folder):
    """Up to the last byte."""
    with open(folder / "filler", "wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                if file.write(b"x" * size) < size:
                    size //= 2
            except OSError:
                size //= 2


def log_lines(case, run):
    """Each line is whole."""
    return [json.loads(line) for line in (case.folder / run / "log.jsonl").read_text().splitlines()]


def losses(case, run):
    return {line["step"]: line["loss"] for line in log_lines(case, run) if line["event"] == "train"}


def test_full_disk(case):
    """Checkpoints fill the disk: training goes on, with one warning; the good ones stay; with room again, so does the run."""
    name = recipe(case, "save_steps: 1, keep_last: 100")
    arguments = ["train.max_steps=16", f"train.num_epochs={LONG}", "log.every=1"]
    good(case.run("train", name, "output_dir=roomy", *arguments))
    one = sum(path.stat().st_size for path in folder_of(case, 16, "roomy").iterdir())
    with small_disk(case.folder / "disk", int(one * 6.5)) as disk:
        done = case.run("train", name, "output_dir=disk/out", *arguments)
        good(done, 4)
        assert done.stderr.count("warning: the checkpoint of step") == 1, done.stderr
        assert "No space left on device" in done.stderr and "training goes on" in done.stderr, done.stderr
        assert "step 16/16" in done.stderr, done.stderr
        errors = [line for line in done.stderr.splitlines() if "error:" in line and "warning:" not in line]
        assert len(errors) == 1 and "No space left on device" in errors[0] and "disk/out/" in errors[0], done.stderr
        kept = steps_of(case, "disk/out")
        assert kept == list(range(1, max(kept) + 1)) and 3 <= max(kept) < 16, kept
        assert not list((disk / "out" / "checkpoints").glob(".*")), list((disk / "out" / "checkpoints").iterdir())
        log_lines(case, "disk/out")
        # Nor does it go on while nothing can be written; and nothing is lost by that.
        fill(disk)
        done = case.run("resume", "disk/out")
        assert done.returncode == 4 and "No space left on device" in done.stderr, done.stderr
        assert steps_of(case, "disk/out") == kept
        log_lines(case, "disk/out")
        (disk / "filler").unlink()
        grow(disk, "256m")
        done = good(case.run("resume", "disk/out"))
        assert f"goes on from step {max(kept)}:" in done.stderr, done.stderr
        assert steps_of(case, "disk/out") == list(range(1, 17))
        assert losses(case, "disk/out") == losses(case, "roomy")
        assert (disk / "out" / "model" / "model.safetensors").read_bytes() == \
            (case.folder / "roomy" / "model" / "model.safetensors").read_bytes()


def test_disk_with_room_again(case):
    """A disk that was full for a while has cost the checkpoints of that time, and nothing else."""
    begun(case)
    checkpoints = case.folder / "out" / "checkpoints"
    shutil.move(checkpoints, case.folder / "kept")
    with small_disk(checkpoints, "16m"):
        shutil.copytree(case.folder / "kept", checkpoints, dirs_exist_ok=True)
        with Running(case, "resume", "out", f"train.max_steps={LONG}") as run:
            run.wait_until(lambda: max(checkpoint_check.steps(checkpoints), default=0) > 6, "checkpoint")
            fill(checkpoints)
            run.wait_until(lambda: "could not be written" in run.said(), "warning")
            last = max(steps_of(case))
            seen = run.said().count("\n")
            run.wait_until(lambda: run.said().count("\n") > seen + 10, "more steps")
            assert run.said().count("could not be written") == 1, run.said()
            assert max(steps_of(case)) == last
            (checkpoints / "filler").unlink()
            run.wait_until(lambda: max(checkpoint_check.steps(checkpoints), default=0) > last, "checkpoint with room again")
            run.end(75, signal.SIGTERM)
        assert len(steps_of(case)) == 3
        failed = [line for line in case.log() if line["event"] == "save" and "error" in line]
        assert failed and all("No space left on device" in line["error"] for line in failed), failed


def test_result_without_checkpoint(case):
    """Where there is no room for the last checkpoint there may be some for the result; it is an error all the same."""
    begun(case)
    checkpoints = case.folder / "out" / "checkpoints"
    shutil.move(checkpoints, case.folder / "kept")
    for writing in ("true", "false"):
        shutil.rmtree(case.folder / "out" / "model")
        with small_disk(checkpoints, "16m"):
            shutil.copytree(case.folder / "kept", checkpoints, dirs_exist_ok=True)
            fill(checkpoints)
            inodes = mount("-o", "remount,nr_inodes=64", checkpoints)
            assert inodes.returncode == 0, inodes.stderr
            done = resumed(case, f"checkpoint.async={writing}", code=4)
            error = done.stderr.splitlines()[-1]
            assert "No space left on device" in error and "`ftune checkpoint rm out --step N`" in error, done.stderr
            assert "checkpoint.keep_last" in error and "training goes on" not in error, done.stderr
            assert steps_of(case) == [2, 3, 4]
        assert (case.folder / "out" / "model" / "model.safetensors").exists()


def test_result_without_room(case):
    """The result of a full run, or the best one so far: the error says what to remove, and the checkpoint stays."""
    name = recipe(case, "save_steps: 100, keep_last: 1")
    text = (case.folder / name).read_text()
    (case.folder / name).write_text(text.replace("sequence_len", "val_set_size: 4, sequence_len"))
    good(case.run("train", name, "output_dir=roomy", "train.num_epochs=9"))
    model = (case.folder / "roomy" / "model" / "model.safetensors").stat().st_size
    one = sum(path.stat().st_size for path in folder_of(case, 3, "roomy").iterdir())
    best = ["checkpoint.keep_best=true", "train.eval_steps=1", "train.early_stopping_patience=3"]
    for options, size, kept in (([], one + model // 2, [3]), (best, model // 2, [])):
        with small_disk(case.folder / "disk", size) as disk:
            done = good(case.run("train", name, "output_dir=disk/out", "train.num_epochs=9", *options), 4)
            error = done.stderr.splitlines()[-1]
            assert "disk/out/.incomplete" in error and "No space left on device" in error, done.stderr
            assert "`ftune checkpoint rm disk/out --step N`" in error and "checkpoint.keep_last" in error, done.stderr
            assert steps_of(case, "disk/out") == kept, done.stderr
            grow(disk, "64m")
            good(case.run("resume", "disk/out"))
            assert (disk / "out" / "model" / "model.safetensors").stat().st_size == model


def test_removal_cut_off(case):
    """A checkpoint loses its name before any of its files: what is left of it is never taken for one."""
    for folder in ("step-00000004", "superseded-2-step-00000004"):
        name = begun(case)
        resumed(case, "--step", "2", steps=4)
        checkpoints = case.folder / "out" / "checkpoints"
        held, left = checkpoints / folder / "held", checkpoints / f".removing-{folder}" / "held"
        held.mkdir()
        assert mount("-t", "tmpfs", "tmpfs", held).returncode == 0  # cannot be removed
        try:
            done = good(case.run("train", name, "output_dir=out", "train.max_steps=2", "--force"), 4)
        finally:
            for path in (held, left):
                subprocess.run(["umount", path], capture_output=True)
        assert f".removing-{folder}" in done.stderr and left.exists() and not held.exists(), done.stderr
        good(case.run("train", name, "output_dir=out", "train.max_steps=2", "--force"))
        assert sorted(os.listdir(checkpoints)) == ["step-00000001", "step-00000002"], os.listdir(checkpoints)
        shutil.rmtree(case.folder / "out")


def test_read_only(case):
    """Said before anything is trained."""
    name = begun(case)
    before = sorted(path.name for path in (case.folder / "out").rglob("*"))
    with read_only(case.folder / "out"):
        case.fails(2, "resume", "out", says=["out", "Read-only file system"])
        case.fails(2, "train", name, "output_dir=out/new", says=["out/new", "Read-only file system"])
    assert sorted(path.name for path in (case.folder / "out").rglob("*")) == before
    log = (case.folder / "out" / "log.jsonl").read_text()
    with read_only(case.folder / "out" / "checkpoints"):
        for mesh in ([], ["parallel.data=2"]):
            done = case.run("resume", "out", "train.max_steps=6", *mesh)
            assert done.returncode == 4 and "Read-only file system" in done.stderr, done.stderr
            assert "out/checkpoints" in done.stderr and "step 5/6" not in done.stderr, done.stderr
    assert steps_of(case) == [2, 3, 4]
    assert (case.folder / "out" / "log.jsonl").read_text().startswith(log)
    resumed(case)
    assert steps_of(case) == [4, 5, 6]


# --- damage ----------------------------------------------------------------------------------------------------------

def flip(path, at, bit=0):
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def cut(path, size):
    os.truncate(path, size)


def damages(folder):
    """→ (what, the file that is named, f(folder)) of each kind and region of each file."""
    draw = random.Random(7)
    for path in sorted(folder.iterdir()):
        name, size = path.name, path.stat().st_size
        regions = {"first byte": 0, "last byte": size - 1, "middle": size // 2}
        if name == "manifest.json":
            text = path.read_text()
            for word in ("format", "step", "row", "updates", "bytes", "offset", "shape", "begin", "size", "recipe", "loss"):
                ends = [match.end() for match in re.finditer(f'"{word}": ?["\\[]*', text)]
                regions[f"value of '{word}'"] = draw.choice(ends)
        else:
            header = struct.unpack("<Q", path.read_bytes()[:8])[0]
            regions |= {"header": 8 + draw.randrange(header), "first value": 8 + header, "values": draw.randrange(8 + header, size)}
        for region, at in regions.items():
            bit = draw.randrange(1, 7) if name == "manifest.json" else draw.randrange(8)
            yield f"{name}: bit {bit} of the {region} ({at})", name, lambda f, name=name, at=at, bit=bit: flip(f / name, at, bit)
        for left in (0, size // 2, size - 1):
            yield f"{name}: cut to {left} bytes", name, lambda f, name=name, left=left: cut(f / name, left)
        yield f"{name}: missing", name, lambda f, name=name: (f / name).unlink()
        yield f"{name}: a folder", name, lambda f, name=name: ((f / name).unlink(), (f / name).mkdir())
        yield f"{name}: grown", name, lambda f, name=name: os.truncate(f / name, size + 4096)
        yield f"{name}: another's", name, lambda f, name=name: shutil.copy(f.parent / "step-00000003" / name, f / name)


def test_damaged(case):
    """It names the file and goes on from the checkpoint before."""
    begun(case)
    kept = case.folder / "kept"
    (case.folder / "out").rename(kept)
    faults = list(damages(kept / "checkpoints" / "step-00000004"))
    for what, name, damage in faults:
        shutil.rmtree(case.folder / "out", ignore_errors=True)
        shutil.copytree(kept, case.folder / "out")
        damage(folder_of(case, 4))
        done = case.run("resume", "out", "train.max_steps=4")
        where = f"{what}: exit {done.returncode}: {done.stderr}"
        assert done.returncode == 0, where
        warnings = [line for line in done.stderr.splitlines() if "is damaged and passed over" in line]
        assert len(warnings) == 1 and "the checkpoint of step 4" in warnings[0], where
        assert f"out/checkpoints/step-00000004/{name}" in warnings[0], where
        assert "goes on from step 3:" in done.stderr, where
        assert "superseded-2-step-00000004" in os.listdir(case.folder / "out" / "checkpoints"), where
        assert steps_of(case) == [2, 3, 4], where
        for file in ("model.safetensors", "config.json"):
            assert (case.folder / "out" / "model" / file).read_bytes() == (kept / "model" / file).read_bytes(), where
    print(f"{len(faults)} kinds of damage", flush=True)


def test_all_damaged(case):
    begun(case)
    for step, name in ((4, "values-00000.safetensors"), (3, "optimizer-00000.safetensors")):
        flip(folder_of(case, step) / name, 5000)
    cut(folder_of(case, 2) / "manifest.json", 100)
    before = (case.folder / "out" / "log.jsonl").read_text()
    case.fails(4, "resume", "out", says=["no checkpoint of this run is whole", "step 4: ", "values-00000.safetensors", "step 3: ",
                                         "optimizer-00000.safetensors", "step 2: ", "manifest.json", "--force"])
    assert (case.folder / "out" / "log.jsonl").read_text() == before
    assert sorted(os.listdir(case.folder / "out" / "checkpoints")) == [f"step-{step:08d}" for step in (2, 3, 4)]


def test_newer_version(case):
    """That is no damage: nothing is passed over."""
    begun(case)
    path = folder_of(case, 4) / "manifest.json"
    text = path.read_text()
    manifest = json.loads(text)
    manifest["version"] = 2
    del manifest["xxh3"]
    path.write_text(json.dumps(manifest))
    case.fails(4, "resume", "out", says=["step-00000004/manifest.json", "version", "found 2", "expected 1", "newer ftune"])
    assert steps_like(case) == [2, 3, 4]
    resumed(case, "--step", "3")
    # One that is not what was written is of no version.
    flip(folder_of(case, 6) / "manifest.json", (folder_of(case, 6) / "manifest.json").read_text().index('"version": 1') + 11, 1)
    assert "is damaged and passed over" in resumed(case).stderr


def steps_like(case):
    return checkpoint_check.steps(case.folder / "out" / "checkpoints")


# --- other people ----------------------------------------------------------------------------------------------------

def test_locked(case):
    """One run, one writer."""
    name = recipe(case)
    with Running(case, "train", name, "output_dir=out", f"train.max_steps={LONG}", f"train.num_epochs={LONG}") as run:
        run.wait_until(lambda: len(steps_like(case)) == 2, "checkpoints")
        for command in (["resume", "out"], ["train", name, "output_dir=out", "--force"], ["train", name, "output_dir=out", "--resume"],
                        ["resume", "out", "parallel.data=2"]):
            case.fails(2, *command, says=["out", "another ftune is writing to this run"])
        seen = max(steps_like(case))
        run.wait_until(lambda: max(steps_like(case), default=0) > seen, "checkpoint after that")
        run.end(75, signal.SIGTERM)
    assert len(steps_of(case)) == 2
    log_lines(case, "out")


def test_deleted(case):
    """Somebody removes the checkpoints while it runs: there are new ones."""
    name = recipe(case)
    for mesh in ([], ["parallel.data=2"]):
        shutil.rmtree(case.folder / "out", ignore_errors=True)
        with Running(case, "train", name, "output_dir=out", f"train.max_steps={LONG}", f"train.num_epochs={LONG}", *mesh) as run:
            checkpoints = case.folder / "out" / "checkpoints"
            for _ in range(5):
                run.wait_until(lambda: len(steps_like(case)) >= 2, "checkpoints")
                shutil.rmtree(checkpoints, ignore_errors=True)
            run.wait_until(lambda: len(steps_like(case)) >= 2, "checkpoints")
            run.end(75, signal.SIGTERM)
        assert len(steps_of(case)) >= 1
        done = case.run("resume", "out", f"train.max_steps={max(steps_of(case)) + 1}")
        good(done)


def test_foreign(case):
    """What is not the run's own is not removed, replaced, or gone on from."""
    name = begun(case, checkpoint="save_steps: 1, keep_last: 1", steps=2)
    good(case.run("train", name, "output_dir=other", "train.max_steps=2", "train.seed=7", "--quiet"))
    checkpoints = case.folder / "out" / "checkpoints"
    shutil.copytree(folder_of(case, 2, "other"), checkpoints / "step-00000001")  # an old one
    for folder in ("step-foo", "step-1", "mine", "Step-00000001"):
        (checkpoints / folder).mkdir()
        (checkpoints / folder / "manifest.json").write_text("{}")
    (checkpoints / "step-00000000").write_text("a file")
    (checkpoints / "notes.txt").write_text("notes")
    before = content_of(checkpoints, but="step-00000002")
    resumed(case, steps=5)
    after = content_of(checkpoints, but="step-00000005")
    assert after == before, set(before) ^ set(after)
    checkpoint_check.check_whole(folder_of(case, 5))
    # In the place of one that comes: that is left out, and the next one is written.
    for foreign in ("file", "folder", "checkpoint"):
        newest = max(steps_of(case, but=[1]))
        path = folder_of(case, newest + 200)
        begun_before = (case.folder / "out" / "log.jsonl").read_text().count('"event":"start"')
        with Running(case, "resume", "out", f"train.max_steps={newest + 400}", f"checkpoint.save_steps={newest + 200}") as run:
            run.wait_until(lambda: (case.folder / "out" / "log.jsonl").read_text().count('"event":"start"') > begun_before, "start")
            if foreign == "file":
                path.write_text("a file")
            elif foreign == "folder":
                path.mkdir()
                (path / "x").write_text("x")
            else:
                shutil.copytree(folder_of(case, 2, "other"), path)
            mine = content_of(path)
            said = run.end(0)
        assert content_of(path) == mine, foreign
        assert f"the checkpoint of step {newest + 200} could not be written" in said and "move it away" in said, said
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert max(steps_of(case, but=[1])) == newest + 400
    # Copied in as the newest one.
    newest = max(steps_like(case))
    shutil.copytree(folder_of(case, 2, "other"), checkpoints / f"step-{newest + 5:08d}")
    manifest = checkpoints / f"step-{newest + 5:08d}" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["step"] = content["state"]["position"]["step"] = newest + 5
    del content["xxh3"]
    manifest.write_text(json.dumps(content))
    case.fails(4, "resume", "out", f"train.max_steps={newest + 9}", says=["manifest.json", "this checkpoint is of another run", "train.seed"])
    assert manifest.exists()


def content_of(path, but=None):
    if path.is_file():
        return path.read_bytes()
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*")
            if file.is_file() and (but is None or but not in file.parts)}


def test_lost_recipe(case):
    """Checkpoints whose run cannot be known are not replaced by another run's; other files never."""
    name = begun(case)
    (case.folder / "out" / "checkpoints" / "notes.txt").write_text("notes")
    (case.folder / "out" / "recipe.yaml").unlink()
    (case.folder / "out" / "log.jsonl").unlink()
    case.fails(2, "train", name, "output_dir=out", says=["out/checkpoints", "there are checkpoints in this folder", "--force"])
    assert steps_of(case) == [2, 3, 4]
    good(case.run("train", name, "output_dir=out", "train.max_steps=2", "--force", "--quiet"))
    assert steps_of(case) == [1, 2]
    assert (case.folder / "out" / "checkpoints" / "notes.txt").read_text() == "notes"


# --- what is kept, and when ------------------------------------------------------------------------------------------

def test_when_busy(case):
    """A save that comes too soon is left out, if the recipe says so; the last state never is, nor one that was asked for."""
    random_model(case.folder / "large", hidden_size=256, intermediate_size=1024, num_attention_heads=8, num_key_value_heads=4,
                 head_dim=32, num_hidden_layers=8)
    name = recipe(case, "save_steps: 1, keep_last: 100, when_busy: skip", model="large")
    text = (case.folder / name).read_text().replace("global_batch_size: 2", "global_batch_size: 1").replace("128}", "32, packing: false}")
    (case.folder / name).write_text(text)
    for mesh in ([], ["train.global_batch_size=2", "parallel.data=2"]):
        done = good(case.run("train", name, "output_dir=out", "--force", "train.max_steps=12", f"train.num_epochs={LONG}", *mesh))
        left_out = [int(line.split("step ")[1].split()[0]) for line in done.stderr.splitlines() if "is left out" in line]
        steps = steps_of(case)
        assert left_out, done.stderr
        # The last one is made after all, when the one before it has ended.
        assert sorted({*steps, *left_out}) == list(range(1, 13)) and 12 in steps, (steps, left_out)
        assert set(steps) & set(left_out) <= {12}, (steps, left_out)
        done = good(case.run("train", name, "output_dir=out", "--force", "train.max_steps=6", f"train.num_epochs={LONG}",
                             "checkpoint.when_busy=wait", *mesh))
        assert steps_of(case) == list(range(1, 7)) and "left out" not in done.stderr, done.stderr


def ranks_of(pid):
    return [int(child) for task in os.listdir(f"/proc/{pid}/task")
            for child in open(f"/proc/{pid}/task/{task}/children").read().split()]


def test_never_meets(case):
    """checkpoint.keep_every, where no checkpoint is of such a step, is warned of before the first step."""
    for checkpoint, steps, says in (("save_steps: 3, keep_every: 2", 5, "saved every 3 steps, and none of the run's 5 is a multiple of both"),
                                    ("save_steps: 3, keep_every: 2", 6, None), ("save_steps: 2, keep_every: 4", 4, None),
                                    ("saves_per_epoch: 1, keep_every: 100", 4, "is a multiple of both"),
                                    ("keep_every: 2", 4, "saved by the clock")):
        done = good(case.run("train", recipe(case, checkpoint), "output_dir=out", "--force", f"train.max_steps={steps}"))
        warnings = [line for line in done.stderr.splitlines() if "checkpoint.keep_every" in line]
        assert len(warnings) == (1 if says else 0) and (not says or says in warnings[0]), (checkpoint, done.stderr)
        assert not says or done.stderr.index("keep_every") < done.stderr.index("step 1/"), done.stderr


def test_asked_for(case):
    """By a signal to the launcher or to any rank, and by a file; the run goes on."""
    name = recipe(case, "save_steps: 100000, keep_last: 100")
    for mesh in ([], ["parallel.data=2"], ["parallel.data=3", "train.global_batch_size=3"]):
        shutil.rmtree(case.folder / "out", ignore_errors=True)
        with Running(case, "train", name, "output_dir=out", f"train.max_steps={LONG}", f"train.num_epochs={LONG}", *mesh) as run:
            log = case.folder / "out" / "log.jsonl"
            run.wait_until(lambda: log.exists() and '"event":"train"' in log.read_text(), "step")
            ways = [("the launcher", lambda: os.kill(run.process.pid, signal.SIGUSR1)),
                    ("a file", lambda: (case.folder / "out" / "save").touch())]
            ways += [(f"rank {pid}", lambda pid=pid: os.kill(pid, signal.SIGUSR1)) for pid in ranks_of(run.process.pid)]
            assert len(ways) == 2 + (0 if not mesh else 2 if mesh[0].endswith("2") else 3), ways
            for way, ask in ways:
                before = len(steps_like(case))
                ask()
                run.wait_until(lambda: len(steps_like(case)) > before, f"checkpoint by {way}")
                assert not (case.folder / "out" / "save").exists(), way
            run.end(75, signal.SIGTERM)
        steps = steps_of(case)
        saves = [line["step"] for line in case.log() if line["event"] == "save"]
        # A signal that some rank hears of much later is one more.
        assert saves == steps and len(ways) + 1 <= len(steps) <= len(ways) + 2, (saves, steps)


def test_stop_after(case):
    """Exit status 75, and it goes on from where it was."""
    name = recipe(case, "save_steps: 100000")
    for mesh in ([], ["parallel.data=2"]):
        done = case.run("train", name, "output_dir=out", "--force", f"train.max_steps={LONG}", f"train.num_epochs={LONG}",
                        "checkpoint.stop_after=1s", "--json", *mesh)
        good(done, 75)
        assert "checkpoint.stop_after" in done.stderr and "ftune resume out" in done.stderr, done.stderr
        answer = json.loads(done.stdout)
        steps = steps_of(case)
        assert answer["exit"] == 75 and steps == [answer["steps"]], (answer, steps)
        assert not (case.folder / "out" / "model").exists()
        done = resumed(case, "checkpoint.stop_after=null", steps=steps[0] + 2)
        assert f"goes on from step {steps[0]}:" in done.stderr, done.stderr
        assert list(losses(case, "out")) == list(range(1, steps[0] + 3))


def main():
    mounts = ("full_disk", "disk_with_room_again", "result_without_checkpoint", "result_without_room", "removal_cut_off", "read_only")
    with tempfile.TemporaryDirectory() as probe:
        allowed = mount("-t", "tmpfs", "tmpfs", probe).returncode == 0
        if allowed:
            subprocess.run(["umount", probe], check=True)
    tests = dict(globals())
    if not allowed:
        for name in mounts:
            del tests[f"test_{name}"]
        print(f"skipped {len(mounts)} tests, which need to mount file systems: {', '.join(mounts)}")
    return run_tests(tests, __doc__)


if __name__ == "__main__":
    sys.exit(main())
