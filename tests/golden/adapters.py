#!/usr/bin/env python3
"""Makes the golden values of each kind of adapter, or checks those in the tree. See README.md."""

import argparse
import json
import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers.utils import logging

import model_files
from batches import make_batches
from compare import TOLERANCE, tensor_error
from training import Sgd, one_batch, sgd_steps

HERE = Path(__file__).resolve().parent
VALUES = "values.safetensors"
ALL_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclass(frozen=True)
class Kind:
    name: str
    base: str  # of models/
    config: dict


KINDS = [
    Kind("rslora", "llama", dict(target_modules=ALL_LINEAR, use_rslora=True, lora_alpha=4)),
    Kind("dora", "llama", dict(target_modules=ALL_LINEAR, use_dora=True)),
    # Magnitudes scale the product but not the bias; some parts of q, k and v only; rank-stabilised.
    Kind("dora-bias", "llama-linear",
         dict(target_modules=["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"], use_dora=True,
              use_rslora=True)),
    # The first pattern that matches counts; a name is matched from a dot on.
    Kind("patterns", "mistral",
         dict(target_modules=ALL_LINEAR,
              rank_pattern={"1.self_attn.[qk]_proj": 3, "q_proj": 2, "layers.1.mlp.*": 5},
              alpha_pattern={"v_proj": 1, "layers.0.*": 12})),
    Kind("layers", "mistral",
         dict(target_modules=["self_attn.q_proj", "down_proj", "up_proj"], layers_to_transform=[1],
              exclude_modules=["up_proj"])),
    # "norm" is every module whose name ends so.
    Kind("saved", "llama",
         dict(target_modules=["q_proj", "down_proj"], modules_to_save=["embed_tokens", "lm_head", "norm"])),
    Kind("saved-tied", "smollm2",
         dict(target_modules=["v_proj"], modules_to_save=["embed_tokens"], ensure_weight_tying=True)),
    # A copy of the head alone is trained: it is tied no more.
    Kind("saved-untied", "smollm2", dict(target_modules=["v_proj"], modules_to_save=["lm_head"])),
    Kind("ends", "llama", dict(target_modules=["k_proj", "embed_tokens", "lm_head"])),
    Kind("ends-tied", "qwen2", dict(target_modules=["q_proj", "embed_tokens"])),
    Kind("dora-ends", "llama", dict(target_modules=["up_proj", "embed_tokens", "lm_head"], use_dora=True)),
]


def randomize(model, seed):
    """Nothing starts at zero or one, and everything changes the base by a little."""
    random = np.random.default_rng(seed)
    for name, parameter in sorted(model.named_parameters()):
        if not parameter.requires_grad:
            continue
        noise = torch.from_numpy(random.standard_normal(tuple(parameter.shape)).astype(np.float32))
        with torch.no_grad():
            if "lora_magnitude" in name or "modules_to_save" in name:
                parameter.mul_(1.0 + 0.1 * noise)
            else:
                small = 0.1 if "lora_B" in name or "lora_embedding_B" in name else 1.0
                parameter.copy_(small * noise / parameter.shape[-1] ** 0.5)


def write_adapter(kind, seed, directory):
    base = HERE / "models" / kind.base
    config = LoraConfig(**(dict(r=4, lora_alpha=8, lora_dropout=0.0, task_type="CAUSAL_LM") | kind.config))
    model = get_peft_model(model_files.load_model(base), config)
    randomize(model, seed)
    model.save_pretrained(directory, save_embedding_layers=False)
    (directory / "README.md").unlink()
    path = directory / "adapter_config.json"
    written = json.loads(path.read_text())
    written["base_model_name_or_path"] = base.name
    # peft keeps sets, and sorts the patterns, whose order means something.
    written["target_modules"].sort()
    for key in ("rank_pattern", "alpha_pattern", "modules_to_save", "exclude_modules"):
        if kind.config.get(key):
            written[key] = kind.config[key]
    model_files.write_json(path, dict(sorted(written.items())))


def values(kind, directory, batches):
    load = lambda: model_files.load_adapted(HERE / "models" / kind.base, directory)
    tensors = one_batch(load(), batches[0])
    tensors |= {f"sgd.{name}": tensor for name, tensor in sgd_steps(load(), batches, Sgd()).items()}
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}


def make(root):
    batches = make_batches()
    for seed, kind in enumerate(KINDS):
        directory = root / kind.name
        write_adapter(kind, seed, directory)
        made = values(kind, directory, batches)
        save_file(made, directory / VALUES)
        print(f"{kind.name}: loss {made['loss'].item():.6f}", file=sys.stderr)


def compare(made, tree):
    """→ exit status: text and adapters to the byte, computed tensors to rounding."""
    problems = []
    files = lambda root: {p.relative_to(root) for p in root.rglob("*") if p.is_file()}
    for path in sorted(files(made) ^ files(tree)):
        problems.append(f"{path}: only in {'the new values' if (made / path).exists() else 'the tree'}")
    for path in sorted(files(made) & files(tree)):
        if path.name != VALUES:
            if (made / path).read_bytes() != (tree / path).read_bytes():
                problems.append(f"{path}: differs")
            continue
        got, want = load_file(made / path), load_file(tree / path)
        if got.keys() != want.keys():
            problems.append(f"{path}: tensors differ: {sorted(got.keys() ^ want.keys())}")
            continue
        norm = sum(t.double().square().sum() for n, t in want.items() if n.startswith("grad.")).sqrt().item()
        for name, tensor in want.items():
            error = tensor_error("." + name, got[name], tensor, 1e-3 * norm)
            if not error <= TOLERANCE:
                problems.append(f"{path}: {name}: error {error:.2e}, more than {TOLERANCE:.0e}")
    for problem in problems:
        print(f"adapters: {problem}", file=sys.stderr)
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the tree and change nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a fixed order of sums
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore")  # of peft about tied models, which are meant
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        make(root)
        if arguments.check:
            return compare(root, HERE / "adapters")
        shutil.rmtree(HERE / "adapters", ignore_errors=True)
        shutil.copytree(root, HERE / "adapters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
