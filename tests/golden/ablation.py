"""Shows that what is special about a variant matters: without it, the logits are others."""

import copy

import torch
from transformers import AutoConfig

import model_files
from training import forward

LEAST = 1e-3  # of the largest difference of a logit


def _replace_norms(model, names):
    for module in list(model.modules()):
        for name in names:
            if hasattr(module, name):
                setattr(module, name, torch.nn.Identity())


def _without_embedding_scale(model):
    model.get_input_embeddings().embed_scale.fill_(1.0)


def _without_one_plus(model):
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            parameter.data -= 1.0


_WITHOUT = {
    "qk_norm": lambda model: _replace_norms(model, ("q_norm", "k_norm")),
    "post_norms": lambda model: _replace_norms(model, ("post_attention_layernorm", "post_feedforward_layernorm")),
    "embedding_scale": _without_embedding_scale,
    "one_plus_w": _without_one_plus,
    "positions": lambda model: model.transformer.wpe.weight.data.zero_(),
}


def _patched(config, changes):
    """None removes a key, ... makes it null."""
    config = copy.deepcopy(config)
    for path, value in changes.items():
        *parents, key = path.split(".")
        place = config
        for parent in parents:
            place = place[parent]
        if value is None:
            place.pop(key, None)
        else:
            place[key] = None if value is ... else value
    return config


def check(variant, base, batch):
    """→ what `matters` with the differences; an AssertionError where one is too small."""
    with torch.no_grad():
        _, want = forward(model_files.load_model(base), batch)
        found = []
        for change in variant.matters:
            if isinstance(change, str):
                model = model_files.load_model(base)
                _WITHOUT[change](model)
            else:
                config = AutoConfig.for_model(**_patched(variant.config, change))
                model = model_files.load_model(base, config)
            _, got = forward(model, batch)
            difference = (got - want).abs().max().item()
            assert difference >= LEAST, f"{variant.name}: without {change} logits differ by {difference} at most"
            found.append((change, difference))
    return found
