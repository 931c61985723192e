import os

# Before any test module imports TensorFlow.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

from kbert.config import EncoderConfig
from kbert.data.tokenizer import Tokenizer

WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] "
    "the a good bad film plot very not was is ##s ##ly play ##ing , . !"
).split()


@pytest.fixture(scope="session")
def tiny_tokenizer():
    return Tokenizer.from_vocab(WORDS, max_length=32)


@pytest.fixture(scope="session")
def tiny_config():
    return EncoderConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        intermediate_size=32,
        max_positions=32,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )
