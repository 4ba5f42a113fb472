"""What a tiny random model is made from. The models themselves: variants.py."""

from dataclasses import dataclass

IDS = 64  # batches use ids below this, so that they fit every model's vocabulary


@dataclass(frozen=True)
class Variant:
    name: str
    config: dict
    dtype: str = "F32"  # of the tensors in the file; values are random numbers rounded to it
    shards: int = 1
    generation_config: dict | None = None
    seed: int = 0
    steps: tuple = ()  # "adamw", "sgd": the runs of twenty steps that the fixture has beside logits and gradients
    # What must change the logits where it is taken away, so that a test sees whether it is there: changes of the
    # config (None removes a key, a dotted key is one of an object) or names of ablation.py.
    matters: tuple = ()
    # The names in the file: "" as transformers names the parameters, else a key of checkpoint_names.py.
    names: str = ""
    targets: str = "all-linear"  # peft's target_modules


def hf_config(model_type, architecture, **fields):
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_act": "silu",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "initializer_range": 0.02,
        "attention_dropout": 0.0,
        "use_cache": True,
        **fields,
    }
