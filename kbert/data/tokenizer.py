"""Text to token ids and back, by the rules of each family of models."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from kbert.data.encoding import EncodedTexts, Encoder
from kbert.data.texts import Texts, check_texts, short_repr
from kbert.data.tokenizer_families import FAMILIES, SPECIAL_TOKENS
from kbert.data.tokenizer_files import save_tokenizer
from kbert.data.tokenizer_loading import load_tokenizer
from kbert.data.tokenizer_training import train_tokenizer
from kbert.data.training_words import TrainingOptions
from kbert.data.vocabulary import (
    MAX_WORD_LENGTH,
    check_vocab,
    wordpiece_tokenizer,
)
from kbert.hub import checkpoint_prefix


class Tokenizer:
    """Text to the ids of the pieces that a model knows, and ids to text.

    A wrapper of the Rust `tokenizers` library. Make one with
    `from_pretrained`, `from_vocab` or `train`. It can be pickled and copied,
    and several threads can use one at once.

    Args:
        backend: The Rust tokenizer. It becomes this object's own: its
            truncation and padding are switched off.
        special_tokens: The tokens under the keys `pad_token`, `unk_token`,
            `cls_token`, `sep_token` and `mask_token`; the family's if left
            out.
        max_length: Most tokens that the model takes, or None if unknown.
            Nothing is truncated to it unless asked.
        family: The family of models that it belongs to, as the `model_type`
            of config.json names it.

    Raises:
        ValueError: There is no such family, or a special token is not in the
            vocabulary.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     "[PAD] [UNK] [CLS] [SEP] [MASK] play ##ing".split()
        ... )
        >>> tokenizer("Playing").tokens
        ['[CLS]', 'play', '##ing', '[SEP]']
        >>> tokenizer.encode_ids(["playing", "play"]).lengths.tolist()
        [4, 3]

    References:
        Devlin et al. 2018, https://arxiv.org/abs/1810.04805;
        google-research/bert, tokenization.py.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        special_tokens: Mapping[str, str] | None = None,
        max_length: int | None = None,
        family: str = "bert",
    ):
        """Takes over the tokenizer."""
        if family not in FAMILIES:
            raise ValueError(
                f"Expected one of {list(FAMILIES)}. Received: family={family!r}"
            )
        self.backend = backend
        self.special_tokens = {
            **FAMILIES[family].special_tokens,
            **(special_tokens or {}),
        }
        self.family = family
        self.max_length = max_length
        vocab = backend.get_vocab()
        missing = {
            name: token
            for name, token in self.special_tokens.items()
            if token not in vocab
        }
        if missing:
            raise ValueError(
                "Expected every special token in the vocabulary of "
                f"{len(vocab)} tokens, but some are not there. "
                f"Received: {missing}"
            )
        self._special_ids = {
            name: vocab[token] for name, token in self.special_tokens.items()
        }
        self._vocab_size = max(vocab.values()) + 1
        self._encoder = Encoder(backend)

    # Making one, and keeping it.

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike,
        *,
        revision: str | None = None,
        lowercase: bool | None = None,
        add_prefix_space: bool | None = None,
    ) -> "Tokenizer":
        """Loads a tokenizer from a directory or the Hugging Face hub.

        Reads `tokenizer.json` or, where there is none, `vocab.txt`,
        `vocab.json` with `merges.txt`, `spiece.model`, `30k-clean.model`,
        `sentencepiece.bpe.model` or `spm.model`. `tokenizer_config.json`,
        `special_tokens_map.json` and `config.json` say, where they are
        there, which family of models it is and which switches are set.

        Args:
            source: A local directory or a hub id; or the prefix of a
                TensorFlow checkpoint, for the files beside it.
            revision: Branch, tag or commit on the hub.
            lowercase: Overrides the files. Google's own checkpoints hold a
                `vocab.txt` alone, which lower-cases by default: pass False
                for a cased one.
            add_prefix_space: Overrides the files: whether a byte-level
                tokenizer (RoBERTa, ModernBERT) treats the first word as one
                that follows a space. For lists of words, pass True, or no
                word will follow a space.

        Returns:
            A `Tokenizer`. Truncation and padding written in `tokenizer.json`
            are left out.

        Raises:
            FileNotFoundError: No such file is there.
            ValueError: A file cannot be understood, nothing says which
                family it is, or the tokenizer has no such switch.
            OSError: The hub cannot be reached, or refuses.

        Example:
            >>> import kbert
            >>> tokenizer = kbert.Tokenizer.from_vocab(
            ...     "[PAD] [UNK] [CLS] [SEP] [MASK] play ##ing".split()
            ... )
            >>> tokenizer.save("/tmp/playing")
            >>> kbert.Tokenizer.from_pretrained("/tmp/playing")
            Tokenizer(vocab_size=7, max_length=512)
        """
        prefix = checkpoint_prefix(source)
        if prefix is not None:
            source = prefix.parent
        loaded = load_tokenizer(
            source,
            revision=revision,
            lowercase=lowercase,
            add_prefix_space=add_prefix_space,
        )
        return cls(
            loaded.backend,
            special_tokens=loaded.special_tokens,
            max_length=loaded.max_length,
            family=loaded.family,
        )

    @classmethod
    def from_vocab(
        cls,
        vocab: str | os.PathLike | Sequence[str] | Mapping[str, int],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_chinese: bool = True,
        never_split: Sequence[str] = (),
        max_length: int | None = 512,
        max_word_length: int = MAX_WORD_LENGTH,
        pad_token: str = SPECIAL_TOKENS["pad_token"],
        unk_token: str = SPECIAL_TOKENS["unk_token"],
        cls_token: str = SPECIAL_TOKENS["cls_token"],
        sep_token: str = SPECIAL_TOKENS["sep_token"],
        mask_token: str = SPECIAL_TOKENS["mask_token"],
    ) -> "Tokenizer":
        """Builds BERT's tokenizer from a vocabulary.

        Args:
            vocab: Path of a `vocab.txt`, list of tokens, or dict of token to
                id. Pieces inside a word start with `##`.
            lowercase: Whether to lower-case.
            strip_accents: Whether to strip accents; None means iff
                lower-casing.
            split_chinese: Whether each CJK ideograph is a word of its own.
            never_split: Tokens of the vocabulary that are found before
                lower-casing and kept whole, unless a letter, digit or
                underscore touches them.
            max_length: Most tokens that the model takes, or None.
            max_word_length: Longest word in code points; a longer one is
                unknown.
            pad_token: Fills short rows.
            unk_token: Stands for words that have no pieces.
            cls_token: First token of every sequence.
            sep_token: Last token of each text.
            mask_token: Stands for a masked token.

        Returns:
            A `Tokenizer`.

        Raises:
            TypeError: `vocab` has no accepted form, a token is no string or
                an id no integer.
            ValueError: The vocabulary is empty, repeats a token, leaves out
                an id, or lacks a special token or one of `never_split`.

        Example:
            >>> import kbert
            >>> tokenizer = kbert.Tokenizer.from_vocab(
            ...     "[PAD] [UNK] [CLS] [SEP] [MASK] naïve".split(),
            ...     strip_accents=False,
            ... )
            >>> tokenizer("Naïve").ids
            [2, 5, 3]
        """
        special_tokens = {
            "pad_token": pad_token,
            "unk_token": unk_token,
            "cls_token": cls_token,
            "sep_token": sep_token,
            "mask_token": mask_token,
        }
        never_split = check_texts(never_split, "never_split")
        backend = wordpiece_tokenizer(
            check_vocab(vocab, [*special_tokens.values(), *never_split]),
            family=FAMILIES["bert"],
            lowercase=lowercase,
            strip_accents=strip_accents,
            split_chinese=split_chinese,
            never_split=never_split,
            max_word_length=max_word_length,
            special_tokens=special_tokens,
        )
        return cls(
            backend, special_tokens=special_tokens, max_length=max_length
        )

    @classmethod
    def train(
        cls,
        texts: Iterable[str | os.PathLike] | os.PathLike,
        vocab_size: int = 30000,
        *,
        model: str = "wordpiece",
        lowercase: bool | None = None,
        strip_accents: bool | None = None,
        min_frequency: int | None = None,
        initial_alphabet: str | None = None,
        max_alphabet: int | None = None,
        num_unused: int | None = None,
        extra_special_tokens: Sequence[str] = (),
        max_length: int | None = 512,
        show_progress: bool = False,
    ) -> "Tokenizer":
        """Makes a vocabulary from raw text, and a tokenizer of it.

        The texts are read once and not kept: memory is needed for the
        distinct words alone. The same texts in the same order give the same
        vocabulary in every process and on any number of cores.

        Args:
            texts: Strings: a list, a generator, a column of a data set. A
                `pathlib.Path` among them, or in their place, is a text file
                in UTF-8, each line of which is a text.
            vocab_size: Most tokens of the vocabulary, special tokens
                included. Short texts may not have as many pieces.
            model: `"wordpiece"` (BERT's rules and layout), `"bpe"`
                (RoBERTa's: pairs of bytes, so that nothing is unknown) or
                `"unigram"` (ALBERT's SentencePiece).
            lowercase: Whether to lower-case; True if left out. `"bpe"` never
                does.
            strip_accents: Whether to strip accents; None means iff
                lower-casing. `"bpe"` never does.
            min_frequency: How often two pieces must stand side by side in
                the texts to be joined; 2 if left out. Not for `"unigram"`.
            initial_alphabet: Characters that get tokens even where the texts
                lack them. Not for `"bpe"`, which has all bytes.
            max_alphabet: How many of the characters of the texts, the most
                frequent first, get tokens; all if left out. Words with
                others are not trained on. Not for `"bpe"`.
            num_unused: Spare tokens `[unused…]` after [PAD], for words of
                your own later on. The 99 of Google's vocabularies if left
                out, which gives [UNK], [CLS], [SEP] and [MASK] the ids 100
                to 103. For `"wordpiece"` alone.
            extra_special_tokens: Tokens besides the family's five that are
                found before anything else and kept whole.
            max_length: Most tokens that the model will take, or None.
            show_progress: Whether the libraries report on standard error.

        Returns:
            A `Tokenizer`.

        Raises:
            TypeError: `texts` is one string, or an item of it is neither a
                string nor a path.
            ValueError: The texts have no words, `vocab_size` does not hold
                their characters, a file is not UTF-8, the first text is the
                name of a file, or an option is not one of the model.
            OSError: A file cannot be read.

        Example:
            >>> import kbert
            >>> tokenizer = kbert.Tokenizer.train(
            ...     ["common words are tokens, rare ones are not"] * 2,
            ...     vocab_size=70,
            ...     num_unused=0,
            ... )
            >>> tokenizer("Common wars").tokens
            ['[CLS]', 'common', 'w', '##a', '##r', '##s', '[SEP]']

        References:
            Schuster and Nakajima 2012, "Japanese and Korean voice search";
            Sennrich et al. 2016, https://arxiv.org/abs/1508.07909; Kudo 2018,
            https://arxiv.org/abs/1804.10959.
        """
        options = TrainingOptions(
            vocab_size=vocab_size,
            lowercase=lowercase,
            strip_accents=strip_accents,
            min_frequency=min_frequency,
            initial_alphabet=initial_alphabet,
            max_alphabet=max_alphabet,
            num_unused=num_unused,
            extra_special_tokens=extra_special_tokens,
            show_progress=show_progress,
        )
        backend, family = train_tokenizer(texts, model, options)
        return cls(backend, max_length=max_length, family=family)

    def save(self, directory: str | os.PathLike) -> None:
        """Writes the files that `from_pretrained` and transformers load.

        Args:
            directory: Made if it does not exist. `tokenizer.json` and
                `tokenizer_config.json` are written, and `vocab.txt` if the
                rules are those of a word-piece family.
        """
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        save_tokenizer(
            directory,
            self.backend,
            rules=self._encoder.rules(),
            family=self.family,
            special_tokens=self.special_tokens,
            max_length=self.max_length,
        )

    # Text to tokens.

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        max_length: int | None = None,
        add_special_tokens: bool = True,
    ) -> tokenizers.Encoding:
        """Encodes one text or one pair. Calling the tokenizer is the same.

        Args:
            text: The text.
            pair: The second text, or None.
            max_length: Most tokens in the result; None does not truncate.
            add_special_tokens: Whether to add [CLS] and [SEP].

        Returns:
            A `tokenizers.Encoding`: see `encode_batch`.

        Raises:
            TypeError: `text` or `pair` is not a string.
            ValueError: `max_length` leaves no room, or a string has a lone
                surrogate.
        """
        for name, value in (("text", text), ("pair", pair)):
            if not isinstance(value, str) and (name, value) != ("pair", None):
                raise TypeError(
                    "Expected one string; `encode_batch` takes many. "
                    f"Received: {name}={short_repr(value)}"
                )
        return self.encode_batch(
            [text],
            None if pair is None else [pair],
            max_length=max_length,
            add_special_tokens=add_special_tokens,
        )[0]

    __call__ = encode

    def encode_batch(
        self,
        texts: Texts,
        pairs: Texts | None = None,
        *,
        max_length: int | None = None,
        truncation: str = "longest_first",
        overlap: int = 0,
        add_special_tokens: bool = True,
        is_split_into_words: bool = False,
    ) -> list[tokenizers.Encoding]:
        """Encodes many texts or pairs of texts.

        Args:
            texts: N strings: a list, tuple, array, or column of a data frame
                or data set. With `is_split_into_words`, N lists of words.
            pairs: N second texts of the same form, or None.
            max_length: Most tokens in a result, special tokens included; None
                does not truncate.
            truncation: What to cut: `"longest_first"` (of a pair, the longer
                text down to the other, then both alike), `"only_first"` or
                `"only_second"`.
            overlap: Tokens that neighbouring windows of a cut text share
                (transformers calls it the stride). Of a pair, only one text
                can have windows.
            add_special_tokens: Whether to add [CLS] and [SEP].
            is_split_into_words: Whether the items are lists of words.

        Returns:
            A list of N `tokenizers.Encoding`, whose attributes are lists of
            one item a token: `ids`, `type_ids`, `tokens`,
            `special_tokens_mask`, `word_ids` (None for special tokens) and
            `offsets` (start, end) in code points of the original string.
            `overflowing` lists the further windows of a cut text; where both
            texts of a pair are cut, in every combination, so leave very long
            pairs to `encode_ids`. With `is_split_into_words`, offsets count
            from the start of each word and `word_ids` are the indices of the
            words given.

        Raises:
            TypeError: `texts` is a single string or not a sequence, or an
                item is not a string.
            ValueError: `texts` and `pairs` differ in number, `max_length`
                leaves no room, or a string has a lone surrogate.
        """
        return self._encoder.encode_batch(
            texts,
            pairs,
            max_length=max_length,
            truncation=truncation,
            overlap=overlap,
            add_special_tokens=add_special_tokens,
            is_split_into_words=is_split_into_words,
        )

    def encode_ids(
        self,
        texts: Texts,
        pairs: Texts | None = None,
        *,
        max_length: int | None = None,
        truncation: str = "longest_first",
    ) -> EncodedTexts:
        """Encodes a whole data set to arrays of ids.

        The ids of `encode_batch`, faster and in the memory of the arrays
        alone.

        Args:
            texts: N strings: see `encode_batch`.
            pairs: N second texts, or None.
            max_length: Most tokens of one text or pair, special tokens
                included; None does not truncate.
            truncation: What to cut: see `encode_batch`.

        Returns:
            An `EncodedTexts`.

        Raises:
            TypeError: See `encode_batch`.
            ValueError: See `encode_batch`.
        """
        return self._encoder.encode_ids(
            texts, pairs, max_length=max_length, truncation=truncation
        )

    # Tokens to text.

    def decode(
        self,
        ids: Sequence[int] | np.ndarray,
        *,
        skip_special_tokens: bool = True,
    ) -> str:
        """Joins the tokens of one text to a string.

        Args:
            ids: Token ids (S,).
            skip_special_tokens: Whether to leave out [CLS], [SEP], [PAD] and
                the like.

        Returns:
            The text, as far as tokens keep it: an uncased vocabulary gives
            lower case.

        Raises:
            ValueError: An id is no integer of the vocabulary.
        """
        return self.decode_batch(
            [ids], skip_special_tokens=skip_special_tokens
        )[0]

    def decode_batch(
        self,
        ids: Sequence[Sequence[int] | np.ndarray] | np.ndarray,
        *,
        skip_special_tokens: bool = True,
    ) -> list[str]:
        """Joins the tokens of many texts: see `decode`.

        Args:
            ids: B rows of token ids, of any lengths, or an array (B, S).
            skip_special_tokens: See `decode`.

        Returns:
            A list of B strings.

        Raises:
            ValueError: See `decode`.
        """
        rows = [self._check_ids(row, index) for index, row in enumerate(ids)]
        return self.backend.decode_batch(
            rows, skip_special_tokens=skip_special_tokens
        )

    # The vocabulary.

    @property
    def has_segments(self) -> bool:
        """Whether the models of its family have an input `segment_ids`."""
        return FAMILIES[self.family].has_segments

    @property
    def vocab_size(self) -> int:
        """One more than the largest id, added tokens included."""
        return self._vocab_size

    @property
    def pad_token_id(self) -> int:
        """Id of the token that fills short rows."""
        return self._special_ids["pad_token"]

    @property
    def unk_token_id(self) -> int:
        """Id of the token for words that have no pieces."""
        return self._special_ids["unk_token"]

    @property
    def cls_token_id(self) -> int:
        """Id of the first token of every sequence."""
        return self._special_ids["cls_token"]

    @property
    def sep_token_id(self) -> int:
        """Id of the last token of each text."""
        return self._special_ids["sep_token"]

    @property
    def mask_token_id(self) -> int:
        """Id of the token that stands for a masked one."""
        return self._special_ids["mask_token"]

    @property
    def special_token_ids(self) -> tuple[int, ...]:
        """Ids of the five special tokens and of any others, ascending."""
        added = self.backend.get_added_tokens_decoder()
        others = {index for index, token in added.items() if token.special}
        return tuple(sorted(others.union(self._special_ids.values())))

    def get_vocab(self) -> dict[str, int]:
        """Returns the vocabulary, token to id, added tokens included."""
        return self.backend.get_vocab()

    def token_to_id(self, token: str) -> int | None:
        """Returns the id of a token, or None if there is no such token."""
        return self.backend.token_to_id(token)

    def id_to_token(self, token_id: int) -> str | None:
        """Returns the token of an id, or None if there is no such id."""
        is_id = 0 <= token_id < self._vocab_size
        return self.backend.id_to_token(int(token_id)) if is_id else None

    def num_special_tokens(self, pair: bool = False) -> int:
        """Returns how many special tokens one text, or one pair, gets."""
        return self.backend.num_special_tokens_to_add(pair)

    def __repr__(self) -> str:
        """Names the size of the vocabulary and the longest sequence."""
        return (
            f"Tokenizer(vocab_size={self._vocab_size}, "
            f"max_length={self.max_length})"
        )

    def _check_ids(self, row: Any, index: int) -> list[int]:
        """Returns a row of ids as the Rust side wants it."""
        ids = np.asarray(row)
        is_valid = ids.ndim == 1 and (
            not ids.size
            or ids.dtype.kind in "iu"
            and ids.min() >= 0
            and ids.max() < self._vocab_size
        )
        if not is_valid:
            raise ValueError(
                "Expected rows of integer ids from 0 to "
                f"{self._vocab_size - 1}. "
                f"Received: ids[{index}]={short_repr(row)}"
            )
        return ids.tolist()
