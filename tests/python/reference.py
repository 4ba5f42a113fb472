"""What transformers and peft say: tokens, which of them are learned, loss, logits."""

import os

os.environ["TQDM_DISABLE"] = "1"  # read when transformers is imported

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(model, adapter=None):
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    return (loaded if adapter is None else PeftModel.from_pretrained(loaded, adapter)).eval()


def load_gguf(path):
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()


def text_samples(model, rows):
    """A document: its tokens and the end-of-sequence token, all learned."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    samples = []
    for row in rows:
        ids = tokenizer(row["text"])["input_ids"] + [tokenizer.eos_token_id]
        samples.append((ids, [True] * len(ids)))
    return samples


def chat_samples(model, rows):
    """A conversation of ChatML: what the assistant says is learned, with the token that ends its turn."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    ids_of = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
    samples = []
    for row in rows:
        messages = row["messages"]
        whole = tokenizer.apply_chat_template(messages, tokenize=False)
        ids, learned, done = [], [], 0
        for i, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            begin = len(tokenizer.apply_chat_template(messages[:i], tokenize=False, add_generation_prompt=True))
            end = begin + len(message["content"]) + len("<|im_end|>")
            assert whole[begin:end] == message["content"] + "<|im_end|>"
            for part, trained in ((whole[done:begin], False), (whole[begin:end], True)):
                ids += ids_of(part)
                learned += [trained] * len(ids_of(part))
            done = end
        ids += ids_of(whole[done:])
        learned += [False] * (len(ids) - len(learned))
        # The parts begin and end at special tokens or newlines, where nothing merges.
        assert ids == ids_of(whole)
        samples.append((ids, learned))
    return samples


def _forget_lengths(model):
    """Dynamic RoPE scaling keeps the frequencies of the longest text so far; here every text has its own."""
    for module in model.modules():
        if hasattr(module, "max_seq_len_cached") and hasattr(module, "original_inv_freq"):
            module.max_seq_len_cached = module.original_max_seq_len
            module.inv_freq = module.original_inv_freq.clone()


@torch.no_grad()
def logits(model, ids):
    _forget_lengths(model)
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


@torch.no_grad()
def mean_loss(model, samples):
    """→ (Σ token losses ÷ learned tokens, learned tokens). The first token of a sample is never predicted."""
    total, count = 0.0, 0
    for ids, learned in samples:
        losses = torch.nn.functional.cross_entropy(
            logits(model, ids)[:-1].float(), torch.tensor(ids[1:]), reduction="none")
        mask = torch.tensor(learned[1:])
        total += losses[mask].double().sum().item()
        count += int(mask.sum())
    return total / count, count
