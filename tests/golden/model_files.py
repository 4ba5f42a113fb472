"""Writes the models' directories and their adapters', and loads them with transformers and peft."""

import json
import math

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
LORA_RANK = 4
LORA_ALPHA = 8


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def _random_weight(name, shape, random):
    """Of a size that makes every gradient matter: nothing starts at one or zero."""
    values = random.standard_normal(shape)
    if name.endswith("norm.weight"):
        values = 1.0 + 0.2 * values
    elif name.endswith(".bias"):
        values = 0.3 * values
    else:
        values = values / math.sqrt(shape[-1])
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
    for name, parameter in sorted(model.named_parameters()):
        tensors[name] = _random_weight(name, tuple(parameter.shape), random).to(DTYPES[variant.dtype])
    write_tensors(directory, tensors, variant.shards)


def load_model(directory):
    """In fp32, whatever the file has. Eager attention: the plain formula."""
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")


def write_adapter(variant, base, directory):
    """An adapter with random A and random B: peft's own B is zero, where A has no gradient."""
    config = LoraConfig(r=LORA_RANK, lora_alpha=LORA_ALPHA, lora_dropout=0.0, target_modules="all-linear",
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
    written["target_modules"].sort()
    written["base_model_name_or_path"] = base.name
    write_json(directory / "adapter_config.json", dict(sorted(written.items())))


def load_adapted(base, directory):
    return PeftModel.from_pretrained(load_model(base), directory, is_trainable=True)


def parameter_name(name):
    """peft's name of a parameter → ftune's: <module>.lora_A.weight."""
    name = name.removeprefix("base_model.model.").replace(".modules_to_save.default.", ".")
    name = name.replace(".lora_magnitude_vector.default.weight", ".lora_magnitude_vector")
    return name.replace(".default.weight", ".weight").removesuffix(".default")
