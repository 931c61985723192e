"""Tokenizers of every kind of pieces, and models that say what they are told.

The models are real ones whose `predict_on_batch` is a function of the inputs,
so that a test knows every logit.
"""

import numpy as np
from family_files import write_family
from hypothesis import strategies as st

import kbert

FAMILIES = ("bert", "roberta", "xlm-roberta", "albert", "deberta-v2")
# From one letter to all of Unicode, and much of what goes wrong.
TEXTS = st.text(
    st.one_of(
        st.sampled_from("abe.-'’ \t\n\u0301\u200d\u200b日本é😀🚀,/:@1Z한ि\x00"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
)


def read_tokenizer(family, directory):
    return kbert.Tokenizer.from_pretrained(write_family(directory, family))


def make_encoder(tokenizer, max_positions=32):
    config = kbert.EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=8,
        num_layers=1,
        num_heads=1,
        intermediate_size=8,
        max_positions=max_positions,
        num_segments=2 if tokenizer.has_segments else 0,
    )
    return kbert.build_encoder(config)


def say(model, answer):
    """Make a model say `answer(inputs)`."""
    model.predict_on_batch = answer
    return model


def token_table(tokenizer, num_columns, seed=0):
    """Logits of each token id, float32 (V, C)."""
    rng = np.random.default_rng(seed)
    shape = (tokenizer.vocab_size, num_columns)
    return rng.normal(size=shape).astype("float32")
