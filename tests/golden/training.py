"""Logits, loss, gradients and training as the reference computes them: each sample alone, losses summed."""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import get_cosine_schedule_with_warmup

from batches import IGNORE
from checkpoint_names import in_fixtures


@dataclass(frozen=True)
class AdamW:
    lr: float = 1e-3
    betas: tuple = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.1  # none on norms and biases
    warmup_steps: int = 3  # then half a cosine to zero
    max_grad_norm: float = 1.0


@dataclass(frozen=True)
class Sgd:
    lr: float = 0.05


def _forget_lengths(model):
    """Dynamic scaling keeps the frequencies of the longest sample so far; here every sample has its own."""
    for module in model.modules():
        if hasattr(module, "max_seq_len_cached") and hasattr(module, "inv_freq"):
            module.max_seq_len_cached = module.original_max_seq_len
            module.inv_freq = module.original_inv_freq.clone()


def forward(model, batch):
    """→ (mean loss over the batch's trained tokens, logits [tokens, vocab], zero in the tails)."""
    total = torch.zeros(())
    rows = torch.zeros(len(batch.ids), model.config.get_text_config().vocab_size)
    for begin, length in batch.segments.tolist():
        place = slice(begin, begin + length)
        ids, labels = (torch.from_numpy(a[place].astype(np.int64)) for a in (batch.ids, batch.labels))
        _forget_lengths(model)
        logits = model(input_ids=ids[None], use_cache=False).logits[0]
        total = total + cross_entropy(logits, labels, ignore_index=IGNORE, reduction="sum")
        rows[place] = logits.detach()
    return total / batch.trained_tokens, rows


def trainable(model):
    """Trained parameters by ftune's names. A tied weight comes once."""
    return {in_fixtures(n): p for n, p in model.named_parameters() if p.requires_grad}


def one_batch(model, batch):
    """→ tensors: logits, loss and each parameter's gradient."""
    loss, logits = forward(model, batch)
    loss.backward()
    tensors = {"logits": logits, "loss": loss.detach()[None]}
    tensors |= {f"grad.{n}": p.grad for n, p in trainable(model).items()}
    return tensors


def adamw_steps(model, batches, options):
    """→ losses before each step, gradient norms before clipping, rates, and the moments after all."""
    parameters = trainable(model)
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters.values() if p.dim() > 1], "weight_decay": options.weight_decay},
            {"params": [p for p in parameters.values() if p.dim() == 1], "weight_decay": 0.0},
        ],
        lr=options.lr, betas=options.betas, eps=options.eps)
    schedule = get_cosine_schedule_with_warmup(optimizer, options.warmup_steps, len(batches))
    losses, norms, rates = [], [], []
    for batch in batches:
        loss, _ = forward(model, batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), options.max_grad_norm)
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        norms.append(norm.item())
    tensors = {"loss": torch.tensor(losses), "grad_norm": torch.tensor(norms), "lr": torch.tensor(rates)}
    for name, p in parameters.items():
        tensors[f"exp_avg.{name}"] = optimizer.state[p]["exp_avg"]
        tensors[f"exp_avg_sq.{name}"] = optimizer.state[p]["exp_avg_sq"]
    return tensors


def sgd_steps(model, batches, options):
    """→ losses before each step and the weights after all."""
    parameters = trainable(model)
    optimizer = torch.optim.SGD(parameters.values(), lr=options.lr)
    losses = []
    for batch in batches:
        loss, _ = forward(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return {"loss": torch.tensor(losses)} | {f"weight.{n}": p.detach() for n, p in parameters.items()}
