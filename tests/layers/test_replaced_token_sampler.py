"""The layer between ELECTRA's generator and its discriminator."""

import keras
import numpy as np
import pytest
from keras import ops
from loss_reference import compiled, gradient, softmax

from kbert.layers import ReplacedTokenHead, ReplacedTokenSampler

BACKEND = keras.backend.backend()


def numbers(x):
    return ops.convert_to_numpy(x)


def draws(sampler, logits, count):
    """Draw `count` ids from one row of logits, in one call."""
    outputs = sampler(
        np.tile(np.float32(logits), (1, count, 1)),
        np.zeros((1, count + 1), "int32"),
        mask_positions=np.arange(1, count + 1)[None],
        original_ids=np.zeros((1, count), "int32"),
    )
    return numbers(outputs["token_ids"])[0, 1:]


def chi_square(ids, probabilities):
    expected = len(ids) * probabilities
    found = np.bincount(ids, minlength=len(probabilities))
    assert len(found) == len(probabilities)
    return float(np.sum((found - expected) ** 2 / expected))


def bound(categories):
    """Five standard deviations above the mean of chi-square."""
    return categories - 1 + 5 * np.sqrt(2 * (categories - 1))


# 7 is no product, and 8 = 3 · 3 - 1: the last run is then not full.
@pytest.mark.parametrize("vocab_size", [2, 7, 8, 9, 100])
def test_frequencies_are_the_softmax(vocab_size):
    rng = np.random.default_rng(vocab_size)
    logits = rng.normal(size=vocab_size)
    sampler = ReplacedTokenSampler(seed=1)
    ids = draws(sampler, logits, 30_000)
    assert chi_square(ids, softmax(logits)) < bound(vocab_size)
    # Temperature 2 would show, and so would the wrong ends of runs.
    assert chi_square(ids, softmax(logits / 2)) > bound(vocab_size)
    # One slot's draw says nothing about its neighbour's or the next step's.
    pairs = softmax(logits)[:, None] * softmax(logits)
    if vocab_size < 10:
        both = ids[::2] * vocab_size + ids[1::2]
        assert chi_square(both, pairs.ravel()) < bound(vocab_size**2)
        both = ids * vocab_size + draws(sampler, logits, 30_000)
        assert chi_square(both, pairs.ravel()) < bound(vocab_size**2)


def test_half_precision_does_not_change_the_softmax():
    sampler = ReplacedTokenSampler(seed=0, dtype="mixed_bfloat16")
    logits = np.array([300.0, 300.9])  # one number in bfloat16
    ids = draws(sampler, logits, 10_000)
    assert chi_square(ids, softmax(logits)) < bound(2)


def test_every_id_of_a_large_vocabulary_can_be_drawn():
    vocab_size = 30522
    logits = np.full((1, 6, vocab_size), -200.0, "float32")
    ids = np.array([0, 1, 257, 30520, 30521, 999])
    logits[0, np.arange(6), ids] = 0.0
    outputs = ReplacedTokenSampler(dtype="mixed_bfloat16")(
        logits,
        np.full((1, 7), 5, "int32"),
        mask_positions=np.arange(1, 7)[None],
        original_ids=ids[None],
    )
    assert numbers(outputs["token_ids"])[0].tolist() == [5, *ids]
    assert not numbers(outputs["is_replaced"]).any()


def case(rng, rows=4, length=9, slots=5, vocab_size=50):
    """Masked rows with no, some and all slots in use, and sure guesses."""
    original = rng.integers(5, vocab_size, (rows, length))
    masked, positions = original.copy(), np.zeros((rows, slots), int)
    labels = np.zeros((rows, slots), int)
    guesses = rng.integers(0, vocab_size, (rows, slots))
    expected, is_replaced = original.copy(), np.zeros_like(original)
    for row, used in enumerate([0, 1, 3, 5]):
        chosen = rng.permutation(np.arange(1, length))[:used]
        positions[row, :used], labels[row, :used] = (
            chosen,
            original[row, chosen],
        )
        masked[row, chosen] = 4
        if used > 1:  # right, by luck
            guesses[row, 1] = labels[row, 1]
        for slot, position in enumerate(chosen):
            expected[row, position] = guesses[row, slot]
            is_replaced[row, position] = (
                guesses[row, slot] != original[row, position]
            )
    logits = np.where(np.arange(vocab_size) == guesses[..., None], 90.0, 0.0)
    inputs = (logits, masked, positions, labels)
    return [np.float32(inputs[0]), *map(np.int32, inputs[1:])], (
        expected,
        is_replaced,
    )


@pytest.mark.parametrize("is_compiled", [False, True])
def test_guesses_come_where_tokens_were_masked(is_compiled):
    sampler = ReplacedTokenSampler()
    inputs, (expected, is_replaced) = case(np.random.default_rng(0))
    assert is_replaced.sum() == 7  # of nine: two guesses are right
    call = sampler
    if is_compiled and BACKEND == "jax":
        sampler(*inputs)
        state = [v.value for v in sampler.variables]
        step = compiled(sampler.stateless_call)

        def call(*inputs):
            return step([], state, *inputs)[0]

    elif is_compiled:
        call = compiled(sampler)
    outputs = call(*map(ops.convert_to_tensor, inputs))
    np.testing.assert_array_equal(numbers(outputs["token_ids"]), expected)
    np.testing.assert_array_equal(numbers(outputs["is_replaced"]), is_replaced)
    for value in outputs.values():
        assert keras.backend.standardize_dtype(value.dtype) == "int32"


def test_labels_of_unused_slots_do_not_matter():
    inputs, (expected, is_replaced) = case(np.random.default_rng(1))
    inputs[3] = np.where(inputs[2] == 0, -100, inputs[3])
    outputs = ReplacedTokenSampler()(*inputs)
    np.testing.assert_array_equal(numbers(outputs["token_ids"]), expected)
    np.testing.assert_array_equal(numbers(outputs["is_replaced"]), is_replaced)


def test_a_seed_gives_the_same_draws_and_each_call_others():
    logits = np.zeros(1000)
    one, other = ReplacedTokenSampler(seed=3), ReplacedTokenSampler(seed=3)
    first, second = draws(one, logits, 50), draws(one, logits, 50)
    assert (first != second).any()
    np.testing.assert_array_equal(draws(other, logits, 50), first)
    np.testing.assert_array_equal(draws(other, logits, 50), second)
    keras.utils.set_random_seed(0)
    first = draws(ReplacedTokenSampler(), logits, 50)
    keras.utils.set_random_seed(0)
    np.testing.assert_array_equal(
        draws(ReplacedTokenSampler(), logits, 50), first
    )


def test_logits_of_nan_draw_ids_of_the_table():
    """A model that diverged goes on to a loss of NaN, and callbacks see it."""
    ids = draws(ReplacedTokenSampler(seed=0), np.full(7, np.nan), 100)
    assert ids.min() >= 0 and ids.max() < 7


def test_the_head_says_wrong_where_tokens_are_replaced():
    head = ReplacedTokenHead(4)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    is_replaced = np.array([[0, 1, 1], [1, 0, 0]], "int32")
    plain = numbers(head(x))
    wrong = numbers(head(x, is_replaced=is_replaced))
    np.testing.assert_array_equal(wrong, plain * [[1, -1, -1], [-1, 1, 1]])
    assert head.compute_output_spec(x, is_replaced).shape == (2, 3)


def test_no_gradient_passes():
    inputs, _ = case(np.random.default_rng(0))
    sampler = ReplacedTokenSampler(seed=0)

    def loss(logits):
        ids = sampler(logits, *inputs[1:])["token_ids"]
        return ops.sum(ops.cast(ids, "float32")) + ops.sum(logits)

    np.testing.assert_array_equal(gradient(loss, inputs[0]), 1.0)
