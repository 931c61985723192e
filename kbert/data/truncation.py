"""What is cut from texts that are too long."""

import operator
from collections.abc import Sequence

TRUNCATIONS = ("longest_first", "only_first", "only_second")


def check_truncation(
    max_length: int | None,
    truncation: str,
    overlap: int,
    has_pairs: bool,
    num_special: int,
) -> tuple[int | None, str]:
    """Checks the arguments about truncation against each other.

    Args:
        max_length: Most tokens, or None.
        truncation: One of `TRUNCATIONS`.
        overlap: Tokens that neighbouring windows share.
        has_pairs: Whether the texts are pairs.
        num_special: How many special tokens will be added.

    Returns:
        `max_length` as a Python integer or None, and `truncation`; of single
        texts, there is only the one to cut, however it is called.

    Raises:
        TypeError: A number is no integer.
        ValueError: A number is too small or too large, or the arguments do
            not go together.
    """
    if truncation not in TRUNCATIONS:
        raise ValueError(
            f"Expected `truncation` to be one of {TRUNCATIONS}. "
            f"Received: truncation={truncation!r}"
        )
    if truncation == "only_second" and not has_pairs:
        raise ValueError(
            "Expected pairs of texts to cut the second of. "
            f"Received: truncation={truncation!r}, pairs=None"
        )
    received = f"Received: max_length={max_length!r}, overlap={overlap!r}"
    if any(
        isinstance(number, bool) or not hasattr(number, "__index__")
        for number in (max_length, overlap)
        if number is not None
    ):
        raise TypeError(f"Expected integers. {received}")
    if max_length is None:
        if overlap:
            raise ValueError(
                f"Expected a `max_length` for windows with overlap. {received}"
            )
        return None, truncation
    # A numpy integer is not what the Rust side takes.
    max_length = operator.index(max_length)
    if max_length < max(num_special, 1):
        raise ValueError(
            f"Expected a `max_length` of {max(num_special, 1)} or more, as "
            f"{num_special} special tokens are added. {received}"
        )
    if overlap and has_pairs and truncation == "longest_first":
        raise ValueError(
            "Expected truncation='only_first' or 'only_second' for windows of "
            f"a pair. {received}, truncation={truncation!r}"
        )
    if overlap < 0 or 0 < overlap >= max_length - num_special:
        raise ValueError(
            "Expected an `overlap` from 0 to less than the "
            f"{max_length - num_special} tokens of text in a window. {received}"
        )
    return max_length, truncation if has_pairs else "longest_first"


def check_room(
    sizes: Sequence[int], room: int, truncation: str, overlap: int, index: int
) -> None:
    """Checks that the text of a pair that must stay whole leaves room.

    Args:
        sizes: Tokens of the first and of the second text.
        room: Tokens of both that may stay.
        truncation: `"only_first"` or `"only_second"`.
        overlap: Tokens that neighbouring windows share.
        index: Number of the pair, for the message.

    Raises:
        ValueError: The other text must be cut, and has no room for it.
    """
    cut = TRUNCATIONS.index(truncation) - 1
    left = room - sizes[1 - cut]
    if left <= overlap and sizes[cut] > left:
        whole = ("texts", "pairs")[1 - cut]
        raise ValueError(
            f"Expected more room than overlap={overlap} for the text that "
            f"truncation={truncation!r} cuts, but the {sizes[1 - cut]} tokens "
            f"of {whole}[{index}] leave {max(left, 0)} of {room}. "
            f"Received: truncation={truncation!r}"
        )


def tokens_to_keep(
    sequence_ids: Sequence[int | None],
    max_length: int,
    truncation: str,
    index: int,
) -> list[bool]:
    """Says which tokens of a text or pair that is too long stay.

    The same ones as the Rust library, and so transformers, keeps. Where both
    texts of a pair are cut and share an odd number of tokens, the second gets
    one more unless the first was longer; `truncate_seq_pair` of
    google-research/bert gives it to the first.

    Args:
        sequence_ids: For each token, the text that it is from, 0 or 1; None
            for special tokens.
        max_length: Most tokens.
        truncation: One of `TRUNCATIONS`.
        index: Number of the text, for the message.

    Returns:
        One bool a token.

    Raises:
        ValueError: See `check_room`.
    """
    sizes = [sequence_ids.count(0), sequence_ids.count(1)]
    room = max_length - (len(sequence_ids) - sum(sizes))
    if truncation == "longest_first":
        shorter = min(*sizes, room // 2)
        left = [shorter, room - shorter]
        if sizes[0] > sizes[1]:
            left.reverse()
    else:
        check_room(sizes, room, truncation, 0, index)
        cut = TRUNCATIONS.index(truncation) - 1
        left = list(sizes)
        left[cut] = room - sizes[1 - cut]
    keep = []
    for sequence_id in sequence_ids:
        if sequence_id is not None:
            left[sequence_id] -= 1
        keep.append(sequence_id is None or left[sequence_id] >= 0)
    return keep
