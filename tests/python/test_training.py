#!/usr/bin/env python3
"""What recipes ask of training, through the ftune binary: optimizers, precision, schedules, stopping, samples, new tokens.

Standard library only. `test_training.py --ftune build/release/ftune --work FOLDER`.
"""

import json
import math
import sys

from cli_case import CHATS, TINY, edit_json, model_copy, run_tests

EVAL = "data: {train: chats.jsonl, sequence_len: 128, val_set_size: 4}\n"


def losses(case, out="out"):
    return [line["loss"] for line in case.log(out) if line["event"] == "train"]


def test_optimizers(case):
    """Each trains, of the full model and of an adapter, takes the memory it is chosen for, and reads its own recipe."""
    rates = {"adamw": 3e-3, "sgd": 0.3, "lion": 1e-3, "adafactor": 1e-2, "muon": 3e-3, "adamw_8bit": 3e-3}
    memory = {}
    for adapter in (False, True):
        recipe = case.recipe("optimizer: {lr_scheduler: constant}\n", adapter=adapter)
        for name, rate in rates.items():
            # An adapter's B starts at zero: there a step that is proportional to the weights is small at first.
            rate *= 10 if adapter and name == "adafactor" else 1
            done = case.run("train", recipe, f"optimizer.name={name}", f"optimizer.learning_rate={rate}",
                            "train.max_steps=20", "train.num_epochs=20", "output_dir=out", "--force", "--quiet")
            assert done.returncode == 0, done.stderr
            course = losses(case)
            assert course[-1] < course[0] - 0.3, (adapter, name, course)
            if not adapter:
                memory[name] = case.log()[-4]["memory"]["optimizer"]
            again = case.run("train", "out/recipe.yaml", "--print")
            assert again.returncode == 0, again.stderr
            assert again.stdout == case.resolved()
    assert memory["sgd"] == 0 < memory["adafactor"] < memory["lion"] < memory["adamw_8bit"] < memory["adamw"], memory


def test_precision(case):
    """bf16 without a master and fp16 learn as fp32 does, and are saved as what they are."""
    recipe = case.recipe("optimizer: {lr_scheduler: constant, learning_rate: 3e-3}\n", adapter=False)
    last = {}
    for weights, master, saved in (("fp32", "fp32", "float32"), ("bf16", "none", "bfloat16"),
                                   ("fp16", "fp32", "float16")):
        done = case.run("train", recipe, f"precision.weights={weights}", f"precision.master={master}",
                        "train.max_steps=15", "train.num_epochs=20", "output_dir=out", "--force", "--quiet")
        assert done.returncode == 0, done.stderr
        last[weights] = losses(case)[-1]
        config = json.loads((case.folder / "out" / "model" / "config.json").read_text())
        assert saved in (config.get("dtype"), config.get("torch_dtype")), config
    assert all(math.isclose(loss, last["fp32"], rel_tol=0.1) for loss in last.values()), last


def test_warm_up(case):
    """A short run is not all warm-up; one that a recipe makes so is warned of."""
    done = case.run("train", case.recipe(), "train.max_steps=1", "output_dir=one")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    rates = [line["lr"] for line in case.log("one") if line["event"] == "train"]
    assert len(rates) == 1 and math.isclose(rates[0], 2e-4, rel_tol=1e-6), rates
    done = case.run("train", case.recipe(), "optimizer.warmup_steps=3", "output_dir=two")
    assert done.returncode == 0 and "warning: the warm-up of 3 steps" in done.stderr, done.stderr
    assert "optimizer.warmup_steps" in done.stderr
    done = case.run("train", case.recipe(), "optimizer.warmup_steps=2", "output_dir=three")
    assert "warning" not in done.stderr, done.stderr


def test_wrong_optimizers(case):
    case.fails(2, "train", case.recipe(), "optimizer.name=adafctor", says=["optimizer.name", "mean adafactor"])
    case.fails(2, "train", case.recipe(), "optimizer.name=paged_adamw_8bit", says=["optimizer.name", "adamw_8bit"])
    case.fails(2, "train", case.recipe(), "optimizer.momentum=0.9", says=["optimizer.momentum", "sgd"])
    case.fails(2, "train", case.recipe(), "precision.master=none", says=["precision.master", "bf16"])
    case.fails(2, "train", case.recipe(), "precision.loss_scale=8", says=["precision.loss_scale", "fp16"])


def test_overflow(case):
    """Gradients that overflow at a constant loss scale end the run with a diagnosis, and the log has the step."""
    case.fails(7, "train", case.recipe(adapter=False), "precision.weights=fp16", "precision.loss_scale=1e300",
               "output_dir=out", "--force", says=["step 1", "overflow", "1e+300", "precision.loss_scale", "bf16"])
    events = [(line["event"], line["step"]) for line in case.log()]
    assert events == [("start", 0), ("skip", 1)], events
    skip = case.log()[-1]
    assert skip["reason"] == "overflow" and skip["loss_scale"] == 1e300 and math.isfinite(skip["loss"]), skip
    assert not (case.folder / "out" / "model").exists()


def events(case, kind, run="out"):
    return [line for line in case.log(run) if line["event"] == kind]


def with_evaluation(case, text):
    """A recipe of full fine-tuning with evaluation data."""
    (case.folder / "eval.yaml").write_text(f"model: {{path: {TINY}}}\n{EVAL}{text}")
    return "eval.yaml"


def test_early_stopping(case):
    """The run ends after so many worse evaluations, and its result is the best one's weights."""
    recipe = with_evaluation(case, "train: {global_batch_size: 2, num_epochs: 40, eval_steps: 1, early_stopping_patience: 3}\n"
                                   "optimizer: {learning_rate: 0.5, lr_scheduler: constant}\n")
    done = case.run("train", recipe, "output_dir=out")
    assert done.returncode == 0, done.stderr
    evaluations = events(case, "eval")
    best = min(evaluations, key=lambda line: line["eval_loss"])
    assert evaluations[-1]["step"] == best["step"] + 3 < 40, [line["eval_loss"] for line in evaluations]
    results = [line for line in events(case, "save") if "bytes" not in line]  # others are checkpoints
    assert results[-1]["step"] == best["step"], results
    assert "stopped early" in done.stderr and f"step {best['step']}" in done.stderr, done.stderr
    # The saved weights give the best evaluation's loss again.
    again = case.run("train", recipe, f"model.path={case.folder / 'out' / 'model'}", "train.max_steps=1", "output_dir=two")
    assert again.returncode == 0, again.stderr
    assert math.isclose(events(case, "eval", "two")[0]["eval_loss"], best["eval_loss"], rel_tol=1e-6)


def test_sample_prompts(case):
    recipe = with_evaluation(case, "train: {global_batch_size: 2, max_steps: 2, sample_prompts: [\"What is 3 plus 3?\", hi], "
                                   "sample_max_new_tokens: 5}\n")
    done = case.run("train", recipe, "output_dir=out")
    assert done.returncode == 0, done.stderr
    for line in events(case, "eval"):
        assert [sample["prompt"] for sample in line["samples"]] == ["What is 3 plus 3?", "hi"], line
    answer = case.run("generate", case.folder / "out", "--chat", "hi", "--max-new-tokens", "5", "--json")
    assert json.loads(answer.stdout)["text"] == events(case, "eval")[-1]["samples"][1]["text"]
    case.fails(2, "train", recipe, "output_dir=long", f"train.sample_prompts=[{'a b ' * 100}]", says=["train.sample_prompts"])
    case.fails(2, "train", case.recipe(), "train.sample_prompts=[hi]", says=["train.sample_prompts", "evaluation data"])


def test_regularisation(case):
    """Noise and smoothing change the training loss, not that of an evaluation; 0 is off."""
    first = {}
    for name, override in (("plain", "train.seed=42"), ("zero", "train.neftune_noise_alpha=0"),
                           ("noise", "train.neftune_noise_alpha=50"), ("smooth", "train.label_smoothing=0.3")):
        recipe = with_evaluation(case, "train: {global_batch_size: 2, max_steps: 1}\n")
        done = case.run("train", recipe, override, f"output_dir={name}")
        assert done.returncode == 0, done.stderr
        first[name] = (events(case, "eval", name)[0]["eval_loss"], events(case, "train", name)[0]["loss"])
    assert first["zero"] == first["plain"]
    for name in ("noise", "smooth"):
        assert first[name][0] == first["plain"][0] and first[name][1] != first["plain"][1], first
    case.fails(2, "train", case.recipe(), "train.label_smoothing=1", says=["train.label_smoothing"])
    case.fails(2, "train", case.recipe(), "train.neftune_noise_alpha=-1", says=["train.neftune_noise_alpha"])


def test_lr_range_test(case):
    recipe = case.recipe(adapter=False)
    done = case.run("train", recipe, "--lr-range-test", "output_dir=out")
    assert done.returncode == 0 and "optimizer.learning_rate:" in done.stdout, done.stdout + done.stderr
    found = json.loads((case.folder / "out" / "lr-range-test.json").read_text())
    rates = [point["lr"] for point in found["points"]]
    assert math.isclose(rates[0], 1e-7, rel_tol=1e-3) and rates == sorted(rates) and len(rates) > 30
    assert 1e-6 < found["suggestion"] < 1, found["suggestion"]
    assert (case.folder / "out" / "lr-range-test.svg").read_text().startswith("<svg")
    # Nothing is trained for good: the folder takes a run afterwards.
    assert not (case.folder / "out" / "model").exists()
    assert case.run("train", recipe, "output_dir=out").returncode == 0


def test_added_tokens(case):
    """New tokens are ids of their own, rows of the model, and stay so in what is saved, with an adapter too."""
    case.rows([{"messages": [{"role": "user", "content": f"go {i}"},
                             {"role": "assistant", "content": f"<tool>{i}</tool>"}]} for i in range(12)])
    size = json.loads((TINY / "config.json").read_text())["vocab_size"]
    tokens = "model.added_tokens=[<tool>, </tool>, <|im_end|>]"
    for name, adapter in (("full", False), ("lora", True)):
        done = case.run("train", case.recipe(adapter=adapter), tokens, f"output_dir={name}")
        assert done.returncode == 0 and "added tokens: 2 of 3 are new" in done.stderr, done.stderr
        saved = case.folder / name / ("adapter" if adapter else "model")
        if adapter:
            merged = case.run("export", name, "--merge", "--out", "merged", "--json")
            assert json.loads(merged.stdout)["max_logit_diff"] < 1e-4, merged.stdout + merged.stderr
            saved = case.folder / "merged"
        assert json.loads((saved / "config.json").read_text())["vocab_size"] == size + 2
        ids = json.loads(case.run("tokenize", saved, text="<tool>5</tool>").stdout)
        assert ids[0] == size and ids[-1] == size + 1, ids
        assert case.run("generate", case.folder / name, "--prompt", "go", "--max-new-tokens", "3").returncode == 0
    case.fails(2, "train", case.recipe(adapter=False), tokens, "train.freeze=[embed_tokens]", "output_dir=frozen",
               says=["train.freeze", "model.added_tokens"])
    bare = model_copy(case, "bare")
    edit_json(bare / "tokenizer.json", lambda t: t["model"].update(type="WordPiece"))
    case.fails(4, "train", case.recipe(model=bare), tokens, "output_dir=bare", says=["tokenizer.json"])


def test_long_context(case):
    """A length beyond the model's context is capped and said, or reached by scaling positions."""
    context = json.loads((TINY / "config.json").read_text())["max_position_embeddings"]
    done = case.run("train", case.recipe(), f"data.sequence_len={2 * context}", "output_dir=capped")
    assert f"capped to {context}" in done.stderr, done.stderr
    for kind in ("linear", "yarn", "dynamic"):
        done = case.run("train", case.recipe(adapter=False), f"data.sequence_len={2 * context}", f"output_dir={kind}",
                        f"model.rope_scaling={{rope_type: {kind}, factor: 2}}")
        assert done.returncode == 0 and "capped" not in done.stderr, done.stderr
        config = json.loads((case.folder / kind / "model" / "config.json").read_text())
        scaling = config.get("rope_scaling") or config["rope_parameters"]
        assert scaling["rope_type"] == kind, config
    case.fails(2, "train", case.recipe(), "model.rope_scaling={rope_type: longrope, factor: 2}",
               says=["model.rope_scaling.rope_type"])


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
