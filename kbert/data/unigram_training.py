"""ALBERT's vocabulary from raw text: unigram pieces.

References:
    Kudo 2018, https://arxiv.org/abs/1804.10959.
"""

import io
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import tokenizers

from kbert.data.tokenizer_families import FAMILIES
from kbert.data.training_words import (
    TrainingOptions,
    choose_alphabet,
    count_words,
)
from kbert.data.unigram import (
    SentencePieceModel,
    read_sentencepiece,
    unigram_tokenizer,
)

# The library's name of the normalisation that ALBERT was trained with.
_RULES = "nmt_nfkc"
# The library leaves out strings of more than 4,192 bytes.
_MAX_WORD = 1_000
# Each thread sums on its own, so their number shows in the last digits.
_NUM_THREADS = 16


def train_unigram(
    texts: Iterable[str], options: TrainingOptions
) -> tokenizers.Tokenizer:
    """Trains ALBERT's vocabulary.

    Args:
        texts: Strings.
        options: What was asked.

    Returns:
        The Rust tokenizer.
    """
    family = FAMILIES["albert"]
    pad, unk, *others = family.special_tokens.values()
    lowercase = options.lowercase is None or options.lowercase
    strip_accents = options.strip_accents
    if strip_accents is None:
        strip_accents = lowercase

    def build(model: SentencePieceModel) -> tokenizers.Tokenizer:
        return unigram_tokenizer(
            model,
            family=family,
            special_tokens=family.special_tokens,
            do_lower_case=lowercase,
            keep_accents=not strip_accents,
        )

    shell = build(
        SentencePieceModel(
            pieces=[(token, 0.0) for token in (pad, unk, *others)],
            unk_id=1,
            whole_pieces={},
            char_map=_char_map(),
        )
    )
    counts: Counter[str] = Counter()
    for word, count in count_words(texts, shell).items():
        # The trainer puts the mark of a word's start in front itself. The
        # normalisation leaves zero bytes, which would end its strings.
        word = word[1:].replace("\0", "")
        for start in range(0, len(word), _MAX_WORD):
            counts[word[start : start + _MAX_WORD]] += count
    words, letters, asked = choose_alphabet(counts, options, shell)
    specials = [*others, *options.extra_special_tokens]
    options.check_room(2 + len(specials), len(letters) + 1)
    return build(
        _train_pieces(
            words,
            options,
            pad_piece=pad,
            unk_piece=unk,
            control_symbols=specials,
            required_chars="".join(sorted(asked)),
        )
    )


def _char_map() -> bytes:
    """Returns the normalisation, in the library's own compiled form."""
    from sentencepiece import SentencePieceNormalizer, sentencepiece_model_pb2

    # The attributes of the module are made when it is imported.
    proto = getattr(sentencepiece_model_pb2, "ModelProto")()  # noqa: B009
    normalizer = SentencePieceNormalizer(rule_name=_RULES)
    proto.ParseFromString(normalizer.serialized_model_proto())
    return proto.normalizer_spec.precompiled_charsmap


def _train_pieces(
    words: dict[str, int],
    options: TrainingOptions,
    *,
    pad_piece: str,
    unk_piece: str,
    control_symbols: list[str],
    required_chars: str,
) -> SentencePieceModel:
    """Trains on words and their counts, in order."""
    from sentencepiece import SentencePieceTrainer

    file = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=(f"{w}\t{words[w]}" for w in sorted(words)),
        input_format="tsv",
        model_writer=file,
        model_type="unigram",
        vocab_size=options.vocab_size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        required_chars=required_chars,
        normalization_rule_name=_RULES,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        pad_piece=pad_piece,
        unk_piece=unk_piece,
        control_symbols=control_symbols,
        num_threads=_NUM_THREADS,
        minloglevel=0 if options.show_progress else 2,
    )
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "spiece.model"
        path.write_bytes(file.getvalue())
        model = read_sentencepiece(path)
    # More digits than float32 has would not come back the same out of
    # tokenizer.json.
    pieces = [(piece, round(score, 6)) for piece, score in model.pieces]
    return replace(model, pieces=pieces)
