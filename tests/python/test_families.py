#!/usr/bin/env python3
"""The golden models of every family: loaded, trained, saved, and loaded by transformers and peft.

    test_families.py --ftune BINARY --work FOLDER [NAME ...]

NAMEs choose golden models. Every one has a folder of its own below --work, made anew.
"""

import json
import random
import shutil
import sys
from dataclasses import dataclass
from functools import partial

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import reference
from ftune_cli import write_jsonl
from small_tokenizer import TOKENS, write_small_tokenizer
from test_interop import LOSS_TOLERANCE, MODELS, main

LENGTHS = (20, 33, 13, 8)
STEPS = 3
NEW_TOKENS = 6


@dataclass(frozen=True)
class Family:
    """A folder of golden/models, and what is special about it here."""

    name: str
    longest: int = max(LENGTHS)  # rows are cut to this: ftune takes no sample beyond the model's context
    linears: int = 7  # in a layer, which all get an adapter
    stray: tuple = ()  # ends of the names of tensors in the file that are no weights
    absent: tuple = ()  # parts of the names of parameters that transformers has and the file has not
    wrapper: bool = False  # a multimodal model: its text alone is trained, and saved as a text model


FAMILIES = [
    Family("llama"),
    Family("llama3"),
    Family("llama-linear"),
    Family("llama-dynamic", longest=26),
    Family("llama-dynamic-long", longest=24),
    Family("llama-yarn"),
    Family("llama-yarn-mscale"),
    Family("smollm2"),
    Family("mistral"),
    Family("mistral-nemo"),
    Family("qwen2"),
    Family("qwen2-window"),
    Family("qwen2-yarn", longest=32),
    Family("qwen3"),
    Family("qwen3-window"),
    Family("smollm3"),
    Family("smollm3-yarn"),
    Family("gpt2", linears=4, stray=(".attn.bias", ".attn.masked_bias")),
    Family("gpt2-inner", linears=4),
    Family("phi3", linears=4),
    Family("phi3-longrope", linears=4),
    Family("phi3-su", linears=4),
    Family("phi4-mini", linears=4),
    Family("phi4-mini-v5", linears=4),
    Family("gemma"),
    Family("gemma-legacy"),
    Family("gemma2"),
    Family("gemma2-v5"),
    Family("gemma3"),
    Family("gemma3-scaled"),
    Family("gemma3-wrapper", absent=("vision_tower.", "multi_modal_projector."), wrapper=True),
]


def check_list(case):
    """No golden model is left out of FAMILIES."""
    golden = {path.name.removesuffix("-lora") for path in MODELS.glob("*-lora")}
    listed = {family.name for family in FAMILIES}
    assert listed == golden, f"only in the list or only in {MODELS}: {sorted(listed ^ golden)}"


def _samples(longest):
    """→ (ids, learned) of each row; labels leave some tokens out."""
    draw = random.Random(7)
    samples = []
    for length in LENGTHS:
        length = min(length, longest)
        ids = [draw.randrange(3, TOKENS) for _ in range(length)]
        samples.append((ids, [i >= 2 and draw.random() < 0.8 for i in range(length)]))
    return samples


def _load(folder, family, adapter=None):
    """As transformers loads it, with every weight found."""
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    missing = [name for name in info["missing_keys"] if not any(part in name for part in family.absent)]
    stray = [name for name in info["unexpected_keys"] if not name.endswith(family.stray or "no end")]
    assert not missing and not stray, f"{folder}: missing {missing}, unexpected {stray}"
    return (model if adapter is None else PeftModel.from_pretrained(model, adapter)).eval()


def _weights(folder, family):
    tensors = {}
    for file in folder.glob("*.safetensors"):
        tensors |= load_file(file)
    return {name: t for name, t in tensors.items() if not (family.stray and name.endswith(family.stray))}


def _check_moved(got, base, names):
    """Training has changed what it can. A weight in bf16 or fp16 may be too coarse to show it: most do."""
    moved = sum(not got[name].float().equal(base[name].float()) for name in names)
    assert moved >= 0.9 * len(names), f"{moved} of {len(names)} tensors have changed"


def _config(folder):
    config = json.loads((folder / "config.json").read_text())
    for key in ("torch_dtype", "dtype"):
        config.pop(key, None)
    return config


class RoundTrip:
    def __init__(self, case, family):
        self.case, self.family = case, family
        self.base = case.folder / "base"
        shutil.copytree(MODELS / family.name, self.base)
        write_small_tokenizer(self.base)
        self.samples = _samples(family.longest)
        self.rows = write_jsonl(case.folder / "rows.jsonl", [
            {"input_ids": ids, "labels": [i if known else -100 for i, known in zip(ids, learned)]}
            for ids, learned in self.samples])
        # One row a file too: a mean over rows hides what differs in one of them the less, the more there are.
        self.single = [write_jsonl(case.folder / f"row-{i}.jsonl", [{"input_ids": ids}])
                       for i, (ids, _) in enumerate(self.samples)]

    def train(self, name, **sections):
        return self.case.train(
            output_dir=str(self.case.folder / name), model={"path": str(self.base)},
            data={"train": [str(self.rows)], "eval": [str(self.rows)], "sequence_len": self.family.longest},
            train={"global_batch_size": 2, "max_steps": STEPS, "num_epochs": STEPS, "eval_steps": 1},
            **sections)

    def check_loss(self, model, *arguments):
        """`ftune eval` gives transformers' loss, of all the rows and of the longest alone."""
        whole = [(ids, [True] * len(ids)) for ids, _ in self.samples]
        longest = max(range(len(whole)), key=lambda i: len(whole[i][0]))
        for data, samples in ((self.rows, self.samples), (self.single[longest], [whole[longest]])):
            want, count = reference.mean_loss(model, samples)
            got = self.case.ftune("eval", arguments[0], data, *arguments[1:])
            assert got["trained_tokens"] == count, (data.name, got, count)
            assert abs(got["eval_loss"] - want) <= LOSS_TOLERANCE, (data.name, arguments, got, want)

    def check_generation(self, model):
        """The likeliest tokens after a text. Frequencies that depend on a length are those of the longest text that may
        come out, from the first token on; filler makes the reference's text as long, and changes nothing before it."""
        prompt = "kBz3"[: max(1, self.family.longest - NEW_TOKENS)]
        ids = self.case.ftune("tokenize", self.base, text=prompt)["ids"]
        want = []
        for left in range(NEW_TOKENS, 0, -1):
            text = ids + want
            want.append(int(reference.logits(model, text + left * [3])[len(text) - 1].argmax()))
        got = self.case.ftune("generate", self.base, "--prompt", prompt, "--max-new-tokens", NEW_TOKENS)["tokens"]
        # A model may stop at its end-of-sequence token.
        assert got and got == want[: len(got)], (got, want)

    def check_full(self):
        run = self.train("full")
        saved, base = _weights(run / "model", self.family), _weights(self.base, self.family)
        if self.family.wrapper:
            base = {name.removeprefix("language_model."): tensor for name, tensor in base.items()}
        assert len(saved) == len(base), sorted(saved.keys() ^ base.keys())
        _check_moved(saved, base, saved.keys() & base.keys())
        config = _config(self.base)
        if self.family.wrapper:
            text = config["text_config"]
            config = {**{key: config[key] for key in config.keys() & _config(run / "model").keys()}, **text,
                      "architectures": ["Gemma3ForCausalLM"]}
        assert _config(run / "model") == config
        self.check_loss(_load(run / "model", self.family), run / "model")

    def check_lora(self):
        run = self.train("lora", adapter={"kind": "lora", "lora_r": 2, "lora_alpha": 4})
        tensors = load_file(run / "adapter" / "adapter_model.safetensors")
        assert all(tensor.any() and tensor.isfinite().all() for tensor in tensors.values())
        layers = len({name.split(".lora_")[0].rsplit("layers.", 1)[-1].rsplit(".h.", 1)[-1].split(".")[0]
                      for name in tensors})
        assert len(tensors) == 2 * self.family.linears * layers, sorted(tensors)
        again = PeftModel.from_pretrained(_load(self.base, self.family), run / "adapter")
        result = again.load_adapter(run / "adapter", "again")
        missing = [name for name in result.missing_keys
                   if "lora_" in name and not any(part in name for part in self.family.absent)]
        assert not missing and not result.unexpected_keys, result
        adapted = _load(self.base, self.family, run / "adapter")
        self.check_loss(adapted, run)
        merged = self.case.folder / "merged"
        self.case.ftune("export", run, "--merge", "--out", merged, "--dtype", "fp32", "--force")
        self.check_loss(_load(merged, self.family), merged)
        want = adapted.merge_and_unload().state_dict()
        got = _load(merged, self.family).state_dict()
        for name, tensor in want.items():
            if any(part in name for part in self.family.absent):
                continue
            # A multimodal model's text, merged, is a text model.
            error = (got[name.replace("model.language_model.", "model.")] - tensor).abs().max().item()
            assert error <= 1e-6 * max(1.0, tensor.abs().max().item()), f"{name}: differs by {error}"


def round_trip(case, family):
    trip = RoundTrip(case, family)
    base = _load(trip.base, family)
    trip.check_loss(base, trip.base)
    trip.check_generation(base)
    trip.check_full()
    trip.check_lora()


TESTS = {"list": check_list} | {family.name: partial(round_trip, family=family) for family in FAMILIES}

if __name__ == "__main__":
    sys.exit(main(TESTS, __doc__))
