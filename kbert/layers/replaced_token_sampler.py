"""Layer that puts a generator's guesses in place of masked tokens."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="kbert")
class ReplacedTokenSampler(keras.layers.Layer):
    """Replace each masked token by one drawn from a generator's softmax.

    The step between ELECTRA's generator and its discriminator. Any id can be
    drawn, the original and special ones too; the original is no replacement.
    Each call draws anew, in evaluation too. No gradient passes.

    Args:
        seed: int or None, of the draws; None for one that
            `keras.utils.set_random_seed` settles.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        logits: float (B, P, V), of the generator.
        token_ids: int (B, S), masked.
        mask_positions: int (B, P), each in [0, S), 0 in unused slots: the
            first token is special, and never replaced.
        original_ids: int (B, P), the tokens that were masked; any number in
            unused slots.

    Returns:
        A dict of int32 (B, S): `token_ids`, with the guesses, and
        `is_replaced`, 1 where a guess is not the original.

    Example:
        >>> import numpy as np, kbert
        >>> sampler = kbert.layers.ReplacedTokenSampler(seed=0)
        >>> logits = np.array([[[-99, -99, 99.0], [9.0, 9.0, 9.0]]])
        >>> outputs = sampler(logits, np.array([[0, 1, 1]]),
        ...     mask_positions=np.array([[2, 0]]),
        ...     original_ids=np.array([[1, 0]]))
        >>> np.array(outputs["token_ids"]).tolist()
        [[0, 1, 2]]
        >>> np.array(outputs["is_replaced"]).tolist()
        [[0, 0, 1]]

    References:
        Clark et al., 2020, https://arxiv.org/abs/2003.10555, section 2;
        `_get_fake_data` in google-research/electra `run_pretraining.py`
    """

    def __init__(self, seed: int | None = None, **kwargs):
        """See the class."""
        # bfloat16 logits would change the softmax.
        super().__init__(autocast=False, **kwargs)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, logits, token_ids, mask_positions, original_ids):
        """See the class."""
        token_ids = ops.cast(token_ids, "int32")
        positions = ops.cast(mask_positions, "int32")
        logits = ops.cast(ops.stop_gradient(logits), "float32")
        guesses = ops.reshape(
            _sample(logits, self.seed_generator), ops.shape(positions)
        )
        replaced = _put(token_ids, positions, guesses)
        original = _put(token_ids, positions, ops.cast(original_ids, "int32"))
        return {
            "token_ids": replaced,
            "is_replaced": ops.cast(replaced != original, "int32"),
        }

    def compute_output_spec(
        self, logits, token_ids, mask_positions, original_ids
    ):
        """Return int32 (B, S) twice."""
        return {
            name: keras.KerasTensor(token_ids.shape, dtype="int32")
            for name in ("token_ids", "is_replaced")
        }

    def get_config(self):
        """Return the constructor's arguments."""
        return {**super().get_config(), "seed": self.seed}


def _sample(logits, seed):
    """Draw an id for each of the B · P rows from softmax(logits).

    First one of about √V runs of √V ids, by the run's share, then an id of
    it: that needs 2 √V random numbers a row instead of V.
    """
    vocab_size = logits.shape[-1]
    run = round(vocab_size**0.5)
    runs = -(-vocab_size // run)
    padding = runs * run - vocab_size
    logits = ops.pad(logits, ((0, 0), (0, 0), (0, padding)), "constant", -1e30)
    logits = ops.reshape(logits, (-1, runs, run))
    first = _categorical(ops.logsumexp(logits, axis=-1), seed)
    rows = ops.take_along_axis(logits, ops.expand_dims(first, -1), axis=1)
    return first * run + _categorical(ops.squeeze(rows, 1), seed)


def _categorical(logits, seed):
    """Draw (n, 1) from (n, classes); evenly where a diverged model has NaN."""
    # Else torch raises, and TensorFlow gives the number of classes.
    logits = ops.nan_to_num(logits)
    return keras.random.categorical(logits, 1, dtype="int32", seed=seed)


def _put(token_ids, positions, values):
    """Return the ids with the values at the positions, but for position 0.

    Unused slots point at 0, and all write what is there already.
    """
    batch, length = ops.shape(token_ids)
    values = ops.where(positions == 0, token_ids[:, :1], values)
    first = ops.expand_dims(ops.arange(batch, dtype="int32") * length, 1)
    flat = ops.scatter_update(
        ops.reshape(token_ids, (-1,)),
        ops.reshape(positions + first, (-1, 1)),
        ops.reshape(values, (-1,)),
    )
    return ops.reshape(flat, (batch, length))
