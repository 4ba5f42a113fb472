"""Names of the parameters: as transformers has them in memory, in files of the field, and in the fixtures."""

import torch


def _gpt2_original(tensors, config):
    """Without the prefix, and with the buffers that its first files carry."""
    renamed = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    size = config["n_positions"]
    for layer in range(config["n_layer"]):
        renamed[f"h.{layer}.attn.bias"] = torch.ones(size, size).tril()[None, None]
        renamed[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    return renamed


def _gemma3_wrapper(tensors, config):
    """What transformers up to 4.51 wrote, and 5 writes."""
    return {name.replace("model.language_model.", "language_model.model."): tensor for name, tensor in tensors.items()}


IN_FILES = {
    "": lambda tensors, config: tensors,
    "gpt2_original": _gpt2_original,
    "gemma3_wrapper": _gemma3_wrapper,
}


def is_text(name):
    return "vision_tower." not in name and "multi_modal_projector." not in name


def in_fixtures(name):
    """peft's and transformers' names → <module>.lora_A.weight, and those of a model of text alone."""
    name = name.removeprefix("base_model.model.").replace(".modules_to_save.default.", ".")
    name = name.replace(".lora_magnitude_vector.default.weight", ".lora_magnitude_vector")
    name = name.replace(".default.weight", ".weight").removesuffix(".default")
    return name.replace("model.language_model.", "model.")
