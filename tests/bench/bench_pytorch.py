#!/usr/bin/env python3
"""One training run with PyTorch, transformers and peft, on batches that ftune dumped. Logs lines like ftune's.

What can be chosen is what a careful user would choose on a CPU: which of them is fastest, bench.py finds out.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import torch
from ftune_batches import IGNORE, load_steps
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy, linear_cross_entropy, scaled_dot_product_attention
from transformers import AttentionInterface, AutoModelForCausalLM
from transformers.utils import logging


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a Hugging Face directory")
    parser.add_argument("--batches", required=True, help="what ftune inspect --batches N --json wrote")
    parser.add_argument("--mode", choices=["lora", "full"], required=True)
    parser.add_argument("--steps", type=int, help="all that the file has, if not given")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32",
                        help="bf16: autocast; a frozen base is stored in bf16, trained weights in fp32")
    parser.add_argument("--attention", choices=["mask", "segments"], default="mask",
                        help="mask: transformers' own for packed rows; segments: causal, sample by sample")
    parser.add_argument("--head", choices=["all", "trained", "chunked"], default="all",
                        help="all: logits of all tokens; trained: of those with a label; chunked: of those "
                             "too, and never all at once (torch's linear_cross_entropy)")
    parser.add_argument("--microbatches-per-forward", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="torch.compile; rows are padded to the capacity")
    parser.add_argument("--lora-r", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--log", help="where the lines go; standard output if not given")
    arguments = parser.parse_args()
    if arguments.compile and arguments.head != "all":
        parser.error("--compile needs --head all: the number of trained tokens changes from step to step")
    return arguments


def segment_attention(module, query, key, value, attention_mask, scaling=None, segments=None, **_):
    """What a variable-length kernel does on a GPU: each sample by itself, with torch's causal kernel."""
    parts = []
    for begin, length in segments:
        q, k, v = (x[:, :, begin : begin + length] for x in (query, key, value))
        parts.append(scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=True))
    return torch.cat(parts, dim=2).transpose(1, 2), None


def build_model(arguments):
    AttentionInterface.register("segments", segment_attention)
    implementation = {"mask": "sdpa", "segments": "segments"}[arguments.attention]
    low = arguments.dtype == "bf16" and arguments.mode == "lora"
    model = AutoModelForCausalLM.from_pretrained(
        arguments.model, dtype=torch.bfloat16 if low else torch.float32, attn_implementation=implementation)
    model.config.use_cache = False
    if arguments.mode == "lora":
        # peft keeps the adapter in fp32 on a base in bf16.
        model = get_peft_model(model, LoraConfig(
            r=arguments.lora_r, lora_alpha=2 * arguments.lora_r, lora_dropout=0.0, target_modules="all-linear",
            task_type="CAUSAL_LM"))
    return model.train()


class Row:
    """Microbatches as one row: the samples side by side, positions from 0 in each, without padding."""

    def __init__(self, microbatches, padded):
        ids, labels, lengths = [], [], []
        for micro in microbatches:
            for begin, length in micro.segments:
                ids += micro.ids[begin : begin + length]
                labels += micro.labels[begin : begin + length]
                lengths.append(length)
        gap = sum(len(micro.ids) for micro in microbatches) - len(ids)
        if padded and gap > 0:
            ids, labels, lengths = ids + [0] * gap, labels + [IGNORE] * gap, lengths + [gap]
        self.segments = [(sum(lengths[:i]), n) for i, n in enumerate(lengths)]
        self.ids = torch.tensor([ids])
        self.positions = torch.tensor([[p for n in lengths for p in range(n)]])
        self.labels = torch.tensor(labels)


def rows_of(microbatches, arguments):
    size = arguments.microbatches_per_forward
    groups = [microbatches[i : i + size] for i in range(0, len(microbatches), size)]
    return [Row(group, arguments.compile) for group in groups if any(micro.segments for micro in group)]


def sum_of_losses(model, forward, row, arguments):
    extra = {"segments": row.segments} if arguments.attention == "segments" else {}
    inputs = {"input_ids": row.ids, "position_ids": row.positions, "use_cache": False, **extra}
    trained = (row.labels != IGNORE).nonzero()[:, 0]
    if arguments.head == "all":
        logits = forward(**inputs).logits[0].float()
        return cross_entropy(logits, row.labels, ignore_index=IGNORE, reduction="sum")
    if arguments.head == "trained":
        logits = forward(**inputs, logits_to_keep=trained).logits[0].float()
        return cross_entropy(logits, row.labels[trained], reduction="sum")
    inner = model.get_base_model() if arguments.mode == "lora" else model
    hidden = inner.model(**inputs).last_hidden_state[0][trained]
    weight = inner.lm_head.weight
    return linear_cross_entropy(hidden.to(weight.dtype), weight, row.labels[trained], reduction="sum",
                                options=torch.nn.LinearCrossEntropyOptions())


def train(arguments, log):
    model = build_model(arguments)
    forward = torch.compile(model) if arguments.compile else model
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=arguments.learning_rate, weight_decay=0.0, fused=True)
    autocast = torch.autocast("cpu", torch.bfloat16) if arguments.dtype == "bf16" else contextlib.nullcontext()
    for step, microbatches in enumerate(load_steps(arguments.batches)[: arguments.steps], 1):
        rows = rows_of(microbatches, arguments)
        tokens = sum(micro.used_tokens for micro in microbatches)
        trained_tokens = sum(micro.trained_tokens for micro in microbatches)
        start, cpu_start = time.perf_counter(), time.process_time()
        total = 0.0
        for row in rows:
            with autocast:
                loss = sum_of_losses(model, forward, row, arguments) / trained_tokens
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(trainable, 1.0).item()
        optimizer.step()
        optimizer.zero_grad()
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        line = {"event": "train", "time": time.time(), "step": step, "loss": total, "grad_norm": norm,
                "tokens": tokens, "tokens_per_second": tokens / seconds, "step_seconds": seconds,
                "cpu_seconds": cpu_seconds}
        print(json.dumps(line), file=log, flush=True)


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(arguments.log, "w")) if arguments.log else sys.stdout
        train(arguments, log)


if __name__ == "__main__":
    main()
