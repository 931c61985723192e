"""Tiny vocabularies of every family, in the files that each is published in."""

import io
import json
import pathlib

import sentencepiece
import tokenizers
from tokenizers import pre_tokenizers, trainers

LINES = [
    "the quick brown fox jumps over the lazy dog, and runs (again) home.",
    "playing the film was not a very good idea: bad plots, 1,000 words!",
    "naïve café Zürich straße déjà vu — “quotes” … ½ ﬁne ① x² σας Σίσυφος",
    "``quoted'' it's don't 中文 日本語 한글 हिन्दी 😀 👩\u200d🚀 a-b",
    "Hello World. HELLO WORLD. 3.14 £5 €6 $7 e.g. i.e. U.S.A. [x] {y} <z>",
] * 4
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word_pieces():
    words = sorted({word for line in LINES for word in line.lower().split()})
    letters = sorted({letter for word in words for letter in word})
    letters += [letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"]
    tokens = words + letters + [f"##{letter}" for letter in letters]
    return list(dict.fromkeys([*BERT, *tokens, "##ing", "##s", "Ġx"]))


def write_word_pieces(directory, mpnet=False):
    tokens = word_pieces()
    if mpnet:
        tokens = [*FAIRSEQ[:4], *tokens, "<mask>"]
    text = "".join(f"{token}\n" for token in tokens)
    (directory / "vocab.txt").write_text(text, encoding="utf-8")


def train_bytes(special_tokens):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(
        LINES,
        trainers.BpeTrainer(
            vocab_size=500,
            special_tokens=special_tokens,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def write_bytes(directory):
    model = json.loads(train_bytes(FAIRSEQ).to_str())["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    (directory / "vocab.json").write_text(json.dumps(model["vocab"]))
    (directory / "merges.txt").write_text(
        "\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8"
    )


def write_sentencepiece(path, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        vocab_size=260,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    path.write_bytes(model.getvalue())


ALBERT = {
    "pad_id": 0,
    "pad_piece": "<pad>",
    "unk_id": 1,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": "[CLS],[SEP],[MASK]",
    "user_defined_symbols": '(,),",-,.,–,£,€',
}
DEBERTA = {
    "pad_id": 0,
    "pad_piece": "[PAD]",
    "bos_id": 1,
    "bos_piece": "[CLS]",
    "eos_id": 2,
    "eos_piece": "[SEP]",
    "unk_id": 3,
    "unk_piece": "[UNK]",
}
# CamemBERT's model has its unknown piece first, as XLM-RoBERTa's.
FAMILY_FILES = {
    "bert": (write_word_pieces, "vocab.txt"),
    "distilbert": (write_word_pieces, "vocab.txt"),
    "electra": (write_word_pieces, "vocab.txt"),
    "mpnet": (lambda d: write_word_pieces(d, mpnet=True), "vocab.txt"),
    "roberta": (write_bytes, "vocab.json"),
    "albert": (
        lambda d: write_sentencepiece(d / "spiece.model", **ALBERT),
        "spiece.model",
    ),
    "xlm-roberta": (
        lambda d: write_sentencepiece(d / "sentencepiece.bpe.model"),
        "sentencepiece.bpe.model",
    ),
    "camembert": (
        lambda d: write_sentencepiece(d / "sentencepiece.bpe.model"),
        "sentencepiece.bpe.model",
    ),
    "deberta-v2": (
        lambda d: write_sentencepiece(d / "spm.model", **DEBERTA),
        "spm.model",
    ),
}


def write_family(directory, family):
    """Writes a vocabulary, and the config.json that names its family."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    FAMILY_FILES[family][0](directory)
    (directory / "config.json").write_text(json.dumps({"model_type": family}))
    return directory


def write_modernbert(directory):
    """Writes the tokenizer.json of ModernBERT's rules, and its configs."""
    backend = train_bytes(BERT)
    backend.normalizer = tokenizers.normalizers.NFC()
    backend.decoder = tokenizers.decoders.ByteLevel()
    backend.add_special_tokens(
        [
            tokenizers.AddedToken(t, special=True, lstrip=t == "[MASK]")
            for t in BERT
        ]
    )
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    backend.enable_truncation(5)
    backend.enable_padding(length=5)
    backend.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 8192,
        **dict(
            zip(
                ("pad_token", "unk_token", "cls_token", "sep_token"),
                BERT,
                strict=False,
            )
        ),
        "mask_token": "[MASK]",
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "config.json").write_text('{"model_type": "modernbert"}')
    return directory
