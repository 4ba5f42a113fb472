#!/usr/bin/env python3
"""Makes quantized/<adapter>.safetensors: adapters on bases whose linears are quantised; or, with --check, compares.

The reference is the adapter's base with the weight of each linear of its decoder replaced by what bitsandbytes makes of
it, in fp32. The adapter is models/<name>-lora or adapters/<name>. Tensors are named as in fixtures/ (README.md), with the
form for the mode.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import quantized_golden  # first: it sets an option of torch
import bitsandbytes.functional as bnb
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging

import model_files
from batches import make_batches
from compare import TOLERANCE, tensor_error
from training import one_batch

HERE = Path(__file__).resolve().parent
FORMS = {"llama": ("nf4", "fp4"), "qwen2": ("nf4", "int8"), "gpt2": ("nf4", "int8")} | {
    name: ("nf4",) for name in ("smollm2", "mistral-nemo", "qwen3", "smollm3", "phi3", "phi4-mini", "gemma", "gemma2",
                                "gemma3", "dora")}


def quantized(weight, kind):
    """What comes back of a weight."""
    if kind == "int8":
        codes, state = bnb.quantize_blockwise(weight.contiguous(), blocksize=quantized_golden.BLOCK)
        return bnb.dequantize_blockwise(codes, state)
    return quantized_golden.four_bit(weight.contiguous(), kind)["values"].reshape(weight.shape)


def quantized_model(base, kind):
    model = model_files.load_model(base)
    linears = [m for m in model.base_model.modules() if isinstance(m, (torch.nn.Linear, Conv1D))]
    assert linears
    with torch.no_grad():
        for linear in linears:
            linear.weight.copy_(quantized(linear.weight.detach(), kind))
    return model


def tensors(name):
    adapter = HERE / "adapters" / name
    if not adapter.exists():
        adapter = HERE / "models" / f"{name}-lora"
    base = HERE / "models" / json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"]
    batch = make_batches()[0]
    made = {}
    for kind in FORMS[name]:
        model = PeftModel.from_pretrained(quantized_model(base, kind), adapter, is_trainable=True)
        made |= {f"{kind}.{n}": t.contiguous().clone() for n, t in one_batch(model, batch).items()}
    return made


def differences(made, kept):
    yield from sorted(made.keys() ^ kept.keys())
    for name in sorted(made.keys() & kept.keys()):
        if made[name].shape != kept[name].shape or not tensor_error(name, made[name], kept[name], 1e-3) <= TOLERANCE:
            yield name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the tree and change nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a fixed order of sums
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning)  # of transformers about itself
    wrong = 0
    for name in FORMS:
        path = HERE / "quantized" / f"{name}.safetensors"
        made = tensors(name)
        if not arguments.check:
            save_file(made, path)
            continue
        for tensor in differences(made, load_file(path)):
            print(f"qlora_golden: {name}: {tensor}: differs", file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
