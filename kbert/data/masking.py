"""Which tokens of a batch are masked, and what stands in their place."""

import math
from dataclasses import dataclass

import numpy as np

from kbert.data.mask_draws import FATE, OTHER, SPAN, TURN
from kbert.data.mask_units import (
    Words,
    choose_words,
    find_words,
    group_words,
    running_sums,
)
from kbert.data.tokenizer import Tokenizer

# Of the chosen tokens: share that becomes the mask token, and share that
# becomes another one. The rest stay as they are.
_MASK_SHARE, _RANDOM_SHARE = 0.8, 0.1


@dataclass(frozen=True)
class MaskedTokens:
    """A batch of B sequences with P slots for masked tokens.

    Attributes:
        token_ids: int32 (B, S), with masks in it.
        positions: int32 (B, P), where the chosen tokens are, ascending; 0 in
            unused slots.
        labels: int32 (B, P), the tokens that were there; 0 in unused slots.
        weights: float32 (B, P), 1 in used slots and 0 in unused ones.
    """

    token_ids: np.ndarray
    positions: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class Masker:
    """Chooses tokens of a batch and corrupts them, as BERT's pretraining does.

    Of the ordinary tokens of a sequence, `probability` are chosen: exactly
    so on average, rounded up or down at random in each, and at least one.
    Special tokens, the unknown token and padding never are. Of the chosen,
    80 % become the mask token, 10 % any ordinary token and 10 % stay. Every
    step is one numpy operation on the whole batch.

    Args:
        tokenizer: of the model.
        probability: share of the ordinary tokens to choose.
        unit: what is chosen as one: "token"; "word", all tokens of a word,
            by the tokenizer's own rules; "span", up to 10 words in a row, as
            many as SpanBERT's, which share one fate, mask, other or same;
            "ngram", 1 to 3 words, as ALBERT does. What does not fit into the
            sequence's number of chosen tokens any more is passed over; a
            span or n-gram loses its last words first.

    Raises:
        ValueError: if the tokenizer has no ordinary token.

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 3.1;
        Joshi et al., 2019, https://arxiv.org/abs/1907.10529, section 3.1;
        Lan et al., 2019, https://arxiv.org/abs/1909.11942, section 4.1
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        probability: float = 0.15,
        unit: str = "token",
    ):
        """See the class."""
        ids = set(tokenizer.get_vocab().values())
        ids -= set(tokenizer.special_token_ids)
        if not ids:
            raise ValueError(
                "Masking needs a vocabulary with ordinary tokens. Received: "
                f"{tokenizer!r} with special ones only"
            )
        self.probability = probability
        self.unit = unit
        self._ordinary_ids = np.array(sorted(ids), np.int32)
        self._is_ordinary = np.zeros(tokenizer.vocab_size, bool)
        self._is_ordinary[self._ordinary_ids] = True
        self._mask_token_id = tokenizer.mask_token_id

    def num_slots(self, length: int) -> int:
        """Return P for sequences of `length` tokens, specials included."""
        # Rounded, or 0.15 * 20 could be above 3.
        return math.ceil(round(self.probability * length, 6))

    def __call__(
        self,
        token_ids: np.ndarray,
        word_starts: np.ndarray | None,
        draws: np.ndarray,
        *,
        num_slots: int,
        limits: np.ndarray | int | None = None,
        sequence_ids: np.ndarray | None = None,
    ) -> MaskedTokens:
        """Mask a batch.

        Args:
            token_ids: int32 (B, S), padded.
            word_starts: bool (B, S), whether a word starts there; None with
                the unit "token". The first token after a special one starts
                a word in any case.
            draws: float64 (B, S + 1, 4), see `draw_for_masks`.
            num_slots: P. No row has more masks.
            limits: (B,), most masks in each row, at most P; None for P.
            sequence_ids: int (B, S), where rows hold several sequences, the
                number of each token's; None for one sequence a row. The
                first sequences of a row come first where P are not enough.

        Returns:
            A `MaskedTokens`; `token_ids` is not changed.
        """
        limits = np.broadcast_to(
            num_slots if limits is None else limits, len(token_ids)
        )
        can_mask = self._is_ordinary[token_ids]
        is_first = np.zeros(token_ids.shape, bool)
        is_first[:, 0] = True
        if sequence_ids is not None:
            is_first[:, 1:] = np.diff(sequence_ids, axis=1) != 0
        words, owners, budget = self._words(
            can_mask, word_starts, is_first, limits, draws[:, 0, 0]
        )
        draws = draws[:, 1:].reshape(-1, 4)
        groups = group_words(
            words, token_ids.shape[1], self.unit, draws[words.first, SPAN]
        )
        # Where the group of each word begins.
        begin = words.first[np.searchsorted(groups, groups)]
        is_chosen = choose_words(
            owners, words.size, groups, budget, draws[begin, TURN]
        )
        which = is_chosen[words.of]
        index = np.flatnonzero(can_mask)[which]
        decides = begin[words.of[which]] if self.unit == "span" else index
        return self._corrupt(
            token_ids,
            index,
            draws[decides, FATE],
            draws[index, OTHER],
            num_slots,
        )

    def _words(
        self,
        can_mask: np.ndarray,
        word_starts: np.ndarray | None,
        is_first: np.ndarray,
        limits: np.ndarray,
        draws: np.ndarray,
    ) -> tuple[Words, np.ndarray, np.ndarray]:
        """Find the words, and decide how many tokens each sequence gives.

        Returns the words, the sequence of each, counted through the batch,
        and the number of tokens for each sequence.
        """
        length = can_mask.shape[1]
        sequence = np.cumsum(is_first) - 1
        row = np.flatnonzero(is_first) // length
        starts = can_mask.copy()
        if word_starts is not None:
            starts[:, 1:] &= word_starts[:, 1:] | ~can_mask[:, :-1]
        words = find_words(can_mask, starts)
        smallest = np.full(len(row), length + 1)
        np.minimum.at(smallest, sequence[words.first], words.size)
        num_tokens = np.bincount(sequence[can_mask.ravel()], minlength=len(row))
        is_short = (num_tokens > 0) & (smallest > limits[row])
        if is_short.any():
            # Not even one word fits into the slots: there, tokens are words.
            starts |= can_mask & is_short[sequence].reshape(can_mask.shape)
            words = find_words(can_mask, starts)
            smallest[is_short] = 1
        # Sequences of a row share what is drawn, so that their sum is rounded
        # once and fits into the slots.
        draw = draws[row]
        total = running_sums(num_tokens, row)
        budget = np.floor(self.probability * total + draw)
        budget -= np.floor(self.probability * (total - num_tokens) + draw)
        budget = np.where(num_tokens > 0, np.maximum(budget, smallest), 0)
        left = limits[row] - (running_sums(budget, row) - budget)
        budget = np.clip(budget, 0, np.maximum(left, 0))
        return words, sequence[words.first], budget.astype(np.int64)

    def _corrupt(
        self,
        token_ids: np.ndarray,
        index: np.ndarray,
        fates: np.ndarray,
        others: np.ndarray,
        num_slots: int,
    ) -> MaskedTokens:
        """Replace the tokens at `index` of the flattened batch.

        What becomes of them, and what other tokens, is drawn from 0 to 1.
        """
        num_rows, length = token_ids.shape
        flat = token_ids.ravel()
        labels = flat[index]
        new = np.where(fates < _MASK_SHARE, self._mask_token_id, labels)
        is_other = (fates >= _MASK_SHARE) & (
            fates < _MASK_SHARE + _RANDOM_SHARE
        )
        which = (others[is_other] * len(self._ordinary_ids)).astype(np.int64)
        new[is_other] = self._ordinary_ids[which]
        corrupted = flat.copy()
        corrupted[index] = new
        rows = index // length
        counts = np.bincount(rows, minlength=num_rows)
        slots = np.arange(len(index)) - (np.cumsum(counts) - counts)[rows]

        def in_slots(values: np.ndarray | int, dtype: str) -> np.ndarray:
            array = np.zeros((num_rows, num_slots), dtype)
            array[rows, slots] = values
            return array

        return MaskedTokens(
            token_ids=corrupted.reshape(token_ids.shape),
            positions=in_slots(index % length, "int32"),
            labels=in_slots(labels, "int32"),
            weights=in_slots(1, "float32"),
        )
