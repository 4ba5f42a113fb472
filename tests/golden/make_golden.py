#!/usr/bin/env python3
"""Makes the golden values, or checks that the ones in the tree are what PyTorch says. See README.md."""

import argparse
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers.utils import logging

import ablation
import model_files
import tiny_chat
from batches import batch_tensors, make_batches
from compare import compare_trees
from training import AdamW, Sgd, adamw_steps, one_batch, sgd_steps
from variants import VARIANTS

HERE = Path(__file__).resolve().parent


def _prefixed(prefix, tensors):
    return {f"{prefix}.{name}": tensor.contiguous().clone() for name, tensor in tensors.items()}


def variant_tensors(variant, base, adapter, batches):
    fixture = {}
    for mode, load in (("full", lambda: model_files.load_model(base)),
                       ("lora", lambda: model_files.load_adapted(base, adapter))):
        fixture |= _prefixed(mode, one_batch(load(), batches[0]))
        if "adamw" in variant.steps:
            moments = adamw_steps(load(), batches, AdamW())
            if mode == "lora":
                moments = {name: t for name, t in moments.items() if not name.startswith("exp_avg")}
            fixture |= _prefixed(f"{mode}.adamw", moments)
        if "sgd" in variant.steps:
            fixture |= _prefixed(f"{mode}.sgd", sgd_steps(load(), batches, Sgd()))
    return fixture


def make(root):
    """Writes models/ and fixtures/ below `root`."""
    batches = make_batches()
    (root / "fixtures").mkdir(parents=True)
    save_file({n: torch.from_numpy(t) for n, t in batch_tensors(batches).items()},
              root / "fixtures" / "batches.safetensors")
    for variant in VARIANTS:
        base = root / "models" / variant.name
        adapter = root / "models" / f"{variant.name}-lora"
        model_files.write_model(variant, base)
        model_files.write_adapter(variant, base, adapter)
        fixture = variant_tensors(variant, base, adapter, batches)
        save_file(fixture, root / "fixtures" / f"{variant.name}.safetensors")
        full, lora = (fixture[f"{mode}.loss"].item() for mode in ("full", "lora"))
        print(f"{variant.name}: loss {full:.6f}, with the adapter {lora:.6f}", file=sys.stderr)
        for change, difference in ablation.check(variant, base, batches[0]):
            print(f"  without {change}: logits differ by {difference:.3f}", file=sys.stderr)
    tiny_chat.write(root / "models" / "tiny-chat")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the tree and change nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a fixed order of sums
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning)  # of transformers about itself
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        make(root)
        if arguments.check:
            return compare_trees(root, HERE)
        for folder in ("models", "fixtures"):
            shutil.rmtree(HERE / folder, ignore_errors=True)
            shutil.copytree(root / folder, HERE / folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
