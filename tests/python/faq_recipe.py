"""A recipe for full fine-tuning in fp32 on the conversations that come with ftune."""

import json
from pathlib import Path

FAQ = Path(__file__).resolve().parents[2] / "recipes" / "data" / "ftune-faq.jsonl"


def write_faq_recipe(folder, model, data, **sections):
    """→ the recipe in the folder: `data` and `sections` are added to what it says; each run names its output_dir."""
    path = folder / "recipe.yaml"
    path.write_text(json.dumps({  # JSON is YAML
        "output_dir": "set by each run",
        "model": {"path": str(model.resolve())},
        "data": {"train": [str(FAQ)], "excess_length_strategy": "truncate", **data},
        "precision": {"weights": "fp32"},
        **sections,
    }, indent=2))
    return path
