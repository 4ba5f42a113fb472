#!/usr/bin/env python3
"""The loss curve of SmolLM2 with LoRA: ftune's and peft's on the same batches, from the same adapter.

    smollm2_curve.py --ftune BINARY --gguf SmolLM2.gguf --work FOLDER

peft makes the adapter; ftune starts from it (model.init_from), says which batches it trains on (inspect --batches)
and trains; then transformers and peft train on those batches, each sample alone. Exits with 1 where a step's losses
differ by more than 1e-3.
"""

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import reference
import torch
from ftune_batches import IGNORE, parse_steps
from ftune_cli import Ftune
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import get_cosine_schedule_with_warmup
from transformers.utils import logging

TOLERANCE = 1e-3
LEARNING_RATE = 1e-3
WARMUP_STEPS = 3
WEIGHT_DECAY = 0.01
MAX_GRAD_NORM = 1.0
LORA = {"r": 8, "lora_alpha": 16, "lora_dropout": 0.0}


def write_adapter(model, folder):
    torch.manual_seed(5)
    config = LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM", **LORA)
    get_peft_model(model, config).save_pretrained(folder)


def write_recipe(arguments, adapter, folder):
    recipe = {
        "output_dir": str(folder / "run"),
        "model": {"path": str(arguments.gguf.resolve()), "init_from": str(adapter)},
        "adapter": {"kind": "lora", "lora_r": LORA["r"], "lora_alpha": LORA["lora_alpha"]},
        "data": {"train": [str(ROOT / "recipes" / "data" / "ftune-faq.jsonl")],
                 "sequence_len": arguments.sequence_len},
        "train": {"global_batch_size": 2, "micro_batch_size": 1, "max_steps": arguments.steps,
                  "num_epochs": 100},
        "optimizer": {"learning_rate": LEARNING_RATE, "lr_scheduler": "cosine", "warmup_steps": WARMUP_STEPS,
                      "weight_decay": WEIGHT_DECAY, "max_grad_norm": MAX_GRAD_NORM},
    }
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(recipe, indent=2))  # JSON is YAML
    return path


def sum_of_losses(model, micro):
    total = 0.0
    for begin, length in micro.segments:
        ids = torch.tensor([micro.ids[begin : begin + length]])
        labels = torch.tensor(micro.labels[begin : begin + length])
        trained = (labels != IGNORE).nonzero()[:, 0]
        if len(trained) == 0:
            continue
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=trained).logits[0]
        total = total + torch.nn.functional.cross_entropy(logits, labels[trained], reduction="sum")
    return total


def peft_losses(model, steps):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = get_cosine_schedule_with_warmup(optimizer, WARMUP_STEPS, len(steps))
    for microbatches in steps:
        trained_tokens = sum(micro.trained_tokens for micro in microbatches)
        loss = 0.0
        for micro in microbatches:
            part = sum_of_losses(model, micro) / trained_tokens
            part.backward()
            loss += part.item()
        torch.nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        yield loss


def read_losses(run):
    lines = [json.loads(text) for text in (run / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["event"] == "train"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--sequence-len", type=int, default=256)
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = arguments.work.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    adapter = folder / "initial"
    write_adapter(reference.load_gguf(arguments.gguf), adapter)
    recipe = write_recipe(arguments, adapter, folder)
    ftune = Ftune(arguments.ftune)
    steps = parse_steps(ftune("inspect", recipe, "--batches", arguments.steps)["batches"])
    ftune("train", recipe)
    ours = read_losses(folder / "run")
    assert len(steps) == len(ours) == arguments.steps, (len(steps), len(ours))

    model = PeftModel.from_pretrained(reference.load_gguf(arguments.gguf), adapter, is_trainable=True)
    worst = 0.0
    print("step   ftune      peft       difference")
    for step, (got, want) in enumerate(zip(ours, peft_losses(model, steps)), 1):
        worst = max(worst, abs(got - want))
        print(f"{step:4}   {got:.6f}   {want:.6f}   {got - want:+.1e}", flush=True)
    third = len(ours) // 3
    fallen = statistics.mean(ours[:third]) - statistics.mean(ours[-third:])
    print(f"largest difference {worst:.1e}, at most {TOLERANCE:.0e} is right; the loss fell by {fallen:.2f}, from third to third")
    # A curve that does not fall would agree with anything.
    return 0 if worst <= TOLERANCE and fallen > 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
