#!/usr/bin/env python3
"""ftune plan: what it says of memory is what a run needs, to the byte; of real models, from their config.json alone.

    test_plan.py --ftune BINARY --work FOLDER [NAMES...]
"""

import json
import shutil
import sys
from pathlib import Path

from cli_case import HERE, run_tests
from verify_recipe import parity_recipe

MODELS = HERE.parent / "golden" / "models"
MATERIAL = Path(__file__).resolve().parents[3] / "shared" / "material" / "model_configs"
FULL = []
LORA = ["adapter.lora_r=4"]
# What is planned and then trained: the model, and the recipe's keys.
RECIPES = {
    "full": ("llama", FULL),
    "bf16": ("llama", ["precision.weights=bf16"]),
    "bf16 without masters": ("llama", ["precision.weights=bf16", "precision.master=none"]),
    "fp16": ("llama", ["precision.weights=fp16"]),
    "microbatches": ("llama", ["train.global_batch_size=8", "train.micro_batch_size=2"]),
    "recomputed": ("llama", ["memory.activation_checkpointing=full"]),
    "recomputed in part": ("llama", ["memory.activation_checkpointing=selective"]),
    "every second": ("llama", ["memory.activation_checkpointing=2"]),
    "frozen": ("llama", ["train.freeze=[embed, 'layers.0.']"]),
    "evaluated": ("llama", ["data.eval=[long.txt]", "train.eval_steps=1"]),
    "lion": ("llama", ["optimizer.name=lion"]),
    "muon": ("llama", ["optimizer.name=muon"]),
    "adafactor": ("llama", ["optimizer.name=adafactor"]),
    "8 bit": ("llama", ["optimizer.name=adamw_8bit"]),
    "states on disk": ("llama", ["memory.offload=optimizer"]),
    "lora": ("llama", LORA),
    "dora": ("llama", [*LORA, "adapter.use_dora=true"]),
    "qlora": ("llama", [*LORA, "adapter.kind=qlora"]),
    "gemma2": ("gemma2", FULL),
    "gemma3": ("gemma3", LORA),
    "gpt2": ("gpt2", FULL),
    "phi3": ("phi3", FULL),
    "qwen3": ("qwen3", FULL),
    "smollm3": ("smollm3", FULL),
    "zero 0": ("llama", ["parallel.data=2"]),
    "zero 1": ("llama", ["parallel.data=2", "parallel.zero=1"]),
    "zero 2": ("llama", ["parallel.data=2", "parallel.zero=2"]),
    "zero 3": ("llama", ["parallel.data=3", "parallel.zero=3", "train.global_batch_size=6"]),
    "zero 3, gathered once": ("llama", ["parallel.data=2", "parallel.zero=3", "parallel.reshard_after_forward=false"]),
    "zero 3, lora": ("llama", ["parallel.data=2", "parallel.zero=3", *LORA]),
    "tensor": ("llama", ["parallel.tensor=2"]),
    "sequence": ("llama", ["parallel.tensor=2", "parallel.sequence_parallel=true", "memory.activation_checkpointing=selective"]),
    "tensor and data": ("qwen3", ["parallel.tensor=2", "parallel.data=2", "parallel.zero=3"]),
}
# A stage sends while it computes: what is on its way, at a moment that is another each time, is of these at most a few.
PIPELINES = {
    "1f1b": ["parallel.pipeline=2"],
    "gpipe": ["parallel.pipeline=2", "parallel.schedule=gpipe"],
    "zb-h1": ["parallel.pipeline=2", "parallel.schedule=zb-h1"],
    "zb-v, without a barrier": ["parallel.pipeline=2", "parallel.schedule=zb-v", "optimizer.max_grad_norm=null"],
}


def write_recipe(case, model):
    parity_recipe(case, model)  # the model, with a tokenizer
    # One long text is cut into full packs: a plan counts on nothing less.
    (case.folder / "long.txt").write_text("the engine trains a model on text " * 3000)
    (case.folder / "recipe.yaml").write_text(
        f"model: {{path: {model}}}\n"
        "data: {train: long.txt, sequence_len: 64}\n"
        "train: {global_batch_size: 4, max_steps: 3}\n"
        "launch: {threads: 1}\n")
    return "recipe.yaml"


def planned(case, recipe, *words):
    done = case.run("plan", recipe, *words, "--json")
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


def trained(case, recipe, *words):
    """→ what a run's log says of memory: before the first step on rank 0, and at the peak of the rank that needs most."""
    done = case.run("train", recipe, "output_dir=out", "--force", *words)
    assert done.returncode == 0, (words, done.stderr)
    log = case.log()
    steps = [line["memory"] for line in log if line["event"] == "train"]
    return next(line["memory"] for line in log if line["event"] == "start"), max(steps, key=total)


def total(memory):
    return sum(memory.values())


def test_ledger(case):
    """To the byte: 33 recipes, one after another."""
    for name, (model, words) in RECIPES.items():
        shutil.rmtree(case.folder / model, ignore_errors=True)
        recipe = write_recipe(case, model)
        plan = planned(case, recipe, *words)
        start, peak = trained(case, recipe, *words)
        most = max((role["step"] for role in plan["roles"]), key=total)
        assert most == peak, (name, most, peak)
        assert any(role["ready"] == start for role in plan["roles"]) or len(plan["roles"]) > 1 or "parallel.data" in str(words), \
            (name, plan, start)
        assert plan["fits"] and all(role["peak"] >= total(role["step"]) > 0 for role in plan["roles"]), (name, plan)


def test_pipelines(case):
    """All but activations to the byte, and of these all but what is on its way, to and from the stages before and behind."""
    recipe = write_recipe(case, "smollm2")
    hidden_size = json.loads((case.folder / "smollm2" / "config.json").read_text())["hidden_size"]
    boundary = -(-64 * hidden_size * 4 // 4096) * 4096  # bytes of a microbatch between two stages, in whole pages
    for name, words in PIPELINES.items():
        plan = planned(case, recipe, *words)
        _, peak = trained(case, recipe, *words)
        most = max((role["step"] for role in plan["roles"]), key=total)
        on_its_way = peak["activations"] - most["activations"]
        assert 0 <= on_its_way <= 4 * boundary, (name, most, peak)
        for category in ("weights", "gradients", "optimizer", "communication"):
            assert most[category] == peak[category], (name, category, most, peak)


# Parameters, as the models' authors count them.
PARAMETERS = {"llama3_1_8b": 8030261248, "llama3_1_70b": 70553706496, "llama2_7b": 6738415616, "mistral_7b": 7241732096,
              "qwen3_0.6b": 596049920, "gemma2_9b": 9241705984, "gemma3_1b_it": 999885952, "smollm2_135m": 134515008, "gpt2": 124439808}


def test_config_alone(case):
    """Of a real model's config.json: its parameters; weights in the type that it names, gradients in fp32, two moments and a master."""
    if not MATERIAL.is_dir():
        print(f"SKIP: {len(PARAMETERS)} configs: {MATERIAL} is absent")
        return
    for name, parameters in PARAMETERS.items():
        config = MATERIAL / "hf_style" / f"{name}.config.json"
        # Nothing of the data is needed.
        (case.folder / "recipe.yaml").write_text(
            f"model: {{path: {config}}}\ndata: {{train: none.jsonl, sequence_len: 128}}\nprecision: {{weights: bf16}}\n"
            "train: {global_batch_size: 1, micro_batch_size: 1}\n")
        done = case.run("plan", "recipe.yaml", "--json")
        plan = json.loads(done.stdout)
        assert plan["parameters"] == plan["trainable_parameters"] == parameters, (name, plan)
        (role,) = plan["roles"]
        assert done.returncode == plan["exit"] == (0 if plan["fits"] else 3), (name, done)
        assert plan["fits"] == role["fits"] == (role["needs"] <= role["capacity"]), (name, role)
        # Whole pages, or cache lines of small ones, for each block.
        for category, bytes_each in (("weights", 2), ("gradients", 4), ("optimizer", 12)):
            assert 0 <= role["ready"][category] / (bytes_each * parameters) - 1 < 0.01, (name, category, role)
        zero = json.loads(case.run("plan", "recipe.yaml", "parallel.data=8", "parallel.zero=3", "train.global_batch_size=8", "--json").stdout)
        shares = zero["roles"][0]["ready"]
        for category in ("gradients", "optimizer"):
            assert 0.95 < 8 * shares[category] / role["ready"][category] < 1.05, (name, category, shares)


def test_words(case):
    recipe = write_recipe(case, "llama")
    done = case.run("plan", recipe, "parallel.pipeline=2", "parallel.tensor=2")
    assert done.returncode == 0, done.stderr
    for part in ("role", "pipeline 0", "pipeline 1", "the peak is in", "the recipe fits"):
        assert part in done.stdout, (part, done.stdout)


def test_does_not_fit(case):
    """The table is complete all the same, and the exit status says so."""
    recipe = write_recipe(case, "llama")
    done = case.run("plan", recipe, "train.micro_batch_size=1000000", "train.global_batch_size=1000000", "--json")
    plan = json.loads(done.stdout)
    assert done.returncode == plan["exit"] == 3 and not plan["fits"] and plan["roles"][0]["memory"]["activations"] > 0, done
    done = case.run("plan", recipe, "train.micro_batch_size=1000000", "train.global_batch_size=1000000")
    assert done.returncode == 3 and "does not fit" in done.stdout and "error" not in done.stderr, done


def test_wrong_input(case):
    recipe = write_recipe(case, "llama")
    case.fails(2, "plan", recipe, "parallel.tensor=3", says=["parallel.tensor"])
    case.fails(2, "plan", recipe, "parallel.pipeline=50", says=["parallel.pipeline"])
    case.fails(2, "plan", recipe, "--schedule", "x.png", says=["--schedule"])
    case.fails(4, "plan", recipe, "model.path=nowhere", says=["nowhere"])
    config = json.loads((MODELS / "llama" / "config.json").read_text())
    for change, says in (({"hidden_size": None}, "hidden_size"), ({"num_key_value_heads": 3}, "num_key_value_heads"),
                         ({"torch_dtype": "float8_e4m3fn"}, "torch_dtype")):
        changed = {key: value for key, value in {**config, **change}.items() if value is not None}
        (case.folder / "odd.json").write_text(json.dumps(changed))
        case.fails(4, "plan", recipe, "model.path=odd.json", says=[says])
    (case.folder / "cut.json").write_text(json.dumps(config)[:50])
    case.fails(4, "plan", recipe, "model.path=cut.json", says=["cut.json"])


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
