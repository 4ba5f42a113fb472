#!/usr/bin/env python3
"""Runs that go on from a checkpoint: on the same mesh as if nothing had been, to the bit; on another mesh with the same
samples and the same curve; and when a checkpoint is made.

    test_resume.py --ftune BINARY --work FOLDER [NAME …]
"""

import json
import shutil
import signal
import subprocess
import sys
import time

from cli_case import random_model, run_tests, tensors

STEPS, AT = 8, 5  # the run goes on from step AT
TWO = ["parallel.data=2"]
PIPELINE = ["parallel.pipeline=2"]
NO_CLIPPING = "optimizer.max_grad_norm=null"


def recipe(case, adapter=False, more=""):
    """Of a model that two ranks of any axis can share."""
    if not (case.folder / "model").exists():
        random_model(case.folder / "model", hidden_size=32, num_hidden_layers=4, num_attention_heads=4,
                     num_key_value_heads=2, head_dim=8, intermediate_size=48)
    lines = ["model: {path: model}", "data: {train: chats.jsonl, val_set_size: 3, sequence_len: 48}",
             f"train: {{global_batch_size: 4, micro_batch_size: 1, max_steps: {STEPS}, num_epochs: 20, eval_steps: 3}}",
             "optimizer: {learning_rate: 1e-2}", "launch: {threads: 1}", "checkpoint: {save_steps: 5, keep_last: 5}"]
    if adapter:
        lines.append("adapter: {lora_r: 4, lora_dropout: 0.1}")
    (case.folder / "recipe.yaml").write_text("\n".join(lines) + "\n" + more)
    return "recipe.yaml"


def good(done):
    assert done.returncode == 0, f"{done.args}\n{done.stdout}{done.stderr}"
    return done


def facts(case, run):
    """→ what the log has of each step and evaluation, the last line of each, without what clocks and meshes say."""
    keys = ("loss", "lr", "grad_norm", "epoch", "tokens", "trained_tokens", "eval_loss", "eval_tokens", "loss_scale", "next_loss_scale")
    lines = case.log(run)
    return {(line["event"], line["step"]): {key: line[key] for key in keys if key in line}
            for line in lines if line["event"] in ("train", "eval", "skip")}


def result(case, run):
    folder = case.folder / run
    path = folder / "adapter" / "adapter_model.safetensors"
    return path if path.exists() else folder / "model" / "model.safetensors"


def interrupted(case, run, copy):
    """A copy of a run as it was behind step AT."""
    target = case.folder / copy
    shutil.rmtree(target, ignore_errors=True)
    (target / "checkpoints").mkdir(parents=True)
    source = case.folder / run
    shutil.copy(source / "recipe.yaml", target / "recipe.yaml")
    lines = [line for line in (source / "log.jsonl").read_text().splitlines() if json.loads(line)["step"] <= AT]
    (target / "log.jsonl").write_text("".join(line + "\n" for line in lines))
    name = f"step-{AT:08}"
    shutil.copytree(source / "checkpoints" / name, target / "checkpoints" / name)


def check_bit_equal(case, name, *options, adapter=False):
    if (case.folder / "whole").exists():
        shutil.rmtree(case.folder / "whole")
    good(case.run("train", recipe(case, adapter), "output_dir=whole", *options))
    interrupted(case, "whole", "rest")
    # In its own place, so that recipe.yaml and what it says of the folder agree.
    shutil.rmtree(case.folder / "kept", ignore_errors=True)
    (case.folder / "whole").rename(case.folder / "kept")
    (case.folder / "rest").rename(case.folder / "whole")
    done = good(case.run("resume", "whole"))
    assert f"goes on from step {AT}" in done.stderr, done.stderr
    expected, found = facts(case, "kept"), facts(case, "whole")
    assert ("train", STEPS) in expected and expected == found, (name, expected, found)
    assert result(case, "kept").read_bytes() == result(case, "whole").read_bytes(), name
    states = [json.loads((case.folder / run / "checkpoints" / f"step-{STEPS:08}" / "manifest.json").read_text())["state"]
              for run in ("kept", "whole")]
    assert states[0] == states[1], (name, states)
    for file in ("values", "optimizer"):
        for shard in (case.folder / "kept" / "checkpoints" / f"step-{STEPS:08}").glob(f"{file}-*"):
            other = case.folder / "whole" / "checkpoints" / shard.parent.name / shard.name
            assert shard.read_bytes() == other.read_bytes(), (name, shard.name)
    print(f"  {name}")


def test_same_mesh(case):
    check_bit_equal(case, "fp32")
    check_bit_equal(case, "without packing, accumulating by two, noise", "data.packing=false", "train.micro_batch_size=2",
                    "train.neftune_noise_alpha=5")
    check_bit_equal(case, "bf16", "precision.weights=bf16")
    check_bit_equal(case, "bf16 without masters", "precision.weights=bf16", "precision.master=none")
    check_bit_equal(case, "fp16", "precision.weights=fp16")
    check_bit_equal(case, "LoRA with dropout", adapter=True)
    check_bit_equal(case, "written without a copy", "checkpoint.async=false")


def test_same_mesh_optimizers(case):
    for name in ("adamw_8bit", "lion", "adafactor", "muon", "sgd"):
        check_bit_equal(case, name, f"optimizer.name={name}", *(["optimizer.momentum=0.9"] if name == "sgd" else []))
    check_bit_equal(case, "states on disk", "memory.offload=optimizer")


def test_same_mesh_of_ranks(case):
    check_bit_equal(case, "data", *TWO)
    check_bit_equal(case, "ZeRO-3, bf16", *TWO, "parallel.zero=3", "precision.weights=bf16")
    check_bit_equal(case, "LoRA over ZeRO-2", *TWO, "parallel.zero=2", adapter=True)
    check_bit_equal(case, "tensor", "parallel.tensor=2", "parallel.sequence_parallel=true")
    check_bit_equal(case, "compressed sums", *TWO, "parallel.compression=1bit")
    check_bit_equal(case, "compressed sums to shares", *TWO, "parallel.compression=topk", "parallel.zero=2")
    check_bit_equal(case, "pipeline", *PIPELINE)
    check_bit_equal(case, "pipeline without a barrier", *PIPELINE, "parallel.schedule=zb-v", NO_CLIPPING)


MESHES = ([], [*TWO, "parallel.zero=1"], [*TWO, "parallel.zero=3", "parallel.persistence_threshold=0"],
          ["parallel.tensor=2"], ["parallel.pipeline=2"], ["parallel.pipeline=2", "parallel.tensor=2"],
          ["parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2", *TWO, "parallel.zero=2"])


def test_other_meshes(case):
    for adapter in (False, True):
        run = recipe(case, adapter)
        smooth = ["optimizer.eps=1e-5", *(["adapter.lora_dropout=0"] if adapter else [])]
        good(case.run("train", run, "output_dir=one", "--force", *smooth))
        expected, whole = facts(case, "one"), tensors(result(case, "one"))
        for first in MESHES[1:]:
            good(case.run("train", run, "output_dir=first", "--force", *smooth, *first, f"train.max_steps={STEPS}"))
            for then in MESHES:
                if then == first or (adapter and then not in MESHES[:4]):
                    continue
                interrupted(case, "first", "then")
                shutil.rmtree(case.folder / "first")
                (case.folder / "then").rename(case.folder / "first")
                defaults = ["parallel.data=1", "parallel.tensor=1", "parallel.pipeline=1", "parallel.zero=0", "parallel.schedule=1f1b",
                            "parallel.virtual_stages=1"]
                given = {option.split("=")[0] for option in then}
                more = [option for option in defaults if option.split("=")[0] not in given]
                good(case.run("resume", "first", *more, *then))
                found = facts(case, "first")
                assert expected.keys() == found.keys(), (first, then, found)
                for key, line in expected.items():
                    for name, value in line.items():
                        assert abs(found[key][name] - value) <= 1e-5 * max(1, abs(value)), (first, then, key, name, found[key][name], value)
                    for name in ("epoch", "tokens", "trained_tokens"):
                        assert found[key].get(name) == line.get(name), (first, then, key)
                for name, values in tensors(result(case, "first")).items():
                    worst = max(abs(a - b) for a, b in zip(values, whole[name], strict=True))
                    assert worst <= 2e-6, (first, then, name, worst)


class Started:
    """A run in the background, of many steps."""

    def __init__(self, case, *options):
        self.case = case
        run = recipe(case)
        shutil.rmtree(case.folder / "out", ignore_errors=True)
        self.process = subprocess.Popen([case.ftune, "train", run, "output_dir=out", "train.max_steps=100000", "train.num_epochs=100000",
                                         "checkpoint.save_steps=auto", "train.eval_steps=100000", *options],
                                        cwd=case.folder, env=case.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for_step(self, step):
        end = time.monotonic() + 60
        while not self._steps() or self._steps()[-1] < step:
            assert self.process.poll() is None and time.monotonic() < end, self.process.communicate()
            time.sleep(0.02)

    def _steps(self):
        path = self.case.folder / "out" / "log.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["step"] for line in lines if line.endswith("}") and '"train"' in line]

    def checkpoints(self):
        folder = self.case.folder / "out" / "checkpoints"
        return sorted(path.parent.name for path in folder.glob("step-*/manifest.json")) if folder.exists() else []

    def wait_for_checkpoints(self, count):
        end = time.monotonic() + 60
        while len(self.checkpoints()) < count:
            assert self.process.poll() is None and time.monotonic() < end, (self.checkpoints(), self.process.communicate())
            time.sleep(0.02)

    def end(self):
        said = self.process.communicate(timeout=60)
        return self.process.returncode, said[0], said[1]


def test_asked_for(case):
    """A signal, or a file, saves while training goes on; a stop saves and says how to go on."""
    for options in ([], TWO):
        run = Started(case, *options)
        run.wait_for_step(2)
        assert not run.checkpoints()
        run.process.send_signal(signal.SIGUSR1)
        run.wait_for_checkpoints(1)
        (case.folder / "out" / "save").touch()
        run.wait_for_checkpoints(2)
        assert not (case.folder / "out" / "save").exists()
        before = run.checkpoints()
        run.process.send_signal(signal.SIGTERM)
        code, out, said = run.end()
        assert code == 75, (code, said)
        last = run.checkpoints()[-1]
        assert last > before[-1] and out.strip().endswith(last), (out, run.checkpoints())
        assert "stopped by SIGTERM" in said and "ftune resume out" in said, said
        assert not (case.folder / "out" / "model").exists()
        step = int(last[5:])
        done = good(case.run("resume", "out", f"train.max_steps={step + 3}"))
        assert f"goes on from step {step}" in done.stderr, done.stderr
        steps = [line["step"] for line in case.log("out") if line["event"] == "train"]
        assert steps == list(range(1, step + 4)), steps[-10:]


def test_hangup(case):
    """A terminal that is closed stops a run as SIGTERM does, unless the run was told to outlive it."""
    def started(handler, *options):
        before = signal.signal(signal.SIGHUP, handler)
        try:
            return Started(case, *options)
        finally:
            signal.signal(signal.SIGHUP, before)

    for options in ([], TWO):
        run = started(signal.SIG_DFL, *options)
        run.wait_for_step(2)
        run.process.send_signal(signal.SIGHUP)
        code, _, said = run.end()
        assert code == 75 and "stopped by SIGHUP" in said and len(run.checkpoints()) == 1, (code, said)
    run = started(signal.SIG_IGN)
    run.wait_for_step(2)
    run.process.send_signal(signal.SIGHUP)
    run.wait_for_step(20)
    run.process.send_signal(signal.SIGTERM)
    code, _, said = run.end()
    assert code == 75 and "stopped by SIGTERM" in said, (code, said)


def test_stop_after(case):
    run = Started(case, "checkpoint.stop_after=2s")
    code, _, said = run.end()
    assert code == 75 and "stopped by checkpoint.stop_after" in said and len(run.checkpoints()) == 1, (code, said)


def test_kept(case):
    def kept(*options):
        good(case.run("train", recipe(case), "output_dir=out", "--force", "checkpoint.save_steps=1", "checkpoint.keep_last=2", *options))
        return [int(path.name[5:]) for path in sorted((case.folder / "out" / "checkpoints").iterdir())]
    assert kept() == [7, 8]
    assert kept("checkpoint.keep_every=3") == [3, 6, 7, 8]
    best = kept("checkpoint.keep_best=true", "optimizer.learning_rate=0.5", "train.eval_steps=2", "train.eval_on_start=false")
    evaluations = {line["step"]: line["eval_loss"] for line in case.log("out") if line["event"] == "eval"}
    assert sorted({7, 8, min(evaluations, key=evaluations.get)}) == best, (best, evaluations)
    saves = [line for line in case.log("out") if line["event"] == "save" and "bytes" in line]
    assert [line["step"] for line in saves] == list(range(1, 9)) and all(line["bytes"] > 0 for line in saves), saves


def test_interrupted_evaluation(case):
    """An evaluation that a stop has ended is made when the run goes on."""
    good(case.run("train", recipe(case), "output_dir=out", "--force", f"train.eval_steps={AT}"))
    expected = facts(case, "out")
    interrupted(case, "out", "rest")
    manifest = case.folder / "rest" / "checkpoints" / f"step-{AT:08}" / "manifest.json"
    text = manifest.read_text()
    assert f'"eval_step":{AT}' in text.replace(" ", ""), text[:1000]
    content = json.loads(text)
    content["state"].update(eval_step=0, best_step=0)
    del content["xxh3"]
    manifest.write_text(json.dumps(content))
    log = case.folder / "rest" / "log.jsonl"
    log.write_text("".join(line + "\n" for line in log.read_text().splitlines() if json.loads(line)["event"] != "eval"))
    shutil.rmtree(case.folder / "out")
    (case.folder / "rest").rename(case.folder / "out")
    good(case.run("resume", "out"))
    assert facts(case, "out") == {key: value for key, value in expected.items() if key != ("eval", 0)}


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
