#!/usr/bin/env python3
"""What ftune writes, transformers and peft load, and compute the same with it; and the other way round.

    test_interop.py --ftune BINARY --work FOLDER [--gguf SmolLM2.gguf] [NAME ...]

NAMEs choose tests. Every test has a folder of its own below --work, made anew.
"""

import argparse
import filecmp
import json
import re
import shutil
import sys
import traceback
import warnings
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer
from transformers.utils import logging

import reference
from ftune_cli import Ftune, write_jsonl

MODELS = Path(__file__).resolve().parents[1] / "golden" / "models"
TINY = MODELS / "tiny-chat"
TOKENIZER_FILES = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]
LOSS_TOLERANCE = 1e-5

TEXTS = [{"text": "The engine reads a recipe and trains the model."},
         {"text": "Zwölf Boxkämpfer jagen Viktor — 42 µm; 日本語 and 🙂."},
         {"text": "one\n\n  two\tthree"}]
CHATS = [
    {"messages": [{"role": "user", "content": "What does the engine read?"},
                  {"role": "assistant", "content": "A recipe: `recipe.yaml`."}]},
    {"messages": [{"role": "system", "content": "Answer in one word."},
                  {"role": "user", "content": "Is 2 + 2 = 4?"},
                  {"role": "assistant", "content": "Yes"},
                  {"role": "user", "content": "And 2 + 2 = 5?"},
                  {"role": "assistant", "content": "No 🙂"}]},
    {"messages": [{"role": "user", "content": "Grüße!"}, {"role": "assistant", "content": "Grüße zurück!\nGut."}]},
]


class Skipped(Exception):
    pass


class Case:
    """One test's folder, the binary, and what tests do again and again."""

    def __init__(self, arguments, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self.ftune = Ftune(arguments.ftune)
        self.gguf = arguments.gguf
        self.chats = write_jsonl(folder / "chats.jsonl", CHATS)
        self.texts = write_jsonl(folder / "texts.jsonl", TEXTS)

    def train(self, **sections):
        """A few steps with a large learning rate, on tiny-chat if not said otherwise. → the run's folder."""
        recipe = {
            "output_dir": str(self.folder / "run"),
            "model": {"path": str(TINY)},
            "data": {"train": [str(self.chats)], "eval": [str(self.chats)], "sequence_len": 256},
            "train": {"global_batch_size": 1, "max_steps": 2, "num_epochs": 2, "eval_steps": 1},
            "optimizer": {"learning_rate": 0.01, "lr_scheduler": "constant", "warmup_steps": 0},
            **sections,
        }
        # JSON is YAML.
        (self.folder / "recipe.yaml").write_text(json.dumps(recipe, indent=2))
        result = self.ftune("train", self.folder / "recipe.yaml")
        assert result["steps"] == recipe["train"]["max_steps"] and result["exit"] == 0, result
        return Path(result["run"])

    def check_loss(self, model, tokenizer, *eval_arguments):
        """`ftune eval` gives the loss that `model`, loaded by transformers, has, and counts the same tokens."""
        for name, data, samples in (("texts", self.texts, reference.text_samples(tokenizer, TEXTS)),
                                    ("chats", self.chats, reference.chat_samples(tokenizer, CHATS))):
            want, count = reference.mean_loss(model, samples)
            got = self.ftune("eval", eval_arguments[0], data, *eval_arguments[1:])
            assert got["trained_tokens"] == count, f"{name}: {got['trained_tokens']} trained tokens, not {count}"
            difference = abs(got["eval_loss"] - want)
            assert difference <= LOSS_TOLERANCE, f"{name}: loss {got['eval_loss']}, transformers says {want}"


def check_last_evaluation(run, model, tokenizer):
    """The run's own evaluation of CHATS after its last step is the loss of what it wrote."""
    lines = [json.loads(text) for text in (run / "log.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["event"] == "eval"][-1]
    want, count = reference.mean_loss(model, reference.chat_samples(tokenizer, CHATS))
    assert last["step"] == 2 and last["eval_tokens"] == count, last
    assert abs(last["eval_loss"] - want) <= LOSS_TOLERANCE, f"{last}, transformers says {want}"


def check_same_files(folder, other, names):
    for name in names:
        assert filecmp.cmp(folder / name, other / name, shallow=False), f"{name} is not what {other} has"


def check_moved(got, base):
    """Every tensor but those that cannot: training has changed it."""
    assert got.keys() == base.keys(), sorted(got.keys() ^ base.keys())
    for name, tensor in got.items():
        assert tensor.isfinite().all(), name
        assert not tensor.equal(base[name]), f"{name} has not changed"


def test_full(case):
    """A fully fine-tuned model: weights, config, tokenizer."""
    run = case.train()
    model = run / "model"
    check_same_files(model, TINY, [*TOKENIZER_FILES, "generation_config.json"])
    assert json.loads((model / "config.json").read_text()) == json.loads((TINY / "config.json").read_text())
    check_moved(load_file(model / "model.safetensors"), load_file(TINY / "model.safetensors"))
    case.check_loss(reference.load(model), model, model)
    case.check_loss(reference.load(model), model, run)  # a run stands for its result
    check_last_evaluation(run, reference.load(model), model)


def test_bf16(case):
    """Weights in bf16 are written as bf16, and the config says so."""
    model = case.train(precision={"weights": "bf16"}) / "model"
    with safe_open(model / "model.safetensors", "pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"BF16"}
    assert json.loads((model / "config.json").read_text())["torch_dtype"] == "bfloat16"
    check_moved(load_file(model / "model.safetensors"), load_file(TINY / "model.safetensors"))
    case.check_loss(reference.load(model), model, model)


def _train_lora(case, **adapter):
    return case.train(adapter={"kind": "lora", "lora_r": 4, "lora_alpha": 8, **adapter})


def test_lora(case):
    """An adapter that ftune trained."""
    run = _train_lora(case)
    adapter = run / "adapter"
    tensors = load_file(adapter / "adapter_model.safetensors")
    assert all(tensor.any() and tensor.isfinite().all() for tensor in tensors.values())
    assert len(tensors) == 2 * 7 * 2, sorted(tensors)
    config = json.loads((adapter / "adapter_config.json").read_text())
    assert Path(config["base_model_name_or_path"]) == TINY, config["base_model_name_or_path"]
    check_same_files(adapter, TINY, TOKENIZER_FILES)
    model = reference.load(TINY, adapter)
    missing = PeftModel.from_pretrained(reference.load(TINY), adapter).load_adapter(adapter, "again")
    assert not [k for k in missing.missing_keys if "lora_" in k] and not missing.unexpected_keys, missing
    case.check_loss(model, TINY, TINY, "--adapter", adapter)
    case.check_loss(model, TINY, adapter)  # the base is where the adapter says
    check_last_evaluation(run, model, TINY)


def test_lora_some_targets(case):
    """Targets by name: no other linear has an adapter."""
    adapter = _train_lora(case, target_modules=["q_proj", "down_proj"]) / "adapter"
    names = {name.split(".")[-3] for name in load_file(adapter / "adapter_model.safetensors")}
    assert names == {"q_proj", "down_proj"}, names
    case.check_loss(reference.load(TINY, adapter), TINY, TINY, "--adapter", adapter)


def _peft_adapter(case, **config):
    """An adapter that peft wrote, with a B that is not zero."""
    torch.manual_seed(3)
    model = get_peft_model(reference.load(TINY), LoraConfig(task_type="CAUSAL_LM", **config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name or "lora_embedding_A" in name:
                parameter.normal_(std=0.3)
            elif "lora_magnitude" in name or "modules_to_save" in name:
                parameter.mul_(torch.empty_like(parameter).uniform_(0.8, 1.2))
    model.save_pretrained(case.folder / "peft")
    return case.folder / "peft"


def test_peft_adapter(case):
    """Adapters that peft wrote: by name, by regular expression, with rank-stabilised scale."""
    for config in ({"r": 3, "lora_alpha": 7, "target_modules": "all-linear"},
                   {"r": 4, "lora_alpha": 4, "target_modules": ["k_proj", "o_proj", "gate_proj"]},
                   {"r": 2, "lora_alpha": 8, "target_modules": r".*\.1\..*(v_proj|up_proj)"}):
        adapter = _peft_adapter(case, **config)
        case.check_loss(reference.load(TINY, adapter), TINY, TINY, "--adapter", adapter)
        shutil.rmtree(adapter)


def test_go_on_from_adapter(case):
    """model.init_from an adapter of peft's: at a learning rate of zero, it comes out as it went in."""
    adapter = _peft_adapter(case, r=4, lora_alpha=8, target_modules="all-linear")
    run = case.train(model={"path": str(TINY), "init_from": str(adapter)},
                     adapter={"kind": "lora", "lora_r": 4, "lora_alpha": 8},
                     optimizer={"name": "sgd", "learning_rate": 1e-30, "lr_scheduler": "constant",
                                "warmup_steps": 0})
    want = load_file(adapter / "adapter_model.safetensors")
    got = load_file(run / "adapter" / "adapter_model.safetensors")
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        assert got[name].equal(tensor), name


def _check_same_weights(got, want):
    assert got.keys() == want.keys(), sorted(got.keys() ^ want.keys())
    for name, tensor in want.items():
        error = (got[name] - tensor).abs().max().item()
        assert error <= 1e-6 * max(1.0, tensor.abs().max().item()), f"{name}: differs by {error}"


def _check_merged(merged, base, *adapters, parted=False):
    """Merged weights are what peft merges, one adapter after the other, and all of them are there. Where embedding
    and tied head part, peft has to be given two weights: it merges what is meant for one of them into both."""
    model = reference.load(base)
    if parted:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    for adapter in adapters:
        model = PeftModel.from_pretrained(model, adapter).merge_and_unload()
    _check_same_weights(reference.load(merged).state_dict(), model.state_dict())


def test_merge(case):
    """A merged model computes what base and adapter do."""
    run = _train_lora(case)
    merged = case.folder / "merged"
    result = case.ftune("export", run, "--merge", "--out", merged)
    assert result["max_logit_diff"] <= 1e-4, result
    check_same_files(merged, TINY, [*TOKENIZER_FILES, "generation_config.json"])
    _check_merged(merged, TINY, run / "adapter")
    case.check_loss(reference.load(merged), merged, TINY, "--adapter", run / "adapter")
    case.check_loss(reference.load(merged), merged, merged)


SOME = ["q_proj", "down_proj"]
# What is trained on which base (its head tied, or not), and what peft rightly warns of.
KINDS = {
    "rslora": (True, dict(use_rslora=True)),
    "dora": (True, dict(use_dora=True)),
    "patterns": (True, dict(rank_pattern={r"1\..*q_proj": 2, "q_proj": 3}, alpha_pattern={"mlp.*": 3})),
    "saved": (False, dict(target_modules=SOME, modules_to_save=["embed_tokens", "lm_head", "norm"])),
    "saved-tied": (True, dict(target_modules=SOME, modules_to_save=["embed_tokens", "model.norm"])),
    "saved-head": (True, dict(target_modules=SOME, modules_to_save=["lm_head"])),
    "ends": (False, dict(target_modules=[*SOME, "embed_tokens", "lm_head"])),
    "ends-tied": (True, dict(target_modules=[*SOME, "embed_tokens", "lm_head"])),
    "dora-ends": (True, dict(target_modules=["v_proj", "embed_tokens", "lm_head"], use_dora=True)),
    "loraplus": (True, dict(target_modules=[*SOME, "embed_tokens"], loraplus_lr_ratio=4,
                            loraplus_lr_embedding=0.005)),
}


def _untied(case):
    """tiny-chat with a head of its own."""
    base = case.folder / "untied"
    if not base.exists():
        shutil.copytree(TINY, base)
        tensors = load_file(base / "model.safetensors")
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].flip(0).contiguous()
        save_file(tensors, base / "model.safetensors", {"format": "pt"})
        config = json.loads((base / "config.json").read_text()) | {"tie_word_embeddings": False}
        (base / "config.json").write_text(json.dumps(config))
    return base


def _load_quietly(base, adapter, tied_ends):
    """peft warns of nothing, but where embedding and tied head part, that they do."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = reference.load(base, adapter)
    # FutureWarnings are transformers', about itself.
    texts = [str(w.message) for w in said if not issubclass(w.category, FutureWarning)]
    assert not [text for text in texts if not tied_ends or "tie_word_embeddings" not in text], texts
    return model


def test_adapter_kinds(case):
    """Each kind of adapter: trained, loaded by peft, merged as peft merges it."""
    for name, (tied, adapter) in KINDS.items():
        base = TINY if tied else _untied(case)
        run = case.train(output_dir=str(case.folder / name), model={"path": str(base)},
                         adapter={"lora_r": 4, "lora_alpha": 8, **adapter},
                         train={"global_batch_size": 1, "max_steps": 3, "num_epochs": 3, "eval_steps": 1})
        folder = run / "adapter"
        tensors = load_file(folder / "adapter_model.safetensors")
        assert all(t.any() and t.isfinite().all() for t in tensors.values()), name
        parted = name in ("ends-tied", "dora-ends", "loraplus")
        model = _load_quietly(base, folder, parted)
        loaded = {n.replace(".default", ""): p for n, p in model.named_parameters() if "default" in n}
        ties = json.loads((folder / "adapter_config.json").read_text()).get("ensure_weight_tying", False)
        own = [t for n, t in tensors.items() if not (ties and n.endswith(".lm_head.weight"))]
        assert sum(p.numel() for p in loaded.values()) == sum(t.numel() for t in own), name
        case.check_loss(model, base, base, "--adapter", folder)
        merged = case.folder / f"{name}-merged"
        result = case.ftune("export", run, "--merge", "--out", merged, "--dtype", "fp32")
        assert result["max_logit_diff"] <= 1e-4, (name, result)
        _check_merged(merged, base, folder, parted=parted)
        assert json.loads((merged / "config.json").read_text())["tie_word_embeddings"] == (tied and not parted)
        case.check_loss(reference.load(merged), merged, merged)


def test_loraplus(case):
    """After one step of SGD, what was at zero is its gradient times its learning rate."""
    def adapter(name, **options):
        run = case.train(output_dir=str(case.folder / name),
                         adapter={"lora_r": 4, "target_modules": ["q_proj", "embed_tokens"], **options},
                         train={"global_batch_size": 1, "max_steps": 1, "num_epochs": 1, "eval_steps": 1},
                         optimizer={"name": "sgd", "learning_rate": 0.01, "lr_scheduler": "constant",
                                    "warmup_steps": 0, "max_grad_norm": None})
        return load_file(run / "adapter" / "adapter_model.safetensors")

    plain = adapter("plain")
    plus = adapter("plus", loraplus_lr_ratio=8, loraplus_lr_embedding=0.0025)
    for name, tensor in plain.items():
        ratio = 8 if "lora_B" in name else 0.25 if "lora_embedding_A" in name else None
        assert ratio is None or tensor.any(), name
        torch.testing.assert_close(plus[name], tensor if ratio is None else ratio * tensor, msg=name)


def test_go_on(case):
    """What an adapter of peft's is, is kept where the recipe does not say; also from a run's folder."""
    for name, config in (("patterns", dict(r=4, lora_alpha=6, target_modules=["q_proj", "up_proj"],
                                           rank_pattern={"q_proj": 2}, alpha_pattern={"1.mlp.up_proj": 9})),
                         ("dora", dict(r=3, use_dora=True, use_rslora=True, target_modules="all-linear")),
                         ("saved", dict(r=2, target_modules=["v_proj"], modules_to_save=["lm_head"])),
                         ("layers", dict(r=2, target_modules=["v_proj"], layers_to_transform=[1])),
                         ("embedding", dict(r=2, target_modules=["v_proj", "embed_tokens"]))):
        adapter = _peft_adapter(case, **config)
        source = adapter
        for again in ("first", "second"):
            run = case.train(output_dir=str(case.folder / f"{name}-{again}"), adapter={"kind": "lora"},
                             model={"path": str(TINY), "init_from": str(source)},
                             optimizer={"name": "sgd", "learning_rate": 1e-30, "lr_scheduler": "constant",
                                        "warmup_steps": 0})
            source = run  # a run stands for its result
        want = load_file(adapter / "adapter_model.safetensors")
        got = load_file(run / "adapter" / "adapter_model.safetensors")
        missing = {n for n in want if "base_layer" not in n} - got.keys()
        assert not missing and not got.keys() - want.keys(), (name, missing, got.keys() - want.keys())
        for key, tensor in got.items():
            assert tensor.equal(want[key]), (name, key)
        case.check_loss(reference.load(TINY, adapter), TINY, TINY, "--adapter", run / "adapter")
        shutil.rmtree(adapter)


def test_several_adapters(case):
    """Adapters merged in order, each into what those before it made."""
    first = _peft_adapter(case, r=4, lora_alpha=8, target_modules="all-linear")
    first = first.rename(case.folder / "first")
    second = _peft_adapter(case, r=2, use_dora=True, target_modules=["q_proj", "up_proj"])
    second = second.rename(case.folder / "second")
    third = _peft_adapter(case, r=2, target_modules=["embed_tokens", "v_proj"])
    merged = []
    for i, adapters in enumerate(([first, second, third], [second, first], [third, second])):
        out = case.folder / f"merged-{i}"
        options = [word for adapter in adapters for word in ("--adapter", adapter)]
        result = case.ftune("export", TINY, *options, "--merge", "--out", out, "--dtype", "fp32")
        assert result["max_logit_diff"] <= 1e-4, result
        _check_merged(out, TINY, *adapters, parted=third in adapters)
        case.check_loss(reference.load(out), out, TINY, *options)
        merged.append(load_file(out / "model.safetensors"))
    # DoRA's norm is that of the weights it meets: the order matters.
    case.ftune("export", TINY, "--adapter", first, "--adapter", second, "--merge", "--out", case.folder / "12",
               "--dtype", "fp32")
    name = "model.layers.0.self_attn.q_proj.weight"
    assert not load_file(case.folder / "12" / "model.safetensors")[name].allclose(merged[1][name], atol=1e-4)


def test_shards(case):
    """Shards of a chosen size, with an index."""
    run = _train_lora(case)
    merged, limit = case.folder / "merged", 20_000
    case.ftune("export", run, "--merge", "--out", merged, "--shard-size", "20KB")
    index = json.loads((merged / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in merged.glob("*.safetensors"))
    assert len(files) > 2 and sorted(set(index["weight_map"].values())) == files, (files, index["weight_map"])
    total = 0
    for i, name in enumerate(files):
        assert re.fullmatch(rf"model-{i + 1:05}-of-{len(files):05}\.safetensors", name), name
        tensors = load_file(merged / name)
        sizes = [t.numel() * t.element_size() for t in tensors.values()]
        assert sum(sizes) <= limit or len(sizes) == 1, f"{name} has {sum(sizes)} bytes"
        assert sorted(tensors) == sorted(n for n, f in index["weight_map"].items() if f == name)
        total += sum(sizes)
    assert index["metadata"]["total_size"] == total
    _check_merged(merged, TINY, run / "adapter")


def test_dtypes(case):
    """Exports in each dtype: what the file has, what the config says, how far the weights may move."""
    base = load_file(TINY / "model.safetensors")
    for flag, stored, dtype in (("fp32", "float32", torch.float32), ("bf16", "bfloat16", torch.bfloat16),
                                ("fp16", "float16", torch.float16)):
        out = case.folder / flag
        case.ftune("export", TINY, "--out", out, "--dtype", flag)
        assert json.loads((out / "config.json").read_text())["torch_dtype"] == stored
        for name, tensor in load_file(out / "model.safetensors").items():
            assert tensor.equal(base[name].to(dtype)), f"{flag}: {name} is not the base's, rounded"
        case.check_loss(reference.load(out), out, out)


def _write_small_tokenizer(folder):
    """For the golden models, whose vocabulary is smaller than 256: lower case, digits and little else."""
    special, letters = ["<|im_start|>", "<|im_end|>"], "abcdefghijklmnopqrstuvwxyzT0123456789.+=\n "
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    symbols = special + [byte_level.pre_tokenize_str(c)[0][0] for c in letters]
    tokenizer = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(symbols)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = byte_level, decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    template = json.loads((TINY / "tokenizer_config.json").read_text())["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": template}))


def test_families(case):
    """Every family, file dtype and dialect of config.json: trained, merged, and loaded by transformers."""
    rows = [{"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}
            for question, answer in (("The quick brown fox", "jumps over the lazy dog."),
                                     ("12 + 34", "12 + 34 = 46.\n46 = 34 + 12."))]
    chats = write_jsonl(case.folder / "small.jsonl", rows)
    bases = sorted(path.with_name(path.name.removesuffix("-lora")) for path in MODELS.glob("*-lora"))
    assert len(bases) >= 7, bases
    for golden in bases:
        base = case.folder / golden.name
        shutil.copytree(golden, base)
        _write_small_tokenizer(base)
        samples = reference.chat_samples(base, rows)

        def check(loaded, *arguments):
            want, count = reference.mean_loss(loaded, samples)
            got = case.ftune("eval", arguments[0], chats, *arguments[1:])
            assert got["trained_tokens"] == count, (golden.name, got, count)
            assert abs(got["eval_loss"] - want) <= LOSS_TOLERANCE, (golden.name, arguments, got, want)

        check(reference.load(base), base)
        data = {"train": [str(chats)], "eval": [str(chats)], "sequence_len": 96}
        common = {"model": {"path": str(base)}, "data": data}
        full = case.train(output_dir=f"{base}-full", **common)
        check(reference.load(full / "model"), full / "model")
        lora = case.train(output_dir=f"{base}-run", adapter={"kind": "lora", "lora_r": 2}, **common)
        check(reference.load(base, lora / "adapter"), lora)
        merged = Path(f"{base}-merged")
        case.ftune("export", lora, "--merge", "--out", merged, "--dtype", "fp32")
        check(reference.load(merged), merged)
        _check_merged(merged, base, lora / "adapter")


def test_gguf(case):
    """SmolLM2 from a quantised GGUF to a Hugging Face folder: weights, tokenizer, template, generation."""
    import gguf

    if case.gguf is None or not case.gguf.exists():
        raise Skipped("no --gguf model here")
    out = case.folder / "exported"
    case.ftune("export", case.gguf, "--out", out, "--dtype", "fp32")
    reader = gguf.GGUFReader(case.gguf)
    stored = {t.name: torch.from_numpy(gguf.dequantize(t.data, t.tensor_type).copy()) for t in reader.tensors}
    model = reference.load(out)
    weights = dict(model.named_parameters())
    assert len(weights) == len(stored), f"{len(weights)} weights, {len(stored)} in the GGUF"
    for ours, theirs in (("model.embed_tokens.weight", "token_embd.weight"),
                         ("model.norm.weight", "output_norm.weight"),
                         ("model.layers.7.mlp.down_proj.weight", "blk.7.ffn_down.weight"),
                         ("model.layers.7.self_attn.v_proj.weight", "blk.7.attn_v.weight")):
        assert weights[ours].equal(stored[theirs]), ours

    # llama.cpp permutes the rows of q and k; transformers' own reader of GGUF puts them back.
    own = reference.load_gguf(case.gguf)
    for name, tensor in own.state_dict().items():
        assert model.state_dict()[name].equal(tensor), name

    case.check_loss(model, out, case.gguf)
    case.check_loss(model, out, out)

    tokenizer = AutoTokenizer.from_pretrained(out)
    template = bytes(reader.fields["tokenizer.chat_template"].parts[-1]).decode()
    assert tokenizer.chat_template == template
    for row in TEXTS:
        want = tokenizer(row["text"])["input_ids"]
        assert case.ftune("tokenize", case.gguf, text=row["text"])["ids"] == want, row
        assert tokenizer.decode(want) == row["text"], row
    for row in CHATS:
        want = tokenizer.apply_chat_template(row["messages"], tokenize=False)
        assert case.ftune("template", case.gguf, text=json.dumps(row))["text"] == want, row

    prompt = "The capital of France is"
    ids = torch.tensor([tokenizer(prompt)["input_ids"]])
    want = model.generate(ids, max_new_tokens=16, do_sample=False)[0, ids.shape[1] :].tolist()
    got = case.ftune("generate", out, "--prompt", prompt, "--temperature", 0, "--max-new-tokens", 16)
    assert got["tokens"] == want, (got, tokenizer.decode(want))


TESTS = {name.removeprefix("test_"): function for name, function in list(globals().items())
         if name.startswith("test_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TESTS))
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - TESTS.keys():
        parser.error(f"no such test: {', '.join(sorted(unknown))}")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    failed = skipped = 0
    for name in arguments.names or TESTS:
        try:
            TESTS[name](Case(arguments, arguments.work.resolve() / name))
            print(f"ok      {name}", flush=True)
        except Skipped as reason:
            skipped += 1
            print(f"SKIPPED {name}: {reason}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(arguments.names or TESTS)} tests, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
