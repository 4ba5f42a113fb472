#!/usr/bin/env python3
"""Makes fixtures/optimizers.safetensors: what PyTorch's and bitsandbytes' optimizers do to given weights with given
gradients. `--check` compares with the tree and changes nothing. See README.md."""

import argparse
import functools
import inspect
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

PATH = Path(__file__).resolve().parent / "fixtures" / "optimizers.safetensors"
TOLERANCE = 1e-6
SHAPES = {"wide": (24, 70), "tall": (70, 24), "vector": (65,), "large": (65, 64)}
ONLY_8BIT = {"large"}  # enough for bitsandbytes to keep 8-bit state; its last block is short
STEPS = 10
GRADIENTS = 5  # used in turn
DECAY = 0.1
BETAS = (0.9, 0.999)


class Lion(torch.optim.Optimizer):
    """Chen et al., "Symbolic discovery of optimization algorithms" (2023), algorithm 2."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p.copy_(p - group["lr"] * (update + group["weight_decay"] * p))
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


@functools.cache
def muon_in_fp32():
    """torch.optim.Muon with its Newton-Schulz steps in fp32: its own code but for that type."""
    from torch.optim import _muon
    source = inspect.getsource(_muon._zeropower_via_newtonschulz)
    assert source.count("bfloat16") == 1
    exec(source.replace("bfloat16", "float32"), _muon.__dict__)
    return _muon.Muon


@functools.cache
def adamw8bit_with_nearest_codes():
    """bitsandbytes' AdamW8bit for CPUs, but with a moment's code being that of the nearest value, as on a GPU: its
    CPU library rounds to a coarse table first."""
    import bitsandbytes
    from bitsandbytes.backends.cpu import ops

    def quantize(values, code, absmax_out, out, blocksize):
        flat = values.reshape(-1)
        for number, block in enumerate(flat.split(blocksize)):
            absmax = block.abs().max()
            scaled = block * (1 / absmax.clamp(min=1e-38))
            midpoints = (code[:-1] + code[1:]) / 2
            absmax_out[number] = absmax
            begin = number * blocksize
            out.view(-1)[begin:begin + block.numel()] = torch.searchsorted(midpoints, scaled).to(torch.uint8)

    ops._quant_blockwise_fp32_direct = quantize
    return bitsandbytes.optim.AdamW8bit


def with_muon(p, adjust_lr_fn):
    matrices = [t for t in p.values() if t.dim() == 2]
    rest = [t for t in p.values() if t.dim() != 2]
    return [muon_in_fp32()(matrices, lr=0.02, weight_decay=DECAY, momentum=0.95, adjust_lr_fn=adjust_lr_fn),
            torch.optim.AdamW(rest, lr=0.02, betas=BETAS, weight_decay=DECAY)]


CASES = {
    "sgd": lambda p: [torch.optim.SGD(p.values(), lr=0.05, momentum=0.9, weight_decay=DECAY)],
    "lion": lambda p: [Lion(p.values(), lr=0.01, betas=(0.9, 0.99), weight_decay=DECAY)],
    # From the fifth step on, the relative step 1 / sqrt(step) is the smaller one.
    "adafactor": lambda p: [torch.optim.Adafactor(p.values(), lr=0.5, weight_decay=DECAY)],
    "muon": lambda p: with_muon(p, "match_rms_adamw"),
    "muon_original": lambda p: with_muon(p, "original"),
    "adamw_8bit": lambda p: [adamw8bit_with_nearest_codes()(p.values(), lr=0.01, betas=BETAS, weight_decay=DECAY)],
}


def problem():
    """→ weights and gradients; those differ in size from row to row, as real ones do."""
    generator = torch.Generator().manual_seed(7)

    def draw(shape):
        return torch.randn(shape, generator=generator)

    def gradient(shape):
        return draw(shape) * torch.exp(draw(shape[:1] + (1,) * (len(shape) - 1)))
    weights = {name: 0.1 * draw(shape) for name, shape in SHAPES.items()}
    gradients = {name: torch.stack([gradient(shape) for _ in range(GRADIENTS)]) for name, shape in SHAPES.items()}
    return weights, gradients


def train(make, weights, gradients):
    parameters = {name: torch.nn.Parameter(w.clone()) for name, w in weights.items()}
    optimizers = make(parameters)
    after = {}
    for step in range(1, STEPS + 1):
        for name, p in parameters.items():
            p.grad = gradients[name][(step - 1) % GRADIENTS].clone()
        for optimizer in optimizers:
            optimizer.step()
        if step in (1, STEPS):
            after |= {f"{name}.{step}": p.detach().clone() for name, p in parameters.items()}
    return after


def make():
    weights, gradients = problem()
    tensors = {f"weights.{name}": w for name, w in weights.items()}
    tensors |= {f"gradients.{name}": g for name, g in gradients.items()}
    for case, optimizers in CASES.items():
        used = {name: w for name, w in weights.items() if case == "adamw_8bit" or name not in ONLY_8BIT}
        tensors |= {f"{case}.{name}": t for name, t in train(optimizers, used, gradients).items()}
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def check(made):
    tree = load_file(PATH)
    problems = [f"{name}: only in one of the two" for name in sorted(made.keys() ^ tree.keys())]
    worst = 0.0
    for name in sorted(made.keys() & tree.keys()):
        error = ((made[name] - tree[name]).double().norm() / tree[name].double().norm()).item()
        worst = max(worst, error)
        if not error <= TOLERANCE:
            problems.append(f"{name}: error {error:.2e}, more than {TOLERANCE:.0e}")
    for line in problems:
        print(f"optimizers: {line}", file=sys.stderr)
    print(f"optimizers: worst error {worst:.1e}", file=sys.stderr)
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the tree and change nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    made = make()
    if arguments.check:
        return check(made)
    save_file(made, PATH)
    return 0


if __name__ == "__main__":
    sys.exit(main())
