"""Makes tests/golden/tokenizer/*.json: small tokenizers, texts, and what the owners of the formats make of them.

Each fixture has a whole tokenizer ("tokenizer": a tokenizer.json; or "model": a SentencePiece .model, base64), and cases
of text, ids, spans (bytes [begin, end) of the text) and decoded text. Spans are null where normalisation has changed
the text: `tokenizers` then gives a composed character the place of its first part only.

    python tests/golden/tokenizer_golden.py     (needs the packages tokenizers and sentencepiece)
"""

import base64
import io
import json
import pathlib

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).parent / "tokenizer"

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's what they're known for, isn't it? We've seen 1234 of them.",
    "def add(a, b):\n    return a + b\n\n\nfor i in range(10):\n\tprint(add(i, 2**i))\n",
    "Fine-tuning a language model: the loss falls, the learning rate warms up, and the tokens go by, 512 at a time.",
    "Ein Tokenizer zerlegt den Text in Stücke; größere Wörter werden geteilt. Über 100 Sprachen sind möglich.",
    "Привет, мир! Это простой текст для обучения. 日本語のテキストも少しあります。 नमस्ते दुनिया",
] * 4

TEXTS = [
    "",
    " ",
    "   ",
    "\n",
    "\t\n \r\n\n x\n\n  y   \n",
    "Hello world",
    " Hello  world!!  ",
    "The quick brown fox jumps over the lazy dog.",
    "it's we'RE I'LL don'T they've \u017f's '\u017f",
    "1234567890 12 \u0661\u0662 \u00bd \u00b2 3.14",
    "def add(a, b):\n    return a + b\n\n\tprint(add(1, 2))",
    "St\u00fccke gr\u00f6\u00dfere W\u00f6rter",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u65e5\u672c\u8a9e\u3082 \u0928\u092e\u0938\u094d\u0924\u0947",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 emoji \U0001f600\U0001f999 \u2705",
    "e\u0301a\u0323\u0301 \u1112\u1161\u11ab A\u030a",
    "\u00a0\u2028\u180e\u0085\u3000x",
    "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n",
    "a<s>b </s>  c<unk>",
    "<|im_start|><|im_start|> <|im_end|>x <|tool|> y",
    "\u2581\u2581 \u2581a",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "----====____++++ https://example.org/a?b=c&d=e#f",
]

SPECIAL = ["<|im_start|>", "<|im_end|>"]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def train(tokenizer, size, specials, alphabet=()):
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=specials, initial_alphabet=list(alphabet), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def byte_level(size, specials, **parts):
    tokenizer = Tokenizer(models.BPE())
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, size, specials, pre_tokenizers.ByteLevel.alphabet())


def gpt2():
    return byte_level(420, ["<|endoftext|>"], pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False))


def gpt2_prefix_space():
    tokenizer = byte_level(300, ["<s>", "</s>"], pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=False)
    return tokenizer


def smollm():
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return byte_level(420, ["<|endoftext|>", *SPECIAL], pre_tokenizer=split)


def llama3():
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer = byte_level(420, ["<s>", *SPECIAL], pre_tokenizer=split)
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)]),
        ]
    )
    data = json.loads(tokenizer.to_str())
    data["model"]["ignore_merges"] = True
    return Tokenizer.from_str(json.dumps(data))


def qwen():
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer = byte_level(420, [], normalizer=normalizers.NFC(), pre_tokenizer=split)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken("<|tool|>", lstrip=True, rstrip=True, normalized=False)])
    return tokenizer


def falcon():
    """Steps behind ByteLevel see the bytes' characters, of which \u00b2 and others are digits."""
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    )
    return byte_level(380, ["<|endoftext|>"], pre_tokenizer=split)


def with_byte_fallback(tokenizer):
    """The trainer knows no byte tokens: put them in front, as SentencePiece does."""
    data = json.loads(tokenizer.to_str())
    model = data["model"]
    front = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    rest = [token for token in model["vocab"] if token not in front]
    model["vocab"] = {token: i for i, token in enumerate(front + rest)}
    model.update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    data["added_tokens"] = [
        dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
        for i, t in enumerate(front[:3])
    ]
    return Tokenizer.from_str(json.dumps(data))


def sentencepiece_decoder(strip):
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def llama2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)  # for training
    train(tokenizer, 400, [])
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = sentencepiece_decoder(strip=True)
    tokenizer = with_byte_fallback(tokenizer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A <s> $B", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return tokenizer


def metaspace_first():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    train(tokenizer, 400, [])
    tokenizer.decoder = sentencepiece_decoder(strip=True)
    return with_byte_fallback(tokenizer)


def unknown_characters():
    """Lower case without accents, words and punctuation; characters that are no token become <unk>."""
    merges = ["t h", "th e</w>", "e r", "l l", "ll o</w>", "o r", "w or", "wor l", "worl d</w>", "s t"]
    merges = [tuple(merge.split()) for merge in merges]
    letters = "abcdefghiklmnorstuwy.,'"
    tokens = ["<unk>", *letters, *(letter + "</w>" for letter in letters), *("".join(pair) for pair in merges)]
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, end_of_word_suffix="</w>")
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<unk>"])
    return tokenizer


def byte_offsets(text):
    offsets = [0]
    for char in text:
        offsets.append(offsets[-1] + len(char.encode()))
    return offsets


def cases(tokenizer, texts):
    made = []
    for text in texts:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        offsets = byte_offsets(text)
        changed = tokenizer.normalizer is not None and any(ord(char) > 0x2FF for char in text)
        made.append(
            {
                "text": text,
                "ids": encoding.ids,
                "spans": None if changed else [[offsets[begin], offsets[end]] for begin, end in encoding.offsets],
                "special_ids": tokenizer.encode(text, add_special_tokens=True).ids,
                "decoded": tokenizer.decode(encoding.ids, skip_special_tokens=False),
                "decoded_plain": tokenizer.decode(encoding.ids, skip_special_tokens=True),
            }
        )
    return made


def gguf_pre_tokenizers():
    """How the models' own tokenizer.json split, by the name that GGUF files give it."""
    isolated = lambda *patterns: [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    digits = pre_tokenizers.Digits(individual_digits=True)
    gpt2 = (
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # ByteLevel's own, unmapped
    )
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    lead, tail = r"[^\r\n\p{L}\p{N}]?", r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    short = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    han = r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
    deepseek = (
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
    )
    steps = {
        "llama-bpe": isolated(LLAMA3),
        "qwen2": isolated(LLAMA3.replace("{1,3}", "")),
        "gpt-2": isolated(gpt2),
        "smollm": [digits, *isolated(gpt2)],
        "starcoder": [digits, *isolated(gpt2)],
        "command-r": [digits, *isolated(gpt2)],
        "tekken": isolated(rf"{lead}{upper}*{lower}+|{lead}{upper}+{lower}*|\p{{N}}{tail}"),
        "gpt-4o": isolated(rf"{lead}{upper}*{lower}+{short}|{lead}{upper}+{lower}*{short}|\p{{N}}{{1,3}}{tail}"),
        "deepseek-v3": isolated(r"\p{N}{1,3}", han, deepseek),
        "deepseek-coder": isolated(
            r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"
        ),
        "falcon": [pre_tokenizers.Punctuation("contiguous"), *isolated(gpt2, "[0-9][0-9][0-9]")],
    }
    texts = [text for text in TEXTS if text] + ["USA's iPhone15 McDonald'S/\n/\r\n", "$1,234.56 + a<b", "\ud55c\uad6d\u4e2d\u6587 x"]
    texts = [text for text in texts if "e\u0301" not in text]  # which qwen2 composes first
    split = lambda name, text: [piece for piece, _ in pre_tokenizers.Sequence(steps[name]).pre_tokenize_str(text)]
    return {"texts": texts, "pieces": {name: [split(name, text) for text in texts] for name in steps}}


def sentencepiece_fixture():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in CORPUS for line in text.splitlines()),
        model_writer=model,
        model_type="bpe",
        vocab_size=420,
        byte_fallback=True,
        character_coverage=0.99,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True,
        split_digits=True,
        control_symbols=["<|im_start|>", "<|im_end|>"],
        user_defined_symbols=["<|tool|>"],
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    control = [processor.id_to_piece(i) for i in range(len(processor)) if processor.is_control(i)] + ["<unk>"]
    made = []
    for text in TEXTS:
        if any(token in text for token in control):  # which the library takes for text, and we for tokens
            continue
        result = processor.encode(text, return_type="offset_mapping")
        offsets = byte_offsets(text)
        made.append(
            {
                "text": text,
                "ids": list(result["ids"]),
                "spans": [[offsets[begin], offsets[end]] for begin, end in result["offsets"]],
                "decoded": processor.decode(list(result["ids"])),
            }
        )
    return {"model": base64.b64encode(model.getvalue()).decode(), "cases": made}


def write(name, fixture):
    text = json.dumps(fixture, ensure_ascii=True, separators=(",", ":"))
    (OUT / f"{name}.json").write_text(text.replace('},{"text"', '},\n{"text"') + "\n")
    print(f"{name}: {len(text)} bytes")


def main():
    OUT.mkdir(exist_ok=True)
    for make in (gpt2, gpt2_prefix_space, smollm, llama3, qwen, falcon, llama2, metaspace_first, unknown_characters):
        tokenizer = make()
        write(make.__name__, {"tokenizer": json.loads(tokenizer.to_str()), "cases": cases(tokenizer, TEXTS)})
    write("sentencepiece", sentencepiece_fixture())
    write("gguf_pre_tokenizers", gguf_pre_tokenizers())


if __name__ == "__main__":
    main()
