#!/usr/bin/env python3
"""Makes quantized/values.safetensors, what bitsandbytes says about small tensors; or, with --check, compares."""

import argparse
import os
import sys
from pathlib import Path

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # before torch: nothing here is worth compiling

import bitsandbytes.functional as bnb
import torch
from safetensors.torch import load_file, save_file

FIXTURE = Path(__file__).resolve().parent / "quantized" / "values.safetensors"
BLOCK = 64
# bitsandbytes' own code for a CPU looks values up in steps; its code for any device searches the map.
ANY_DEVICE = torch._C.DispatchKey.CompositeExplicitAutograd


def partial_at_borders(generator):
    """NF4's borders in a partial block, where a quotient and a product with the reciprocal differ."""
    code = bnb.get_4bit_type("nf4", device="cpu")
    borders = (code[:-1] + code[1:]) / 2
    while True:
        largest = torch.rand(1, generator=generator) + 0.5
        middle = borders * largest
        values = torch.cat([largest, middle, middle.nextafter(largest), middle.nextafter(-largest)])
        if (torch.bucketize(values / largest, borders) != torch.bucketize(values * (1 / largest), borders)).any():
            return values.reshape(1, -1)


def means():
    """What torch says of the mean of i * 2654435761 mod 2^24, in units of 2^24, plus 1/2."""
    lengths = [*range(1, 40), 100, 127, 1000, 8193, 20000, 32000]
    values = (torch.arange(32000, dtype=torch.int64) * 2654435761 % 2**24).float() / 2**24 + 0.5
    return {"mean.lengths": torch.tensor(lengths, dtype=torch.int32),
            "mean.values": torch.stack([values[:length].mean() for length in lengths])}


def inputs():
    """name → [rows, columns]; what is special about each is in its name."""
    generator = torch.Generator().manual_seed(11)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    cases = {"plain": 0.02 * normal(24, 128), "columns_cross_blocks": 0.02 * normal(45, 50), "short": normal(3, 6)}
    cases["one_block_and_two"] = normal(1, 66)
    zeros = normal(8, 64)
    zeros[2:5] = 0
    zeros[6, 1:] = 0
    cases["zero_blocks"] = zeros
    cases["all_zero"] = torch.zeros(3, 64)
    cases["partial_zeros"] = torch.zeros(1, 70)
    cases["partial_at_borders"] = partial_at_borders(generator)
    cases["scales"] = normal(80, 64).clamp(-3, 3) * torch.logspace(-44, 38, 80).view(-1, 1)
    steps = torch.linspace(-1, 1, 64 * 64 + 1)[1:].view(64, 64).contiguous()
    steps[:, 0] = 1
    cases["steps_of_2_to_minus_11"] = steps
    cases["bf16"] = (0.05 * normal(33, 96)).bfloat16()
    # More than 512 blocks, whose mean torch sums in stages.
    cases["many_blocks"] = (0.03 * normal(641, 80)).bfloat16()
    return cases


def near_midpoints(code):
    """The map's midpoints and their neighbours in fp32, and 1."""
    middle = (code[:-1] + code[1:]) / 2
    two = torch.full_like(middle, 2)
    return torch.cat([middle, middle.nextafter(two), middle.nextafter(-two), torch.ones(1)])


def blockwise(values, code, block):
    """Codes and scales as bitsandbytes' CPU library makes them, and codes by its search of the map."""
    codes, state = bnb.quantize_blockwise(values, code=code.clone(), blocksize=block)
    whole = values.numel() // block * block  # of a last short block the search rounds otherwise than a GPU does
    searched, _ = torch.ops.bitsandbytes.quantize_blockwise.default._op_dk(
        ANY_DEVICE, values.reshape(-1)[:whole], code, block)
    return {"codes": codes, "absmax": state.absmax, "searched": searched,
            "values": bnb.dequantize_blockwise(codes, state)}


def four_bit(values, kind):
    # In one row: with AVX-512, version 0.50.2 takes a wrong scale where a block begins within a row of a matrix.
    values = values.reshape(1, -1)
    packed, state = bnb.quantize_4bit(values, blocksize=BLOCK, compress_statistics=True, quant_type=kind)
    scales = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset
    dequantized = torch.ops.bitsandbytes.dequantize_4bit.default._op_dk(
        ANY_DEVICE, packed, scales, BLOCK, kind, values.shape, torch.float32)
    # The CPU library says the same but for the sign of FP4's zeros, on which its own paths do not agree.
    assert torch.equal(dequantized, bnb.dequantize_4bit(packed, state))
    return {"packed": packed.flatten(), "absmax": state.absmax, "outer": state.state2.absmax,
            "offset": state.offset.reshape(1), "values": dequantized.reshape(-1)}


def tensors():
    signed, unsigned = bnb.create_dynamic_map(True), bnb.create_dynamic_map(False)
    made = {"map.signed": signed, "map.unsigned": unsigned} | means()

    def add(prefix, values):
        made.update({f"{prefix}.{name}": value.contiguous() for name, value in values.items()})

    for name, code in (("signed", signed), ("unsigned", unsigned)):
        values = near_midpoints(code)
        made[f"ties.{name}.input"] = values
        add(f"ties.{name}", blockwise(values, code, values.numel()))
    for name, values in inputs().items():
        made[f"{name}.input"] = values
        full = values.float()
        small = values.numel() < 10000
        for kind in ("nf4", "fp4"):
            result = four_bit(full, kind)
            if not small:
                del result["values"]
            add(f"{name}.{kind}", result)
        if small:
            add(f"{name}.int8", blockwise(full, signed, BLOCK))
            add(f"{name}.unsigned", blockwise(full.abs(), unsigned, 100))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # torch sums a long mean by threads
    made = tensors()
    if not arguments.check:
        FIXTURE.parent.mkdir(exist_ok=True)
        save_file(made, FIXTURE)
        return 0
    kept = load_file(FIXTURE)
    wrong = sorted(made.keys() ^ kept.keys())
    for name in sorted(made.keys() & kept.keys()):
        a, b = made[name], kept[name]
        if a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a.view(torch.uint8), b.view(torch.uint8)):
            wrong.append(name)
    for name in wrong:
        print(f"quantized_golden: {name}: bitsandbytes says something else now", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
