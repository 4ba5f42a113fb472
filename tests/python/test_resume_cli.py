#!/usr/bin/env python3
"""`ftune resume` and `ftune train --resume` as a user runs them: what may change, other meshes, attempts, the run's folder,
and wrong input. What training makes of a checkpoint is tested elsewhere.

Standard library only. `test_resume_cli.py --ftune build/release/ftune --work FOLDER`.
"""

import fcntl
import json
import re
import shutil
import socket
import subprocess
import sys

from cli_case import TINY, random_model, run_tests, tensors


def begun(case, *overrides, more="", **options):
    """A run in `out` that has ended, and of which no checkpoint is left."""
    recipe = case.recipe(more, **options)
    done = case.run("train", recipe, "output_dir=out", "--quiet", *overrides)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(case.folder / "out" / "checkpoints", ignore_errors=True)
    return recipe


def good(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def values(case, *keys):
    """Of the run's recipe.yaml."""
    text = (case.folder / "out" / "recipe.yaml").read_text()
    found = []
    for key in keys:
        section, name = key.split(".")
        body = re.search(rf"^{section}:\n((?:  .*\n)+)", text, re.M)[1]
        found.append(re.search(rf"^  {name}: (.*?)(?:  # .*)?$", body, re.M)[1])
    return found


def losses(lines, attempt):
    return [(line["step"], line["loss"]) for line in lines if line["event"] == "train" and line["attempt"] == attempt]


# --- the end of a run -------------------------------------------------------------------------------------------------

def written(case, run="out"):
    """→ what is in a run's folder, byte for byte; but for what it says of itself, with the time."""
    folder = case.folder / run
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and path.name != "status.json"}


def weights(case, run="out"):
    return (case.folder / run / "adapter" / "adapter_model.safetensors").read_bytes()


def stopped_early(case):
    """→ its recipe, the step of its best evaluation, and the one behind which it stopped."""
    recipe = case.recipe("checkpoint: {save_steps: 1, keep_last: 100}\noptimizer: {learning_rate: 0.5, lr_scheduler: constant}\n")
    (case.folder / recipe).write_text((case.folder / recipe).read_text().replace(
        "sequence_len", "val_set_size: 4, sequence_len").replace("max_steps: 3, num_epochs: 3", (
            "max_steps: 60, num_epochs: 100, eval_steps: 2, eval_on_start: false, early_stopping_patience: 3")))
    done = good(case.run("train", recipe, "output_dir=out"))
    assert "stopped early" in done.stderr, done.stderr
    best, last = int(re.search(r"the result is that of step (\d+)", done.stderr)[1]), case.log()[-1]["step"]
    assert 0 < best == last - 6, (best, last)
    return recipe, best, last


def test_all_steps_done(case):
    """Nothing is left to do: it says so, and writes nothing."""
    recipe = case.recipe("checkpoint: {save_steps: 2, keep_last: 9}\n")
    good(case.run("train", recipe, "output_dir=out"))
    before = written(case)
    for command in (["resume", "out"], ["train", recipe, "output_dir=out", "--resume"]):
        done = good(case.run(*command))
        assert "nothing is left to do: all 3 steps are done" in done.stderr and "train.max_steps" in done.stderr, done.stderr
        assert done.stdout == "out/adapter\n", done.stdout
    assert written(case) == before
    # Cut off before the result was written, or between its parts: there is something to do.
    shutil.rmtree(case.folder / "out" / "adapter")
    good(case.run("resume", "out"))
    assert weights(case) == before["adapter/adapter_model.safetensors"]
    done = good(case.run("resume", "out", "train.max_steps=5"))
    assert "step 5/5" in done.stderr and case.log()[-1]["step"] == 5, done.stderr


def test_stopped_early(case):
    """It is an end: nothing goes on from there, unless patience or what is evaluated when has changed."""
    recipe, best, last = stopped_early(case)
    before = written(case)
    for command in (["resume", "out"], ["train", recipe, "output_dir=out", "--resume"], ["resume", "out", "train.max_steps=70"]):
        done = good(case.run(*command))
        assert f"stopped early after step {last}" in done.stderr and "train.early_stopping_patience (3)" in done.stderr, done.stderr
        assert done.stdout == "out/adapter\n", done.stdout
    assert written(case) == before
    # Killed after its last checkpoint, or in its last evaluation, it comes to the same end.
    shutil.copytree(case.folder / "out", case.folder / "copy")
    for gone in ([], [last], [last - 1, last]):
        shutil.rmtree(case.folder / "out")
        shutil.copytree(case.folder / "copy", case.folder / "out")
        shutil.rmtree(case.folder / "out" / "adapter")
        for step in gone:
            shutil.rmtree(case.folder / "out" / "checkpoints" / f"step-{step:08}")
        good(case.run("resume", "out"))
        assert weights(case) == before["adapter/adapter_model.safetensors"], gone
        assert case.log()[-1]["step"] == last, (gone, case.log()[-1])
    for change in ("train.early_stopping_patience=4", "train.eval_steps=1"):
        shutil.rmtree(case.folder / "out")
        shutil.copytree(case.folder / "copy", case.folder / "out")
        good(case.run("resume", "out", change))
        assert case.log()[-1]["step"] > last, (change, case.log()[-1])


def test_back_before_the_best(case):
    """The result of what came after is none: it is removed, and the best weights of the new line take its place."""
    _, best, last = stopped_early(case)
    back = best - 2
    state = json.loads((case.folder / "out" / "checkpoints" / f"step-{back:08}" / "manifest.json").read_text())["state"]
    done = good(case.run("resume", "out", "--step", back, "optimizer.learning_rate=1e-30"))
    assert f"the result of step {best} is of what came after, and is removed" in done.stderr, done.stderr
    assert f"the result is that of step {state['best_step']}, eval loss" in done.stderr, done.stderr
    assert done.stdout == "out/adapter\n" and case.log()[-1]["step"] > back, done.stdout
    good(case.run("export", "out", "--step", state["best_step"], "--format", "peft", "--out", "best"))
    expected = tensors(case.folder / "best" / "adapter_model.safetensors")
    assert tensors(case.folder / "out" / "adapter" / "adapter_model.safetensors") == expected


def test_fewer_steps(case):
    """Than the checkpoint has: refused by name, and nothing has changed."""
    saved(case)
    before = written(case)
    case.fails(2, "resume", "out", "train.max_steps=3", says=["train.max_steps", "found 3 steps", "at least 4"])
    case.fails(2, "train", "recipe.yaml", "output_dir=out", "--resume", says=["train.max_steps", "found 3 steps", "at least 4"])
    case.fails(2, "resume", "out", "train.max_steps=3", "parallel.data=2", says=["train.max_steps", "found 3 steps", "at least 4"])
    now = written(case)
    assert {name: text for name, text in now.items() if not name.startswith("ranks/")} == before
    done = good(case.run("resume", "out", "--step", "2", "train.max_steps=3"))
    assert "step 3/3" in done.stderr, done.stderr


def test_no_shared_folder(case):
    """A rank whose host does not have the run takes rank 0's recipe."""
    saved(case)
    shutil.copytree(case.folder, case.folder / "other", ignore=lambda _, names: {"out", "cache", "other"} & set(names))
    said = by_hand(case, "resume", "out", "train.max_steps=6", folders=["", "other"])
    assert "goes on from step 4" in said and case.log()[-1]["step"] == 6, said
    assert not (case.folder / "other" / "out" / "log.jsonl").exists()


# --- what goes right -------------------------------------------------------------------------------------------------

def test_without_checkpoint(case):
    """It begins at step 0, says so, adds to the log, and removes nothing."""
    begun(case)
    (case.folder / "out" / "mine.txt").write_text("kept")
    first = case.log()
    done = good(case.run("resume", "out", "--json"))
    assert "attempt 2 begins at step 0: the run has no checkpoint yet" in done.stderr, done.stderr
    answer = json.loads(done.stdout)
    assert answer["run"] == "out" and answer["steps"] == 3 and answer["exit"] == 0, answer
    log = case.log()
    assert log[:len(first)] == first
    start = log[len(first)]
    assert start["event"] == "start" and start["attempt"] == 2 and start["resumed_from"] == 0, start
    assert "resumed_from" not in first[0] and first[0]["attempt"] == 1
    assert losses(log, 1) == losses(log, 2) and len(losses(log, 2)) == 3
    assert (case.folder / "out" / "mine.txt").read_text() == "kept"
    assert {path.name for path in (case.folder / "out" / "data").iterdir()} == {"dropped.jsonl", "audit.json"}


def test_recipe_stays(case):
    """However often it goes on: what was derived stays derived, what was given stays given."""
    begun(case, "optimizer.learning_rate=1e-3")
    text = (case.folder / "out" / "recipe.yaml").read_text()
    assert "weights: fp32  # from auto" in text and "learning_rate: 0.001\n" in text, text
    for _ in range(2):
        good(case.run("resume", "out", "--quiet"))
        shutil.rmtree(case.folder / "out" / "checkpoints", ignore_errors=True)
        assert (case.folder / "out" / "recipe.yaml").read_text() == text
    done = good(case.run("resume", "out", "--print"))
    assert done.stdout == case.resolved()
    # It is where it is.
    (case.folder / "out").rename(case.folder / "elsewhere")
    good(case.run("resume", "elsewhere", "--quiet"))
    assert "output_dir: elsewhere\n" in (case.folder / "elsewhere" / "recipe.yaml").read_text().replace("  # from auto", "")


def test_may_change(case):
    begun(case)
    done = good(case.run("resume", "out", "optimizer.learning_rate=5e-3", "train.max_steps=5", "optimizer.warmup_steps=1",
                         "log.every=2"))
    assert "step 5/5" in done.stderr, done.stderr
    assert values(case, "optimizer.learning_rate", "train.max_steps", "optimizer.warmup_ratio") == ["0.005", "5", "null"]
    assert case.log()[-1]["steps"] == 5


def test_meshes(case):
    """The batch of all ranks stays, on any mesh, and so do the losses."""
    random_model(case.folder / "even", hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                 intermediate_size=64)
    (case.folder / "r.yaml").write_text("model: {path: even}\ndata: {train: chats.jsonl, sequence_len: 128, packing: false}\n"
                                        "train: {global_batch_size: 4, max_steps: 3, num_epochs: 3}\n"
                                        "optimizer: {learning_rate: 1e-3, name: sgd}\n")
    good(case.run("train", "r.yaml", "output_dir=out", "--quiet"))
    meshes = ([], ["parallel.tensor=2"], ["parallel.tensor=1", "parallel.data=4", "parallel.zero=3"],
              ["parallel.pipeline=2", "parallel.data=2"], ["parallel.pipeline=1", "parallel.data=1"])
    sizes = []
    for i, mesh in enumerate(meshes):
        shutil.rmtree(case.folder / "out" / "checkpoints", ignore_errors=True)
        good(case.run("resume", "out", "--quiet", *mesh))
        lines = [line for line in case.log() if line["attempt"] == i + 2]
        start = lines[0]
        sizes.append(start["ranks"])
        for (_, a), (_, b) in zip(losses(case.log(), 1), losses(lines, i + 2), strict=True):
            assert abs(a - b) <= 1e-5 * abs(a), (mesh, a, b)
        assert values(case, "train.global_batch_size") == ["4"]
    assert sizes == [1, 2, 4, 4, 1], sizes
    assert values(case, "train.micro_batch_size", "train.gradient_accumulation_steps", "parallel.zero") == ["1", "4", "3"]
    # Runs of several ranks have their logs, each attempt its own.
    assert sorted(path.name for path in (case.folder / "out" / "ranks").iterdir()) == ["attempt-3", "attempt-4", "attempt-5"]
    assert (case.folder / "out" / "ranks" / "attempt-4" / "rank-3.log").exists()


def test_train_resume(case):
    """Begins where there is no run, goes on where there is one: the same command both times."""
    recipe = case.recipe()
    command = ["train", recipe, "output_dir=out", "--resume"]
    done = good(case.run(*command))
    assert "attempt" not in done.stderr, done.stderr
    shutil.rmtree(case.folder / "out" / "checkpoints", ignore_errors=True)
    text = (case.folder / "out" / "recipe.yaml").read_text()
    done = good(case.run(*command))
    assert "attempt 2 begins at step 0" in done.stderr, done.stderr
    assert (case.folder / "out" / "recipe.yaml").read_text() == text
    shutil.rmtree(case.folder / "out" / "checkpoints", ignore_errors=True)
    good(case.run(*command, "parallel.data=2", "optimizer.learning_rate=1e-3"))
    assert [line["attempt"] for line in case.log() if line["event"] == "start"] == [1, 2, 3]
    case.fails(2, *command, "train.seed=1", says=["train.seed", "found 1", "expected 42", "out/recipe.yaml"])
    (case.folder / recipe).write_text((case.folder / recipe).read_text().replace("global_batch_size: 2", "global_batch_size: 4"))
    case.fails(2, *command, says=["recipe.yaml:3: error: train.global_batch_size", "found 4", "expected 2"])
    # One that was cut off before it had written its recipe is no run yet.
    for name in ("a", "b"):
        (case.folder / name).mkdir()
        (case.folder / name / "log.jsonl").write_text("")
    good(case.run("train", recipe, "output_dir=a", "--resume", "--quiet"))
    good(case.run("train", recipe, "output_dir=b", "--quiet"))
    # Without the flag it is refused, with a way out.
    case.fails(2, "train", recipe, "output_dir=out", says=["there is a run in this folder already", "ftune resume out"])


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def start_rank(case, rank, port, *arguments, folder=""):
    """One of two ranks as a foreign launcher starts them."""
    return subprocess.Popen([case.ftune, *arguments], cwd=case.folder / folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=case.environment({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                                                             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}))


def ends_of(ranks, timeout=120):
    try:
        return [rank.communicate(timeout=timeout) + (rank.returncode,) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def by_hand(case, *arguments, folders=("", "")):
    """Two ranks as a foreign launcher starts them, each in a folder; → what rank 0 says."""
    port = free_port()
    ends = ends_of([start_rank(case, i, port, *arguments, folder=folders[i]) for i in range(2)])
    assert [code for _, _, code in ends] == [0, 0], ends
    assert ends[1][:2] == ("", ""), ends
    return ends[0][1]


def test_foreign_ranks(case):
    """Those of torchrun and the like: there are so many, and the data axis follows."""
    recipe = begun(case)
    said = by_hand(case, "resume", "out")
    assert "attempt 2 begins at step 0" in said and "mesh: 2 ranks" in said, said
    assert values(case, "parallel.data", "train.gradient_accumulation_steps", "launch.kind") == ["2", "1", "env"]
    shutil.rmtree(case.folder / "out" / "checkpoints", ignore_errors=True)
    said = by_hand(case, "train", recipe, "output_dir=out", "--resume")
    assert "attempt 3 begins at step 0" in said, said
    said = by_hand(case, "train", recipe, "output_dir=new", "--resume")
    assert "attempt" not in said, said
    shutil.rmtree(case.folder / "out" / "checkpoints", ignore_errors=True)
    good(case.run("resume", "out", "--quiet"))
    assert values(case, "parallel.data", "train.gradient_accumulation_steps", "launch.kind") == ["1", "2", "local"]


def test_rank_that_cannot_start(case):
    """The others hear why, and do not wait for it until the start time-out."""
    recipe = case.recipe()
    (case.folder / "elsewhere").mkdir()
    why = "rank {}: it could not start: {}"
    for command, folders, codes, says in (
            (["resume", "nothing"], ("", ""), [2, 5], ["nothing: error: there is no such folder", why.format(0, "nothing")]),
            (["train", recipe], ("elsewhere", ""), [2, 5], ["recipe.yaml", why.format(0, "recipe.yaml")]),
            (["train", recipe], ("", "elsewhere"), [5, 2], [why.format(1, "recipe.yaml"), "recipe.yaml"])):
        port = free_port()
        ends = ends_of([start_rank(case, i, port, *command, folder=folders[i]) for i in range(2)], timeout=20)
        assert [code for _, _, code in ends] == codes, ends
        for (out, said, _), words in zip(ends, says, strict=True):
            assert out == "" and said.count("error:") == 1 + ("it could not start" in words) and words in said, ends
    # The first rank serves what the others ask: it stays until they have come, and says so.
    port = free_port()
    first = start_rank(case, 0, port, "resume", "nothing")
    line = first.stderr.readline()
    assert "this rank cannot start; it stays up to 10s to tell the others why" in line, line
    second = start_rank(case, 1, port, "resume", "nothing")
    ends = ends_of([first, second], timeout=20)
    assert [code for _, _, code in ends] == [2, 5] and why.format(0, "nothing") in ends[1][1], ends
    # So does another one, while there is nobody to tell.
    port = free_port()
    second = start_rank(case, 1, port, "train", recipe, folder="elsewhere")
    line = second.stderr.readline()
    assert "this rank cannot start; it stays up to 10s to tell the others why" in line, line
    first = start_rank(case, 0, port, "train", recipe)
    ends = ends_of([first, second], timeout=20)
    assert [code for _, _, code in ends] == [5, 2] and why.format(1, "recipe.yaml") in ends[0][1], ends


def test_torn_log(case):
    """Whatever a killed writer left, each line stays valid."""
    begun(case)
    log = case.folder / "out" / "log.jsonl"
    whole = log.read_text()
    for left, stays in ((whole + '{"event":"train","st', whole), (whole.rstrip("\n"), whole), ("", ""), ('{"x', "")):
        shutil.rmtree(case.folder / "out" / "checkpoints", ignore_errors=True)
        log.write_text(left)
        good(case.run("resume", "out", "--quiet"))
        assert log.read_text().startswith(stays)
        lines = case.log()
        assert losses(lines, 2 if stays else 1)[-1][0] == 3, lines


def test_left_overs(case):
    begun(case)
    out = case.folder / "out"
    left = [out / ".recipe.yaml.tmp-1-0", out / ".incomplete-model", out / "checkpoints" / ".incomplete-step-00000002",
            out / "checkpoints" / ".removing-step-00000001", out / "checkpoints" / ".removing-superseded-1-step-00000001"]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "x").write_text("x")
    with open(out / "lock", "w") as lock:  # a live writer's are its own
        fcntl.flock(lock, fcntl.LOCK_EX)
        case.fails(2, "resume", "out", says=["another ftune is writing to this run"])
    assert all(folder.exists() for folder in left)
    good(case.run("resume", "out", "--quiet"))
    assert not any(folder.exists() for folder in left)


def test_attempts(case):
    """The next number is free, also where an attempt came to nothing."""
    begun(case)
    (case.folder / "out" / "ranks" / "attempt-6").mkdir(parents=True)
    (case.folder / "out" / "ranks" / "attempt-x").mkdir(parents=True)
    good(case.run("resume", "out", "parallel.data=2", "--quiet"))
    assert [line["attempt"] for line in case.log() if line["event"] == "start"] == [1, 7]
    assert (case.folder / "out" / "ranks" / "attempt-7" / "rank-1.log").exists()
    assert (case.folder / "out" / "ranks" / "attempt-6").exists()
    # What was derived for the ranks stays derived.
    text = (case.folder / "out" / "recipe.yaml").read_text()
    assert re.search("\n  kind: local  # from auto\n(.*\n)*  threads: \\d+  # from auto\n", text), text


def steps(case):
    return sorted(path.name for path in (case.folder / "out" / "checkpoints").iterdir())


def saved(case, **options):
    """A run with checkpoints of steps 2, 3 and 4."""
    recipe = case.recipe("checkpoint: {save_steps: 1, keep_last: 3}\n", **options)
    good(case.run("train", recipe, "output_dir=out", "train.max_steps=4", "--quiet"))
    assert steps(case) == ["step-00000002", "step-00000003", "step-00000004"]
    return recipe


def flip(path, at=-1):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_step(case):
    """Back to an earlier checkpoint: what came after it is set aside, and trained again to the same losses."""
    saved(case)
    done = good(case.run("resume", "out", "--step", "2"))
    assert "attempt 2 goes on from step 2: out/checkpoints/step-00000002" in done.stderr, done.stderr
    assert "set aside as superseded-2-step-…: 3, 4" in done.stderr, done.stderr
    assert steps(case) == ["step-00000002", "step-00000003", "step-00000004", "superseded-2-step-00000003", "superseded-2-step-00000004"]
    log = case.log()
    assert losses(log, 2) == losses(log, 1)[2:]
    start = [line for line in log if line["event"] == "start"][-1]
    assert start["resumed_from"] == start["step"] == 2, start
    case.fails(2, "resume", "out", "--step", "7", says=["--step", "found 7", "there are: 4, 3, 2"])
    # Nothing that could not be loaded is a reason to set others aside.
    case.fails(2, "resume", "out", "--step", "2", "adapter.lora_r=8", says=["adapter.lora_r"])
    assert "step-00000004" in steps(case)
    # One that is not whole is shown and removed like the others.
    (case.folder / "out" / "checkpoints" / "superseded-2-step-00000003" / "manifest.json").unlink()
    done = good(case.run("checkpoint", "ls", "out"))
    assert "set aside" in done.stdout and "superseded-2-step-00000003" in done.stdout, done.stdout
    case.fails(2, "checkpoint", "rm", "out", "--superseded", "--step", "2", says=["--superseded", "--step"])
    done = good(case.run("checkpoint", "rm", "out", "--superseded", "--json"))
    assert json.loads(done.stdout)["removed"] == [f"out/checkpoints/superseded-2-step-0000000{i}" for i in (3, 4)], done.stdout
    assert steps(case) == ["step-00000002", "step-00000003", "step-00000004"]
    assert "set aside" not in good(case.run("checkpoint", "ls", "out")).stdout


def test_superseded(case):
    """Of what is set aside as many stay as of the others, the newest; of another run's none is removed, or counts."""
    saved(case)
    good(case.run("resume", "out", "--step", "2", "checkpoint.keep_last=1", "--quiet"))
    assert steps(case) == ["step-00000004", "superseded-2-step-00000004"]
    removed = [line["removed_superseded"] for line in case.log() if "removed_superseded" in line]
    assert removed == [["superseded-2-step-00000003"]], removed
    checkpoints = case.folder / "out" / "checkpoints"
    foreign = checkpoints / "superseded-1-step-00000009"
    shutil.copytree(checkpoints / "superseded-2-step-00000004", foreign)
    manifest = json.loads((foreign / "manifest.json").read_text())
    del manifest["xxh3"]
    manifest["seed"] += 1
    (foreign / "manifest.json").write_text(json.dumps(manifest))
    good(case.run("resume", "out", "train.max_steps=6", "checkpoint.keep_last=3", "--quiet"))
    good(case.run("resume", "out", "--step", "4", "checkpoint.keep_last=2", "--quiet"))
    assert steps(case) == ["step-00000005", "step-00000006", foreign.name, "superseded-4-step-00000005", "superseded-4-step-00000006"]
    # All that is left is set aside.
    for step in (5, 6):
        good(case.run("checkpoint", "rm", "out", "--step", step, "--force"))
    listed = good(case.run("checkpoint", "ls", "out"))
    assert "no checkpoint but those that are set aside" in listed.stdout and foreign.name in listed.stdout, listed.stdout
    answer = json.loads(good(case.run("checkpoint", "ls", "out", "--json")).stdout)
    assert answer["checkpoints"] == [] and len(answer["superseded"]) == 3, answer
    case.fails(2, "checkpoint", "verify", "out", says=["no checkpoint but 3 set aside", "ftune checkpoint ls out"])
    good(case.run("checkpoint", "rm", "out", "--superseded"))
    case.fails(2, "checkpoint", "ls", "out", says=["no checkpoint yet"])


def test_damaged(case):
    """The one before is taken, with one warning that names the file; where none is left it is an error, not step 0."""
    saved(case)
    checkpoints = case.folder / "out" / "checkpoints"
    shard = next((checkpoints / "step-00000004").glob("*.safetensors"))
    flip(shard)
    done = good(case.run("resume", "out", "parallel.data=2"))
    assert done.stderr.count("warning: the checkpoint of step 4 is damaged and passed over") == 1, done.stderr
    assert shard.name in done.stderr and "goes on from step 3" in done.stderr, done.stderr
    assert "superseded-2-step-00000004" in steps(case) and "step-00000004" in steps(case)
    done = good(case.run("resume", "out"))
    assert "warning" not in done.stderr and "goes on from step 4" in done.stderr, done.stderr
    for folder in checkpoints.glob("step-*"):
        flip(next(folder.glob("*.safetensors")))
    case.fails(4, "resume", "out", says=["no checkpoint of this run is whole", "step 4", "step 3"])
    case.fails(4, "resume", "out", "--step", "4", says=["step-00000004", "damaged"])


def test_of_another_run(case):
    """Checkpoints, weights and data of another run are not gone on from."""
    saved(case)
    out = case.folder / "out"
    newest = out / "checkpoints" / "step-00000004" / "manifest.json"
    text = newest.read_text()

    def edit(change):
        manifest = json.loads(text)
        del manifest["xxh3"]  # edited on purpose
        change(manifest)
        newest.write_text(json.dumps(manifest))

    edit(lambda m: m.update(version=2))
    case.fails(4, "resume", "out", says=["manifest.json", "version", "newer ftune"])
    edit(lambda m: m.update(seed=43))
    case.fails(4, "resume", "out", says=["this checkpoint is of another run", "train.seed", "found 43", "expected 42"])
    edit(lambda m: m.update(recipe=m["recipe"].replace("lora_r: 4", "lora_r: 8")))
    case.fails(4, "resume", "out", says=["this checkpoint is of another run", "adapter.lora_r", "found 8", "expected 4"])
    edit(lambda m: m.update(model="0" * 16))
    case.fails(4, "resume", "out", says=["a run of another model", "0" * 16, json.loads(text)["model"]])
    newest.write_text(text)
    # What the run's data holds is told from its samples: a file that gives the same ones may have been written anew.
    chats = case.folder / "chats.jsonl"
    rows = chats.read_text()
    chats.write_text(rows + "\n")
    good(case.run("resume", "out", "--quiet"))
    chats.write_text(rows.replace("It is 4.", "It is 5."))
    case.fails(4, "resume", "out", says=["data.train", "something else than when the run began", "chats.jsonl"])
    chats.write_text(rows)
    (out / "inputs.json").write_text("{")
    case.fails(4, "resume", "out", says=["inputs.json"])


def test_another_model(case):
    model = case.folder / "model"
    shutil.copytree(TINY, model)
    saved(case, model="model")
    weights = model / "model.safetensors"
    flip(weights)
    case.fails(4, "resume", "out", says=["model.path", "something else than when the run began", "model.safetensors"])
    flip(weights)
    good(case.run("resume", "out", "--quiet"))


# --- what goes wrong -------------------------------------------------------------------------------------------------

def test_no_run(case):
    case.fails(2, "resume", "nothing", says=["nothing", "there is no such folder", "ftune train"])
    (case.folder / "empty").mkdir()
    case.fails(2, "resume", "empty", says=["empty", "there is no run in this folder"])
    case.fails(2, "resume", "chats.jsonl", says=["chats.jsonl", "no run"])
    (case.folder / "step-00000002").mkdir()
    case.fails(2, "resume", "step-00000002", says=["a checkpoint, not a run", "--step"])
    assert not (case.folder / "nothing").exists() and not list((case.folder / "empty").iterdir())
    case.fails(2, "resume", says=["RUN"])


def test_wrong_overrides(case):
    begun(case)
    before = (case.folder / "out" / "recipe.yaml").read_text(), (case.folder / "out" / "log.jsonl").read_text()
    case.fails(2, "resume", "out", "optimizer.lerning_rate=1", says=["optimizer.lerning_rate", "did you mean optimizer.learning_rate"])
    case.fails(2, "resume", "out", "optimizer.learning_rate=fast", says=["optimizer.learning_rate", "found fast"])
    case.fails(2, "resume", "out", "output_dir=other", says=["output_dir", "goes on in its own folder"])
    case.fails(2, "resume", "out", "adapter.lora_r=8", says=["adapter.lora_r", "found 8", "expected 4", "model.init_from"])
    # What only follows from a wrong value is not a second error.
    for command in (["resume", "out"], ["train", "recipe.yaml", "output_dir=out", "--resume"]):
        case.fails(2, *command, "optimizer.name=sgd", says=["optimizer.name", "found sgd", "expected adamw"])
    done = case.run("resume", "out", "optimizer.name=sgd", "optimizer.momentum=0.9")
    assert done.stderr.count("error:") == 2 and "found 0.9, expected auto" in done.stderr, done.stderr
    case.fails(2, "resume", "out", "parallel.data=3", says=["train.global_batch_size", "found 2", "parallel.data 3"])
    done = case.run("resume", "out", "train.seed=1", "data.sequence_len=64", "data.packing=false", "log.every=2")
    assert done.returncode == 2, done.stderr
    for key, found, expected in (("train.seed", "1", "42"), ("data.sequence_len", "64", "128"), ("data.packing", "false", "true")):
        assert re.search(rf"{key}: .*found {found}, expected {re.escape(expected)}, as in out/recipe.yaml", done.stderr), done.stderr
    assert done.stderr.count("error:") == 3, done.stderr
    case.fails(2, "train", "recipe.yaml", "output_dir=out", "--resume", "--force", says=["--force", "--resume"])
    assert before == ((case.folder / "out" / "recipe.yaml").read_text(), (case.folder / "out" / "log.jsonl").read_text())


def test_damaged_recipe(case):
    begun(case)
    path = case.folder / "out" / "recipe.yaml"
    text = path.read_text()
    for damaged, says in ((text[:len(text) // 2], "out/recipe.yaml"), ("", "out/recipe.yaml"), ("\0" * 100, "out/recipe.yaml"),
                          (text.replace("seed: 42", "seed: forty"), "train.seed"),
                          (text.replace("# from auto", "# from [", 1), "out/recipe.yaml")):
        path.write_text(damaged)
        done = case.run("resume", "out")
        assert done.returncode == 2 and says in done.stderr and "terminate" not in done.stderr, done.stderr
    path.unlink()
    case.fails(2, "resume", "out", says=["there is no run in this folder"])
    # It is no empty folder either.
    case.fails(2, "train", "recipe.yaml", "output_dir=out", says=["there is a run in this folder already"])


def test_wrong_step(case):
    begun(case)
    case.fails(2, "resume", "out", "--step", "7", says=["--step", "found 7", "there are: none"])
    case.fails(2, "resume", "out", "--step", "x", says=["--step"])
    (case.folder / "out" / "checkpoints" / "step-00000002").mkdir(parents=True)
    case.fails(4, "resume", "out", says=["no checkpoint of this run is whole", "step 2", "manifest.json", "--force"])
    case.fails(4, "resume", "out", "--step", "2", says=["step-00000002", "manifest.json"])
    case.fails(2, "resume", "out", "--step", "3", says=["--step", "there are: 2"])


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
