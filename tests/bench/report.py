"""Prints what bench.py measured."""

MIB = 2**20


def _row(name, values):
    spread = f"({values['slowest']:.1f} to {values['fastest']:.1f})"
    return (f"  {name:<34} {values['tokens_per_second']:8.1f} {spread:<18}"
            f"  {values['peak_bytes'] / MIB:8.0f} MiB  {values['first_step_seconds']:7.2f} s")


def _ratios(name, ours, theirs):
    return (f"  ftune / {name:<26} {ours['tokens_per_second'] / theirs['tokens_per_second']:8.2f} x"
            f"  memory {ours['peak_bytes'] / theirs['peak_bytes']:.2f} x"
            f"  first step {ours['first_step_seconds'] / theirs['first_step_seconds']:.2f} x")


def print_report(results):
    """Medians over the rounds; speeds with the slowest and fastest round."""
    for result in results:
        ours = result["ftune"]
        print(f"{result['mode']}, {result['data']}, {result['packs']} packs of {result['sequence_len']} a step:"
              " tokens/s, peak memory, start to end of the first step")
        print(_row("ftune", ours))
        for values in result["pytorch"].values():
            print(_row(f"PyTorch {values['setting']}", values))
        for dtype, values in result["pytorch"].items():
            print(_ratios(f"PyTorch {dtype}", ours, values))
        rate = f"  useful rate {ours['flops_per_second'] / 1e9:.1f} GFLOP/s"
        if result["fma_peak"] is not None:
            rate += f", {100 * ours['share_of_peak']:.0f} % of the FMA peak, {result['fma_peak'] / 1e9:.1f}"
        print(rate + "\n")
