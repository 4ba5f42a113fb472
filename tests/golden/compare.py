"""Compares two trees of golden files: text and models to the byte, computed tensors to rounding."""

import sys

from safetensors.torch import load_file

TOLERANCE = 1e-5  # the one that ftune is held to


def _files(root):
    below = [p for folder in ("models", "fixtures") for p in (root / folder).rglob("*")]
    return {p.relative_to(root) for p in below if p.is_file()}


def _global_gradient_norm(tensors, mode):
    gradients = [t for name, t in tensors.items() if name.startswith(f"{mode}.grad.")]
    return sum(g.double().square().sum() for g in gradients).sqrt().item()


def tensor_error(name, got, want, floor):
    """Relative, in the norm; a gradient's scale is at least `floor`: some are zero but for rounding."""
    difference = (got.double() - want.double()).norm().item()
    scale = max(want.double().norm().item(), floor if ".grad." in name else 0.0)
    return difference / scale if scale > 0 else difference


def _compare_fixture(path, got, want, report):
    if got.keys() != want.keys():
        report(f"{path}: tensors differ: {sorted(got.keys() ^ want.keys())}")
        return
    worst = ("", 0.0)
    for name, tensor in want.items():
        if got[name].shape != tensor.shape or got[name].dtype != tensor.dtype:
            report(f"{path}: {name}: is {got[name].dtype} {tuple(got[name].shape)} now")
        elif not tensor.is_floating_point():
            if not got[name].equal(tensor):
                report(f"{path}: {name}: differs")
        else:
            floor = 1e-3 * _global_gradient_norm(want, name.split(".")[0]) if ".grad." in name else 0.0
            error = tensor_error(name, got[name], tensor, floor)
            if not error <= TOLERANCE:
                report(f"{path}: {name}: error {error:.2e}, more than {TOLERANCE:.0e}")
            worst = max(worst, (name, error), key=lambda pair: pair[1])
    print(f"{path}: worst error {worst[1]:.1e} {worst[0]}", file=sys.stderr)


def compare_trees(made, tree):
    """→ exit status: 0 where the tree has what was made."""
    problems = []
    for path in sorted(_files(made) ^ _files(tree)):
        problems.append(f"{path}: only in {'the new values' if (made / path).exists() else 'the tree'}")
    for path in sorted(_files(made) & _files(tree)):
        if path.parts[0] == "fixtures":
            _compare_fixture(path, load_file(made / path), load_file(tree / path), problems.append)
        elif (made / path).read_bytes() != (tree / path).read_bytes():
            problems.append(f"{path}: differs")
    for problem in problems:
        print(f"make_golden: {problem}", file=sys.stderr)
    return 1 if problems else 0
