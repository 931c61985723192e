"""What every vocabulary is trained by: options, words and characters."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import tokenizers

# How many distinct strings between white space are held before they are split
# into words, of which there are far fewer.
_MAX_CHUNKS = 2_000_000
# Characters of a text that is handed to the Rust library at a time.
_FEED_SIZE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The arguments of `kbert.Tokenizer.train`.

    Attributes:
        vocab_size: Most tokens of the vocabulary.
        lowercase: Whether to lower-case; None is the family's own way.
        strip_accents: Whether to strip accents; None means iff lower-casing.
        min_frequency: How often a pair of pieces must be there to be joined.
        initial_alphabet: Characters that get a token in any case.
        max_alphabet: How many of the characters of the texts get one.
        num_unused: Spare tokens after [PAD].
        extra_special_tokens: Special tokens besides the family's five.
        show_progress: Whether the libraries report on standard error.
    """

    vocab_size: int
    lowercase: bool | None
    strip_accents: bool | None
    min_frequency: int | None
    initial_alphabet: str | None
    max_alphabet: int | None
    num_unused: int | None
    extra_special_tokens: Sequence[str]
    show_progress: bool

    def check_values(self) -> None:
        """Refuses what no trainer can use.

        Raises:
            TypeError: The initial alphabet is no string.
            ValueError: A number is no integer, or too small.
        """
        if not isinstance(self.initial_alphabet, str | None):
            raise TypeError(
                "Expected the characters in one string. "
                f"Received: initial_alphabet={self.initial_alphabet!r}"
            )
        for name, least in (
            ("vocab_size", 1),
            ("min_frequency", 1),
            ("max_alphabet", 1),
            ("num_unused", 0),
        ):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise ValueError(
                    f"Expected an integer of at least {least}. "
                    f"Received: {name}={value!r}"
                )

    def check_room(self, num_special: int, num_letters: int) -> None:
        """Refuses a vocabulary that cannot hold what pieces are made of.

        Args:
            num_special: How many special and spare tokens there are.
            num_letters: How many tokens of one character there are.

        Raises:
            ValueError: They are more than `vocab_size`.
        """
        least = num_special + num_letters
        if self.vocab_size < least:
            raise ValueError(
                f"Expected a vocab_size of at least {least}, for "
                f"{num_special} special and spare tokens and {num_letters} of "
                "one character (max_alphabet leaves out rare ones, num_unused "
                f"sets the spare ones). Received: vocab_size={self.vocab_size}"
            )


def count_words(
    texts: Iterable[str], shell: tokenizers.Tokenizer
) -> Counter[str]:
    """Counts the words that a tokenizer finds in texts.

    Args:
        texts: Strings, of which one is held at a time.
        shell: A tokenizer with the rules, whatever its vocabulary.

    Returns:
        Word to how often it was there.
    """
    words: Counter[str] = Counter()
    chunks: Counter[str] = Counter()

    def split_chunks() -> None:
        for chunk, count in chunks.items():
            text = shell.normalizer.normalize_str(chunk)
            for word, _ in shell.pre_tokenizer.pre_tokenize_str(text):
                words[word] += count
        chunks.clear()

    for text in texts:
        chunks.update(text.split())
        if len(chunks) > _MAX_CHUNKS:
            split_chunks()
    split_chunks()
    return words


def choose_alphabet(
    words: Mapping[str, int],
    options: TrainingOptions,
    shell: tokenizers.Tokenizer,
) -> tuple[dict[str, int], list[str], set[str]]:
    """Chooses the most frequent characters, and the words made of them.

    Args:
        words: Word to its count.
        options: What was asked.
        shell: A tokenizer with the rules, whatever its vocabulary.

    Returns:
        The words with their counts, all characters in order, and those that
        were asked for, as the rules leave them.

    Raises:
        ValueError: There is no word.
    """
    letters: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            letters[letter] += count
    if not letters:
        raise no_words()
    given = shell.normalizer.normalize_str(options.initial_alphabet or "")
    asked = set("".join(given.split()))
    ranked = sorted(letters, key=lambda letter: (-letters[letter], letter))
    kept = asked.union(ranked[: options.max_alphabet])
    chosen = {w: n for w, n in words.items() if kept.issuperset(w)}
    return chosen, sorted(kept), asked


def repeat_words(words: Mapping[str, int]) -> Iterator[str]:
    """Yields texts that hold each word as often as it was counted.

    The Rust library takes no counts.

    Args:
        words: Word to its count.
    """
    parts, size = [], 0
    for word in sorted(words):
        left = words[word]
        while left:
            step = min(left, 1 + (_FEED_SIZE - size) // (len(word) + 1))
            parts.append(f"{word} " * step)
            size += step * (len(word) + 1)
            left -= step
            if size >= _FEED_SIZE:
                yield "".join(parts)
                parts, size = [], 0
    yield "".join(parts)


def no_words() -> ValueError:
    """Says that there is nothing to train on."""
    return ValueError(
        "Expected texts with words in them. Received: texts that are empty "
        "or hold nothing but white space and control characters"
    )
