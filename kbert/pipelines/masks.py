"""The masks of texts: where they stand, and the model's input of them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers

from kbert.data.batching import Batch
from kbert.data.encoding import EncodedTexts
from kbert.data.texts import short_repr
from kbert.data.tokenizer import Tokenizer

_LOGGER = logging.getLogger("kbert")


class MaskWarning:
    """Says once that texts hold the tokenizer's mask token.

    A model that is not asked to fill it has seen it in pretraining at most:
    it is a left-over, and what comes out is not the text's.

    Args:
        tokenizer: what encodes the texts.
    """

    def __init__(self, tokenizer: Tokenizer):
        """See the class."""
        self._mask_token = tokenizer.special_tokens["mask_token"]
        self._mask_id = tokenizer.mask_token_id
        self._is_said = False

    def __call__(self, encoded: EncodedTexts) -> None:
        """Look at texts."""
        if self._is_said or not (encoded.ids == self._mask_id).any():
            return
        self._is_said = True
        _LOGGER.warning(
            "Texts hold the mask token %s, which stands for a missing word. "
            "This is said once.",
            self._mask_token,
        )


@dataclass(frozen=True)
class Mask:
    """One mask of a text.

    Attributes:
        position: its place among the tokens.
        start: of the mask token in the text, in code points.
        end: likewise.
    """

    position: int
    start: int
    end: int


def check_mask_token(tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that would split its mask token in a text."""
    mask_token = tokenizer.special_tokens["mask_token"]
    encoding = tokenizer.encode(mask_token, add_special_tokens=False)
    if encoding.ids != [tokenizer.mask_token_id]:
        raise ValueError(
            "The tokenizer must keep its mask token whole: add it to its "
            "backend as a special token. Received: "
            f"mask_token={mask_token!r}, tokens={encoding.tokens}"
        )


def find_masks(
    texts: Sequence[str],
    encodings: Sequence[tokenizers.Encoding],
    tokenizer: Tokenizer,
) -> list[list[Mask]]:
    """Find the masks of N texts.

    Args:
        texts: the texts.
        encodings: what `tokenizer.encode_batch` made of them.
        tokenizer: the tokenizer.

    Returns:
        The masks of each, in order.

    Raises:
        ValueError: if a text has no mask, or one that was cut off.
    """
    mask_id = tokenizer.mask_token_id
    found = []
    for index, encoding in enumerate(encodings):
        text = texts[index]
        received = f"Received: texts[{index}]={short_repr(text)}"
        for rest in encoding.overflowing:
            for mask in _masks(text, rest, mask_id):
                raise ValueError(
                    f"The mask at character {mask.start} is cut off, as the "
                    f"text has more than max_length={len(encoding)} tokens. "
                    f"{received}"
                )
        masks = _masks(text, encoding, mask_id)
        if not masks:
            raise ValueError(
                "Every text must hold the mask token "
                f"{tokenizer.special_tokens['mask_token']!r}, written just "
                f"so. {received}"
            )
        found.append(masks)
    return found


def mask_positions(batch: Batch, masks: Sequence[list[Mask]]) -> np.ndarray:
    """Return the model's input for a batch, int32 (B, P), 0 where unused."""
    rows = [masks[index] for index in batch.indices]
    # Powers of 2, as every new shape may have to be compiled.
    width = 1 << (max(len(row) for row in rows) - 1).bit_length()
    positions = np.zeros((len(rows), width), "int32")
    for slots, row in zip(positions, rows, strict=True):
        slots[: len(row)] = [mask.position for mask in row]
    return positions


def _masks(
    text: str, encoding: tokenizers.Encoding, mask_id: int
) -> list[Mask]:
    masks = []
    for position, token_id in enumerate(encoding.ids):
        if token_id == mask_id:
            start, end = encoding.offsets[position]
            # Some families' mask takes the white space before it.
            start = end - len(text[start:end].lstrip())
            masks.append(Mask(position, start, end))
    return masks
