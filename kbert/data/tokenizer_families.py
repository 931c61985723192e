"""What tells the tokenizers of the model families apart, as data.

References:
    The published tokenizer files of each model; huggingface/transformers
    5.24, whose tokenizers these rows are tested against.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tokenizers
from tokenizers import processors


def _special(
    pad: str, unk: str, cls: str, sep: str, mask: str
) -> dict[str, str]:
    """Names five tokens as tokenizer_config.json does."""
    return {
        "pad_token": pad,
        "unk_token": unk,
        "cls_token": cls,
        "sep_token": sep,
        "mask_token": mask,
    }


# BERT's special tokens, and fairseq's.
SPECIAL_TOKENS = _special("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_FAIRSEQ_TOKENS = _special("<pad>", "<unk>", "<s>", "</s>", "<mask>")

_WORDPIECE_SWITCHES = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
}


@dataclass(frozen=True, kw_only=True)
class TokenizerFamily:
    """The tokenizer of one family of models.

    Attributes:
        tokenizer_class: transformers' class, without `Fast`.
        aliases: Other names of a class that does the same.
        algorithm: `"WordPiece"`, `"BPE"` (of bytes) or `"Unigram"`
            (SentencePiece), as the Rust library calls it.
        vocab_file: Its file where there is no `tokenizer.json`, or None if
            the family is published with one always.
        special_tokens: Its special tokens.
        switches: Names in `tokenizer_config.json` that change its rules, and
            their defaults.
        doubles_separator: Whether a pair is `<s> A </s></s> B </s>` with all
            type ids 0, and not `[CLS] A [SEP] B [SEP]` with segments.
        trims_offsets: Whether offsets leave out the space before a token.
        mask_takes_space: Whether the mask token swallows white space before
            it, as a word does whose token begins with that space.
        first_pieces: Pieces that stand in front of the SentencePiece model's,
            from its piece number `skipped_pieces` on; the mask token follows.
        skipped_pieces: How many pieces of the SentencePiece model go.
        added_tokens: Special tokens that stand after the vocabulary's.
        replaces_quotes: Whether `` and '' become ".
        splits_spaces: Whether Unigram words are split at any white space.
        class_has_same_rules: Whether transformers' class, which builds its
            rules anew, builds these.
        has_segments: Whether the family's models have a table of segments,
            and so an input `segment_ids`, if only of zeros (RoBERTa).
    """

    tokenizer_class: str
    aliases: tuple[str, ...] = ()
    algorithm: str
    vocab_file: str | None
    special_tokens: Mapping[str, str] = field(
        default_factory=lambda: SPECIAL_TOKENS
    )
    switches: Mapping[str, bool | None] = field(default_factory=dict)
    doubles_separator: bool = False
    trims_offsets: bool = False
    mask_takes_space: bool = False
    first_pieces: tuple[str, ...] = ()
    skipped_pieces: int = 0
    added_tokens: tuple[str, ...] = ()
    replaces_quotes: bool = False
    splits_spaces: bool = False
    class_has_same_rules: bool = True
    has_segments: bool = True


# By the `model_type` of config.json. Where nothing names the family, the first
# row that fits is taken.
FAMILIES = {
    "bert": TokenizerFamily(
        tokenizer_class="BertTokenizer",
        aliases=("ElectraTokenizer",),
        algorithm="WordPiece",
        vocab_file="vocab.txt",
        switches=_WORDPIECE_SWITCHES,
    ),
    "distilbert": TokenizerFamily(
        tokenizer_class="DistilBertTokenizer",
        has_segments=False,
        algorithm="WordPiece",
        vocab_file="vocab.txt",
        switches=_WORDPIECE_SWITCHES,
    ),
    # Its vocabulary holds BERT's, with other special tokens around it.
    "mpnet": TokenizerFamily(
        tokenizer_class="MPNetTokenizer",
        has_segments=False,
        algorithm="WordPiece",
        vocab_file="vocab.txt",
        special_tokens={**_FAIRSEQ_TOKENS, "unk_token": "[UNK]"},
        switches=_WORDPIECE_SWITCHES,
        doubles_separator=True,
        trims_offsets=True,
        mask_takes_space=True,
    ),
    "roberta": TokenizerFamily(
        tokenizer_class="RobertaTokenizer",
        algorithm="BPE",
        vocab_file="vocab.json",
        special_tokens=_FAIRSEQ_TOKENS,
        switches={"add_prefix_space": False, "trim_offsets": True},
        doubles_separator=True,
        trims_offsets=True,
        mask_takes_space=True,
    ),
    # transformers has no class for it: tokenizer.json says everything.
    "modernbert": TokenizerFamily(
        tokenizer_class="PreTrainedTokenizerFast",
        has_segments=False,
        algorithm="BPE",
        vocab_file=None,
        class_has_same_rules=False,
    ),
    "albert": TokenizerFamily(
        tokenizer_class="AlbertTokenizer",
        algorithm="Unigram",
        vocab_file="spiece.model",
        special_tokens=_special("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        switches={"do_lower_case": True, "keep_accents": False},
        mask_takes_space=True,
        replaces_quotes=True,
        splits_spaces=True,
    ),
    "xlm-roberta": TokenizerFamily(
        tokenizer_class="XLMRobertaTokenizer",
        algorithm="Unigram",
        vocab_file="sentencepiece.bpe.model",
        special_tokens=_FAIRSEQ_TOKENS,
        doubles_separator=True,
        mask_takes_space=True,
        first_pieces=("<s>", "<pad>", "</s>", "<unk>"),
        skipped_pieces=3,
        splits_spaces=True,
    ),
    "camembert": TokenizerFamily(
        tokenizer_class="CamembertTokenizer",
        algorithm="Unigram",
        vocab_file="sentencepiece.bpe.model",
        special_tokens=_FAIRSEQ_TOKENS,
        doubles_separator=True,
        mask_takes_space=True,
        first_pieces=(
            "<s>NOTUSED",
            "<pad>",
            "</s>NOTUSED",
            "<unk>",
            "<unk>NOTUSED",
        ),
        skipped_pieces=1,
        splits_spaces=True,
    ),
    # transformers 5.24's class leaves out the normaliser that the model was
    # trained with.
    "deberta-v2": TokenizerFamily(
        tokenizer_class="DebertaV2Tokenizer",
        has_segments=False,
        algorithm="Unigram",
        vocab_file="spm.model",
        switches={"do_lower_case": False, "split_by_punct": False},
        added_tokens=("[MASK]",),
        class_has_same_rules=False,
    ),
}
_SAME_FAMILY = {"electra": "bert", "roberta-prelayernorm": "roberta"}
# Classes of transformers that stand for no family.
GENERAL_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")


def family_of_class(tokenizer_class: str | None) -> str | None:
    """Returns the key of a class of transformers in `FAMILIES`, or None."""
    name = (tokenizer_class or "").removesuffix("Fast")
    for key, family in FAMILIES.items():
        if name in (family.tokenizer_class, *family.aliases):
            return key
    return None


def family_of_model_type(model_type: str | None) -> str | None:
    """Returns the key of a `model_type` in `FAMILIES`, or None."""
    key = _SAME_FAMILY.get(model_type or "", model_type)
    return key if key in FAMILIES else None


def fits(
    family: TokenizerFamily,
    backend: tokenizers.Tokenizer,
    given: Mapping[str, str],
) -> bool:
    """Whether a Rust tokenizer can be of a family.

    Args:
        family: The family.
        backend: The Rust tokenizer.
        given: Special tokens that are known, which stand in for the family's.
    """
    tokens = {**family.special_tokens, **given}
    around = backend.encode("").tokens
    ends = [tokens["cls_token"], tokens["sep_token"]]
    return (
        type(backend.model).__name__ == family.algorithm
        and all(backend.token_to_id(t) is not None for t in tokens.values())
        and (len(around) != 2 or around == ends)
    )


def family_of_backend(
    backend: tokenizers.Tokenizer, given: Mapping[str, str]
) -> str:
    """Returns the first family that a Rust tokenizer fits, or `"bert"`.

    A family with the special tokens that are given comes before one whose
    special tokens they would replace.
    """
    fitting = [key for key in FAMILIES if fits(FAMILIES[key], backend, given)]
    for key in fitting:
        if given.items() <= FAMILIES[key].special_tokens.items():
            return key
    return fitting[0] if fitting else "bert"


def read_switches(
    family: TokenizerFamily, config: Mapping[str, Any]
) -> dict[str, bool | None]:
    """Returns the switches of a family as `tokenizer_config.json` has them."""
    return {
        name: config.get(name, default)
        for name, default in family.switches.items()
    }


def add_special_tokens(
    backend: tokenizers.Tokenizer,
    family: TokenizerFamily,
    special_tokens: Mapping[str, str],
    *,
    trim_offsets: bool = True,
    add_prefix_space: bool = False,
) -> None:
    """Makes special tokens special, and sets the template.

    Args:
        backend: The Rust tokenizer. Tokens that it lacks are added at the end.
        family: Its family.
        special_tokens: The five special tokens, keyed as `SPECIAL_TOKENS`.
        trim_offsets: Whether to trim offsets, where the family does.
        add_prefix_space: Whether the first word was given a space, which is
            then not in the text to be trimmed.
    """
    backend.add_special_tokens(
        [
            tokenizers.AddedToken(
                token,
                normalized=False,
                special=True,
                lstrip=family.mask_takes_space and name == "mask_token",
            )
            for name, token in special_tokens.items()
        ]
    )
    cls, sep = special_tokens["cls_token"], special_tokens["sep_token"]
    vocab = backend.get_vocab()
    ids = [(token, vocab[token]) for token in (cls, sep)]
    if family.trims_offsets:
        # `<s> A </s></s> B </s>`, and the trimming.
        backend.post_processor = processors.RobertaProcessing(
            ids[1], ids[0], trim_offsets, add_prefix_space
        )
        return
    if family.doubles_separator:
        single, pair = f"{cls} $A {sep}", f"{cls} $A {sep} {sep} $B {sep}"
    else:
        single = f"{cls}:0 $A:0 {sep}:0"
        pair = f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1"
    backend.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=ids
    )
