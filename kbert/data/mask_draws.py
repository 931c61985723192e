"""Random numbers that the seed, the epoch and a sequence's number decide."""

import numpy as np

# Last word of the seed, so that nothing else draws the same.
_OF_MASKS = 3

# What is drawn for each position: the length of a span that starts there, when
# its turn comes, what becomes of it, and what other token.
SPAN, TURN, FATE, OTHER = range(4)


def draw_for_masks(
    seed: int, epoch: int, numbers: np.ndarray, length: int
) -> np.ndarray:
    """Draw what the masks of a batch need.

    A sequence has the same draws in whatever batch and at whatever place it
    comes, so its masks do not depend on how many workers share the data, and
    epochs need not be gone through to get to a later one.

    Args:
        seed: of all draws.
        epoch: number of the epoch.
        numbers: int (B,), of the sequences, from 0.
        length: S.

    Returns:
        Float64 (B, S + 1, 4) from 0 to 1: those for a row as a whole, then
        those for each position. They are the same for any S, as far as it
        goes.
    """
    # Philox is a cipher of a counter, of which each sequence has a range of
    # its own. Moving the counter takes 3 us, making a generator 20.
    key = np.random.SeedSequence((seed, epoch, 0, _OF_MASKS))
    bits = np.random.Philox(key=key.generate_state(2, np.uint64))
    rng, state = np.random.Generator(bits), bits.state
    draws = np.empty((len(numbers), length + 1, 4))
    for row, number in zip(draws, numbers.tolist(), strict=True):
        state["state"]["counter"][:] = 0, 0, 0, number
        bits.state = state
        rng.random(out=row)
    return draws
