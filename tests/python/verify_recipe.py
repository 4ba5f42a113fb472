"""Recipes whose runs on different meshes are compared: small models that up to four ranks can split, and rows of uneven
lengths of which some tokens are trained."""

import random
import shutil

from cli_case import HERE, edit_json
from small_tokenizer import TOKENS, write_small_tokenizer

ADAPTER = "adapter.lora_r=4"


def _rows(count):
    draw = random.Random(5)
    rows = []
    for _ in range(count):
        ids = [draw.randrange(TOKENS) for _ in range(draw.randrange(4, 30))]
        rows.append({"input_ids": ids, "labels": [token if draw.random() < 0.6 else -100 for token in ids]})
    return rows


def parity_recipe(case, name, more=""):
    """→ the recipe, in the case's folder, of a golden model that is copied there"""
    model = case.folder / name
    shutil.copytree(HERE.parent / "golden" / "models" / name, model)
    write_small_tokenizer(model)
    if name == "gpt2":
        edit_json(model / "config.json", lambda config: config.update(n_head=4))  # of 3, which no mesh splits
    case.rows(_rows(60), "rows.jsonl")
    recipe = case.folder / "recipe.yaml"
    recipe.write_text(f"model: {{path: {name}}}\n"
                      "data: {train: rows.jsonl, sequence_len: 32}\n"
                      "train: {global_batch_size: 12, max_steps: 6, num_epochs: 6}\n"
                      "optimizer: {name: sgd, learning_rate: 0.05, max_grad_norm: 0.5}\n"
                      f"output_dir: out\n{more}")
    return recipe.name
