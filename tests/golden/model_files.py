"""Writes the models' directories and their adapters', and loads them with transformers and peft."""

import json
import math

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from checkpoint_names import IN_FILES, is_text

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
LORA_RANK = 4
LORA_ALPHA = 8


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def _is_norm(name):
    return name.endswith("norm.weight") or name.split(".")[-2].startswith("ln_")


def _random_weight(name, shape, random, norms=1.0, transposed=False):
    """Of a size that makes every gradient matter: nothing starts at one or zero. Norms are around `norms`."""
    values = random.standard_normal(shape)
    if name.endswith(".weight") and _is_norm(name):
        values = norms + 0.2 * values
    elif name.endswith(".bias"):
        values = 0.3 * values
    else:
        values = values / math.sqrt(shape[0 if transposed else -1])
    return torch.from_numpy(values.astype(np.float32))


def write_tensors(directory, tensors, shards):
    """One file, or `shards` files and their index."""
    metadata = {"format": "pt"}
    if shards == 1:
        save_file(tensors, directory / "model.safetensors", metadata)
        return
    names = list(tensors)
    weight_map = {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = {n: tensors[n] for n in names[i * len(names) // shards : (i + 1) * len(names) // shards]}
        save_file(part, directory / file, metadata)
        weight_map |= dict.fromkeys(part, file)
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))}
    write_json(directory / "model.safetensors.index.json", index)


def write_model(variant, directory):
    directory.mkdir(parents=True)
    write_json(directory / "config.json", variant.config)
    if variant.generation_config is not None:
        write_json(directory / "generation_config.json", variant.generation_config)
    # transformers knows the names and shapes; named_parameters lists a tied weight once.
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory))
    random = np.random.default_rng(variant.seed)
    tensors = {}
    norms = 0.0 if "gemma" in variant.config["model_type"] else 1.0
    in_out = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, Conv1D)}
    for name, parameter in sorted(model.named_parameters()):
        if is_text(name):
            values = _random_weight(name, tuple(parameter.shape), random, norms, name in in_out)
            tensors[name] = values.to(DTYPES[variant.dtype])
    write_tensors(directory, IN_FILES[variant.names](tensors, variant.config), variant.shards)


def load_model(directory, config=None):
    """In fp32, whatever the file has, and without dropout. Eager attention: the plain formula."""
    model = AutoModelForCausalLM.from_pretrained(directory, config=config, dtype=torch.float32,
                                                 attn_implementation="eager")
    for name, parameter in model.named_parameters():
        parameter.requires_grad = is_text(name)
    return model.eval()


def write_adapter(variant, base, directory):
    """An adapter with random A and random B: peft's own B is zero, where A has no gradient."""
    config = LoraConfig(r=LORA_RANK, lora_alpha=LORA_ALPHA, lora_dropout=0.0,
                        target_modules=variant.targets,
                        fan_in_fan_out=variant.config["model_type"] == "gpt2",
                        task_type="CAUSAL_LM")
    model = get_peft_model(load_model(base), config)
    random = np.random.default_rng(variant.seed + 100)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if "lora_" in name:
                values = _random_weight(name, tuple(parameter.shape), random)
                # A small change to the base, as adapters are: a large one makes a model that amplifies rounding.
                parameter.copy_(0.1 * values if "lora_B" in name else values)
    model.save_pretrained(directory)
    (directory / "README.md").unlink()
    # peft keeps the targets in a set and the base's path on the machine that wrote it.
    written = json.loads((directory / "adapter_config.json").read_text())
    if isinstance(written["target_modules"], list):
        written["target_modules"].sort()
    written["base_model_name_or_path"] = base.name
    write_json(directory / "adapter_config.json", dict(sorted(written.items())))


def load_adapted(base, directory):
    return PeftModel.from_pretrained(load_model(base), directory, is_trainable=True).eval()
