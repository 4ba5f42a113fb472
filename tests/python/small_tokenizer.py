"""A tokenizer for the golden models, whose vocabularies are smaller than the 256 bytes."""

import json

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

TOKENS = 64  # its ids, fewer than any golden model has


def write_small_tokenizer(folder):
    """Of TOKENS ids, all of them of one character but for two."""
    special = ["<|im_start|>", "<|im_end|>"]
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    symbols = special + list(letters)
    assert len(symbols) == TOKENS
    tokenizer = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(symbols)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}))
