#!/usr/bin/env python3
"""ggml's quantised blocks and their values, as the gguf package has them; or checks the file in the tree.

    gguf_quants.py [--check]

quants/gguf.safetensors, all flat. Of every type that ftune reads: `<type>.blocks` u8, random blocks with scales from
fp16's smallest to its largest, and `<type>.values` f32. Of every type that ftune writes and the package has a quantiser
for: `<type>.quantized` u8, made of `input` f32.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import load_file, save_file

FILE = Path(__file__).resolve().parent / "quants" / "gguf.safetensors"
# Where a block's fp16 numbers lie.
HALVES = {Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0], Type.IQ4_NL: [0],
          Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208]}
WRITTEN = [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0]
# Zero, the smallest and largest subnormal, the smallest normal, one, the largest; and their negatives.
EXTREMES = [0x0000, 0x0001, 0x03ff, 0x0400, 0x3c00, 0x7bff, 0x8000, 0x8001, 0x83ff, 0x8400, 0xbc00, 0xfbff]


def random_blocks(kind, rng):
    size, bytes_per_block = gguf.GGML_QUANT_SIZES[kind]
    count = 24 if size == 32 else 14
    blocks = rng.integers(0, 256, (count, bytes_per_block), dtype=np.uint8)
    for n, offset in enumerate(HALVES[kind]):
        halves = (rng.standard_normal(count) * 10.0 ** rng.integers(-4, 2, count)).astype(np.float16)
        halves.view(np.uint16)[: len(EXTREMES)] = np.roll(EXTREMES, n)
        blocks[:, offset : offset + 2] = halves.view(np.uint8).reshape(count, 2)
    return blocks


def inputs(rng):
    """Rows of 32: ordinary ones of many sizes; zeros; ties; two extremes of one magnitude; numbers that are tiny."""
    rows = [rng.standard_normal(32) * 10.0**power for power in range(-8, 5) for _ in range(2)]
    rows += [np.zeros(32), np.arange(32) - 15.5, np.arange(32) * 0.5 - 8.0, np.full(32, -3.0), np.full(32, 1e-30)]
    rows.append(np.where(np.arange(32) % 2 == 0, 2.0, -2.0) * (1 + np.arange(32) // 16))
    rows.append(np.array([127.0] + [i + 0.5 for i in range(31)]))  # q8_0 rounds halves away from zero
    return np.stack(rows).astype(np.float32)


def make():
    rng = np.random.default_rng(7)
    tensors = {}
    for kind in HALVES:
        blocks = random_blocks(kind, rng)
        values = gguf.quants.dequantize(blocks, kind)
        tensors[f"{kind.name.lower()}.blocks"] = blocks.reshape(-1)
        tensors[f"{kind.name.lower()}.values"] = np.ascontiguousarray(values).reshape(-1)
    tensors["input"] = inputs(rng)
    for kind in WRITTEN:
        made = gguf.quants.quantize(tensors["input"], kind)
        tensors[f"{kind.name.lower()}.quantized"] = np.ascontiguousarray(made).view(np.uint8).reshape(-1)
    tensors["input"] = tensors["input"].reshape(-1)
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the tree and change nothing")
    arguments = parser.parse_args()
    if not arguments.check:
        FILE.parent.mkdir(exist_ok=True)
        save_file(make(), FILE)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        save_file(make(), Path(scratch) / "made")
        if (Path(scratch) / "made").read_bytes() == FILE.read_bytes():
            return 0
        made, tree = load_file(Path(scratch) / "made"), load_file(FILE)
    differing = [name for name in made.keys() | tree.keys()
                 if name not in made or name not in tree or made[name].tobytes() != tree[name].tobytes()]
    print(f"gguf_quants: {FILE.name} differs in {', '.join(sorted(differing))}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
