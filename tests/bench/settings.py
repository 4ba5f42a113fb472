"""What is compared: cases, PyTorch's settings, and the recipe that ftune gets."""

import json
from dataclasses import dataclass
from pathlib import Path

FAQ = Path(__file__).resolve().parents[2] / "recipes" / "data" / "ftune-faq.jsonl"
SEQUENCE_LEN = 512
LORA_R = 16


@dataclass(frozen=True)
class Case:
    mode: str  # lora | full
    data: str  # long: a sample fills a pack and all of it is learned; short: many in a pack, answers learned
    packs: int  # an optimizer step

    @property
    def name(self):
        return f"{self.mode}-{self.data}-{self.packs}"

    @property
    def learning_rate(self):
        return 2e-4 if self.mode == "lora" else 2e-5


def cases_of(modes, data, packs):
    return [Case(mode, kind, int(count)) for mode in modes for kind in data for count in packs]


@dataclass(frozen=True)
class Setting:
    dtype: str
    attention: str
    head: str
    rows: int = 1  # microbatches in one forward pass
    compiled: bool = False

    @property
    def name(self):
        words = [self.dtype, self.attention, self.head, f"rows{self.rows}"] + ["compile"] * self.compiled
        return "-".join(words)

    @property
    def flags(self):
        return ["--dtype", self.dtype, "--attention", self.attention, "--head", self.head,
                "--microbatches-per-forward", self.rows] + ["--compile"] * self.compiled


def candidates(packs):
    """Those that may be the fastest on a CPU."""
    settings = []
    for dtype in ("fp32", "bf16"):
        settings.append(Setting(dtype, "mask", "all"))
        settings.append(Setting(dtype, "segments", "trained"))
        settings.append(Setting(dtype, "segments", "chunked"))
        if packs > 1:
            settings.append(Setting(dtype, "segments", "trained", rows=packs))
        settings.append(Setting(dtype, "mask", "all", compiled=True))
    return settings


def _write_long(path):
    """Conversations of many turns, each of which nearly fills a pack (there are 4.6 characters to a token)."""
    characters, rows, messages, size = int(4.6 * SEQUENCE_LEN), [], [], 0
    for line in FAQ.read_text().splitlines():
        turns = json.loads(line)["messages"]
        length = sum(len(turn["content"]) + 40 for turn in turns)
        if size + length > characters:
            rows.append({"messages": messages})
            messages, size = [], 0
        messages, size = messages + turns, size + length
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def recipe_of(case, model, steps, folder):
    data = FAQ if case.data == "short" else _write_long(folder / "long.jsonl")
    recipe = {
        "output_dir": str(folder / "run"),
        "model": {"path": str(model.resolve())},
        "data": {"train": [str(data)], "sequence_len": SEQUENCE_LEN, "train_on_inputs": case.data == "long"},
        "train": {"global_batch_size": case.packs, "micro_batch_size": 1, "max_steps": steps,
                  "num_epochs": 1000},
        "optimizer": {"learning_rate": case.learning_rate, "lr_scheduler": "constant", "warmup_steps": 0},
    }
    if case.mode == "lora":
        recipe["adapter"] = {"kind": "lora", "lora_r": LORA_R}
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(recipe, indent=2))  # JSON is YAML
    return path
