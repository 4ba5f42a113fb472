"""Tokenizers of many kinds, made by the wheel `tokenizers` from little text, and those of ../shared/material.

Each is a tokenizer.json as text. Together they have every part that ftune reads.
"""

import io
import json

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_texts import MATERIAL

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LEAD = r"[^\r\n\p{L}\p{N}]?"
TEKKEN = rf"{LEAD}{UPPER}*{LOWER}+|{LEAD}{UPPER}+{LOWER}*|\p{{N}}{TAIL}"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O = rf"{LEAD}{UPPER}*{LOWER}+{SHORT}|{LEAD}{UPPER}+{LOWER}*{SHORT}|\p{{N}}{{1,3}}{TAIL}"
DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
CHATML = ["<|im_start|>", "<|im_end|>"]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(corpus, *steps, use_regex=False, prefix_space=False, normalizer=None, specials=CHATML):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    last = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=use_regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, last])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1200, special_tokens=specials, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def with_byte_tokens(tokenizer, **options):
    """Byte tokens in front, as SentencePiece has them, which no trainer makes."""
    data = json.loads(tokenizer.to_str())
    model = data["model"]
    front = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    if model["type"] == "BPE":
        model["vocab"] = {token: i for i, token in enumerate(front + [t for t in model["vocab"] if t not in front])}
        model.update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    else:
        model["vocab"] = [[token, 0.0] for token in front] + [pair for pair in model["vocab"] if pair[0] not in front]
        model.update(byte_fallback=True, unk_id=3)
    data["added_tokens"] = [dict(id=i, content=token, single_word=False, lstrip=False, rstrip=False, normalized=False,
                                 special=True) for i, token in enumerate(front[:4])]
    data["post_processor"] = json.loads(json.dumps({
        "type": "TemplateProcessing", "special_tokens": {"<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]}},
        "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}]}))
    data.update(options)
    return Tokenizer.from_str(json.dumps(data))


def spaces_first(corpus):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1200, show_progress=False))
    return tokenizer


def gemma(corpus):
    tokenizer = spaces_first(corpus)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = with_byte_tokens(tokenizer)
    tokenizer.add_tokens([AddedToken("\n" * n, normalized=False) for n in range(2, 6)])
    tokenizer.add_tokens([AddedToken("\u2581" * n, normalized=False) for n in range(2, 9)])
    return tokenizer


def metaspace_first(corpus):
    tokenizer = spaces_first(corpus)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return with_byte_tokens(tokenizer)


def legacy_llama(corpus):
    tokenizer = spaces_first(corpus)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.Metaspace()
    tokenizer = with_byte_tokens(tokenizer)
    for i, text in enumerate(("<|user|>", "<|end|>", "<tool>", "Word")):
        tokenizer.add_tokens([AddedToken(text, lstrip=i == 2, rstrip=i != 3, single_word=i == 3, normalized=i == 1)])
    return tokenizer


def proto_field(data, number):
    """The bytes of a message's field that has a length (https://protobuf.dev/programming-guides/encoding)."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value, at
    at = 0
    while at < len(data):
        tag, at = varint(at)
        length, at = varint(at) if tag & 7 in (0, 2) else ({1: 8, 5: 4}[tag & 7], at)
        if tag & 7 == 0:
            continue
        if tag == number << 3 | 2:
            return data[at:at + length]
        at += length
    raise KeyError(number)


def character_table():
    """The precompiled_charsmap (nmt_nfkc) of a SentencePiece model."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c d e"] * 9), model_writer=model, vocab_size=9,
                                             normalization_rule_name="nmt_nfkc", minloglevel=2)
    return proto_field(proto_field(model.getvalue(), 3), 2)


def precompiled():
    return normalizers.Precompiled(character_table())


def unigram(corpus, pre_tokenizer, normalizer, size=1500):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(corpus, trainers.UnigramTrainer(vocab_size=size, unk_token="<unk>", show_progress=False,
                                                                  special_tokens=["<pad>", "</s>", "<unk>"]))
    return tokenizer


def t5(corpus):
    steps = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    tokenizer = unigram(corpus, pre_tokenizers.Sequence(steps), precompiled())
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                             special_tokens=[("</s>", 1)])
    return tokenizer


def albert(corpus):
    normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(),
                                       normalizers.Lowercase(), precompiled(), normalizers.Replace(Regex(" {2,}"), " ")])
    return unigram(corpus, pre_tokenizers.Metaspace(prepend_scheme="always"), normalizer)


def unigram_bytes(corpus):
    tokenizer = unigram(corpus, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                        normalizers.Nmt())
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return with_byte_tokens(tokenizer)


def unigram_scripts(corpus):
    steps = [pre_tokenizers.UnicodeScripts(), pre_tokenizers.Punctuation("merged_with_next"),
             pre_tokenizers.Metaspace(prepend_scheme="never")]
    return unigram(corpus, pre_tokenizers.Sequence(steps), normalizers.NFKC())


def end_of_word(corpus):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder()
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1200, special_tokens=["<unk>"],
                                                              end_of_word_suffix="</w>", show_progress=False))
    tokenizer.post_processor = processors.BertProcessing(("<unk>", 0), ("<unk>", 0))
    return tokenizer


def continuing(corpus):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Strip(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1200, special_tokens=["<unk>"],
                                                              continuing_subword_prefix="##", show_progress=False))
    return tokenizer


def pieces_of_all_kinds(corpus):
    steps = [pre_tokenizers.CharDelimiterSplit("x"), pre_tokenizers.Digits(individual_digits=False),
             pre_tokenizers.Punctuation("contiguous"), split(r"[aeiou]+", "merged_with_previous"),
             pre_tokenizers.FixedLength(7), split(r"\w\b", "merged_with_next", invert=True)]
    tokenizer = byte_level(corpus, *steps, normalizer=normalizers.NFKD(), prefix_space=True, use_regex=True,
                           specials=["<s>", "</s>"])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    tokens = [AddedToken("<tool>", lstrip=True), AddedToken("<call>", rstrip=True, normalized=False),
              AddedToken("Word", single_word=True), AddedToken("Words", single_word=True, normalized=False),
              AddedToken("<to", normalized=False), AddedToken("\u00e9t\u00e9", normalized=True)]
    tokenizer.add_tokens(tokens)
    return tokenizer


def byte_level_normalizer(corpus):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text[:300] for text in corpus[:300]], trainers.BpeTrainer(
        vocab_size=600, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


BUILT = {
    "gpt2": lambda corpus: byte_level(corpus, use_regex=True),
    "smollm": lambda corpus: byte_level(corpus, pre_tokenizers.Digits(individual_digits=True), use_regex=True),
    "llama3": lambda corpus: byte_level(corpus, split(LLAMA3)),
    "qwen2": lambda corpus: byte_level(corpus, split(LLAMA3.replace("{1,3}", "")), normalizer=normalizers.NFC()),
    "tekken": lambda corpus: byte_level(corpus, split(TEKKEN)),
    "gpt4o": lambda corpus: byte_level(corpus, split(GPT4O)),
    "deepseek": lambda corpus: byte_level(corpus, split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                                          split(DEEPSEEK)),
    "gemma": gemma,
    "metaspace_first": metaspace_first,
    "legacy_llama": legacy_llama,
    "t5": t5,
    "albert": albert,
    "unigram_bytes": unigram_bytes,
    "unigram_scripts": unigram_scripts,
    "end_of_word": end_of_word,
    "continuing": continuing,
    "pieces_of_all_kinds": pieces_of_all_kinds,
    "byte_level_normalizer": byte_level_normalizer,
}


def readable_merges(data):
    """Merges of the old spelling that `tokenizers` refuses, since their tokens have spaces: as pairs."""
    vocab, merges = data["model"]["vocab"], data["model"].get("merges", [])
    for i, merge in enumerate(merges):
        if not isinstance(merge, str):
            continue
        cuts = [at for at, char in enumerate(merge) if char == " "
                and merge[:at] in vocab and merge[at + 1:] in vocab and merge[:at] + merge[at + 1:] in vocab]
        merges[i] = [merge[:cuts[0]], merge[cuts[0] + 1:]]
    return data


def material():
    """Every tokenizer.json of ../shared/material, by its folder: path, and what the wheel is given instead."""
    found = {}
    for path in sorted((MATERIAL / "tokenizers").rglob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or not isinstance(data.get("model"), dict):
            continue
        name = "/".join(path.relative_to(MATERIAL / "tokenizers").parts)
        if "merges" in data["model"] and not isinstance(data["model"]["merges"], list):
            print(f"SKIPPED: {name} has no merges: neither `tokenizers` nor ftune takes it")
            continue
        found[name] = (path, json.dumps(readable_merges(data)))
    return found


def sentence_piece_models():
    """The SentencePiece models of BPE in ../shared/material, by name."""
    paths = sorted((MATERIAL / "tokenizers" / "spm").rglob("*tokenizer*.model*"))
    return {"/".join(path.relative_to(MATERIAL / "tokenizers").parts): path for path in paths}
