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
from transformers import AutoTokenizer
from transformers.utils import logging

import reference
from ftune_cli import Ftune, write_jsonl
from small_tokenizer import write_small_tokenizer

MODELS = Path(__file__).resolve().parents[1] / "golden" / "models"
TINY = MODELS / "tiny-chat"
TOKENIZER_FILES = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]
LOSS_TOLERANCE = 3e-5  # of losses about 4: some sixty epsilons of f32, whose sums both cut as their processor has it

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


def test_qlora(case):
    """An adapter on a quantised base: the loss and the merged weights are those on what bitsandbytes makes of it."""
    sys.path.append(str(MODELS.parent))
    from qlora_golden import quantized_model  # needs bitsandbytes, which takes seconds to load

    for kind in ("nf4", "fp4", "int8"):
        run = _train_lora(case, quantize=kind)
        adapter = run / "adapter"
        assert json.loads((adapter / "ftune_adapter.json").read_text()) == {"quantize": kind}
        merged = case.folder / f"merged-{kind}"
        result = case.ftune("export", run, "--merge", "--out", merged)
        assert result["max_logit_diff"] <= 1e-4, result
        model = PeftModel.from_pretrained(quantized_model(TINY, kind), adapter)
        case.check_loss(model.eval(), TINY, adapter)
        check_last_evaluation(run, model, TINY)
        _check_same_weights(reference.load(merged).state_dict(), model.merge_and_unload().state_dict())
        # On the base as it is in the file, if one asks for it.
        case.check_loss(reference.load(TINY, adapter), TINY, adapter, "--quantize", "none")
        shutil.rmtree(run)


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
    """What an adapter of peft's is, is kept where the recipe does not say; also of one that a run has made."""
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
            source = run / "adapter"
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


def _read_gguf(path):
    """→ {name: (tensor as f32, its type)} and the metadata, as the gguf package has them."""
    import gguf

    reader = gguf.GGUFReader(path)
    # The reader gives plain types their shape, quantised ones their bytes.
    tensors = {t.name: (torch.from_numpy(gguf.dequantize(t.data, t.tensor_type).copy()), t.tensor_type.name)
               for t in reader.tensors}
    return tensors, {name: field.contents() for name, field in reader.fields.items()}


GGUF_PARTS = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
              "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
              "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def _hf_weights(tensors, metadata):
    """The tensors under Hugging Face names; llama.cpp's order of rows in Llama's q and k is undone."""
    architecture, weights = metadata["general.architecture"], {}
    for name, (tensor, _) in tensors.items():
        part, suffix = name.rsplit(".", 1)
        if part == "rope_freqs":
            continue
        if not part.startswith("blk."):
            outer = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
            weights[f"{outer[part]}.{suffix}"] = tensor
            continue
        _, layer, part = part.split(".")
        if architecture == "llama" and part in ("attn_q", "attn_k"):
            heads = metadata[f"llama.attention.head_count{'_kv' if part == 'attn_k' else ''}"]
            pairs = tensor.reshape(heads, tensor.shape[0] // heads // 2, 2, *tensor.shape[1:])
            tensor = pairs.swapaxes(1, 2).reshape(tensor.shape)
        weights[f"model.layers.{layer}.{GGUF_PARTS[part]}.{suffix}"] = tensor
    return weights


READ_AGAIN = ("qwen3", "gemma", "gemma2", "gemma3", "gemma3-scaled")
# The tiny Gemma 2 has a scale of scores that GGUF has no place for.
NOT_WRITTEN = ("gpt2", "phi3", "llama-yarn", "gemma2")


def test_export_gguf_read_again(case):
    """Families that only ftune reads here: what it wrote computes the same; those it cannot write it refuses."""
    for name in READ_AGAIN:
        base = case.folder / f"{name}-as-released"
        shutil.copytree(MODELS / name, base)
        write_small_tokenizer(base)
        # What GGUF readers take for granted of Gemma.
        config = json.loads((base / "config.json").read_text())
        if "query_pre_attn_scalar" in config:
            config["query_pre_attn_scalar"] = config["head_dim"]
            for key in ("layer_types", "sliding_window_pattern"):
                config.pop(key, None)
        (base / "config.json").write_text(json.dumps(config))
        result = case.ftune("export", base, "--format", "gguf", "--out", case.folder / f"{name}.gguf", "--dtype", "f32")
        assert result["max_logit_diff"] <= 1e-5, (name, result)
    for name in NOT_WRITTEN:
        base = case.folder / name
        shutil.copytree(MODELS / name, base)
        write_small_tokenizer(base)
        error = case.ftune.error("export", base, "--format", "gguf", "--out", case.folder / f"{name}.gguf")
        assert "be written as GGUF" in error["message"], error


def test_export_gguf(case):
    """Every family as GGUF in f32: the tensors, and what transformers computes with the file."""
    ids = list(range(7, 40))
    for name in ("tiny-chat", "llama", "llama3", "llama-linear", "smollm2", "mistral", "qwen2"):
        base = case.folder / name
        shutil.copytree(MODELS / name, base)
        if not (base / "tokenizer.json").exists():
            write_small_tokenizer(base)
        out = case.folder / f"{name}.gguf"
        result = case.ftune("export", base, "--format", "gguf", "--out", out, "--dtype", "f32")
        # Half-precision weights are multiplied by another routine than f32.
        assert result["max_logit_diff"] <= (0 if name not in ("llama-linear", "qwen2") else 1e-5), (name, result)
        tensors, metadata = _read_gguf(out)
        assert {kind for _, kind in tensors.values()} == {"F32"}, name
        loaded = reference.load(base)
        want = {n: t for n, t in loaded.state_dict().items()
                if n != "lm_head.weight" or not loaded.config.tie_word_embeddings}
        got = _hf_weights(tensors, metadata)
        assert got.keys() == want.keys(), (name, got.keys() ^ want.keys())
        for weight, tensor in want.items():
            assert got[weight].equal(tensor), (name, weight)
        if name == "llama3":  # the frequencies divided by the factors are those that transformers scales
            factors = tensors["rope_freqs.weight"][0]
            plain = 10000.0 ** -(torch.arange(0, 16, 2) / 16)
            scaled = loaded.model.rotary_emb.inv_freq
            assert torch.allclose(plain / factors, scaled, rtol=1e-6), (plain / factors, scaled)
        if name in ("tiny-chat", "llama", "smollm2", "qwen2"):  # transformers knows no scaling or window of GGUF
            error = (reference.logits(reference.load_gguf(out), ids) - reference.logits(loaded, ids)).abs().max()
            assert error <= 1e-5, (name, error)


def test_export_gguf_merged(case):
    """An adapter merged into a GGUF is what peft merges; its tokenizer and template are the base's."""
    run = _train_lora(case)
    out = case.folder / "deep" / "merged.gguf"
    result = case.ftune("export", run, "--merge", "--format", "gguf", "--out", out)
    assert result["max_logit_diff"] <= 1e-4, result
    tensors, metadata = _read_gguf(out)
    got = _hf_weights(tensors, metadata)
    for name, tensor in reference.load(TINY, run / "adapter").merge_and_unload().state_dict().items():
        if name == "lm_head.weight":
            continue
        error = (got[name] - tensor).abs().max().item()
        assert error <= 1e-6 * max(1.0, tensor.abs().max().item()), f"{name}: differs by {error}"
    assert metadata["tokenizer.chat_template"] == AutoTokenizer.from_pretrained(TINY).chat_template
    case.check_loss(reference.load_gguf(out), TINY, out)


def test_export_gguf_quantised(case):
    """SmolLM2 from Q4_1 to other types: bytes and values as the gguf package has them; it still speaks."""
    import gguf
    import numpy as np

    if case.gguf is None or not case.gguf.exists():
        raise Skipped("no --gguf model here")
    source = {t.name: t for t in gguf.GGUFReader(case.gguf).tensors}
    values = {name: gguf.dequantize(t.data, t.tensor_type) for name, t in source.items()}
    # Rows of 576 values are no multiple of Q4_K's 256, those of ffn_down, 1536, are.
    for dtype, kinds in (("q8_0", {"F32", "Q8_0"}), ("q4_0", {"F32", "Q4_0"}), ("q4_k", {"F32", "Q8_0", "Q4_K"})):
        out = case.folder / f"{dtype}.gguf"
        result = case.ftune("export", case.gguf, "--format", "gguf", "--out", out, "--dtype", dtype)
        reader = gguf.GGUFReader(out)
        assert {t.tensor_type.name for t in reader.tensors} == kinds, dtype
        assert 0 < result["max_logit_diff"] < {"q8_0": 1.5, "q4_0": 30, "q4_k": 10}[dtype], result
        for tensor in reader.tensors:
            if tensor.tensor_type.name == "Q4_K":
                error = np.square(gguf.dequantize(tensor.data, tensor.tensor_type) - values[tensor.name]).mean()
                assert error < 0.01 * np.square(values[tensor.name]).mean(), (tensor.name, error)
            else:
                want = gguf.quantize(values[tensor.name], tensor.tensor_type)
                assert np.array_equal(np.asarray(tensor.data).reshape(-1), want.reshape(-1)), (dtype, tensor.name)
        for name, field in gguf.GGUFReader(case.gguf).fields.items():
            if name.startswith("tokenizer."):
                assert reader.fields[name].contents() == field.contents(), name
        # ftune reads what the package reads.
        folder = case.folder / f"{dtype}-hf"
        case.ftune("export", out, "--out", folder, "--dtype", "fp32")
        exported = load_file(folder / "model.safetensors")
        tensors, metadata = _read_gguf(out)
        for name, tensor in _hf_weights(tensors, metadata).items():
            assert exported[name].equal(tensor), (dtype, name)
        shutil.rmtree(folder)
    prompt = ("--prompt", "The capital of France is", "--temperature", 0, "--max-new-tokens", 8)
    texts = [case.ftune("generate", model, *prompt)["text"] for model in (case.gguf, case.folder / "q8_0.gguf")]
    assert "Paris" in texts[0] and texts[0] == texts[1], texts


TESTS = {name.removeprefix("test_"): function for name, function in list(globals().items())
         if name.startswith("test_")}


def main(tests, description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(tests))
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - tests.keys():
        parser.error(f"no such test: {', '.join(sorted(unknown))}")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    failed = skipped = 0
    for name in arguments.names or tests:
        try:
            tests[name](Case(arguments, arguments.work.resolve() / name))
            print(f"ok      {name}", flush=True)
        except Skipped as reason:
            skipped += 1
            print(f"SKIPPED {name}: {reason}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(arguments.names or tests)} tests, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(TESTS, __doc__))
