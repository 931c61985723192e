"""Published sizes: data only, each with its source.

Vary one with `dataclasses.replace(kbert.families.BERT_BASE, vocab_size=…)`.
"""

from kbert.config import EncoderConfig

# English, lower-cased, 30,522 word pieces. The four small sizes are from
# Turc et al., 2019, "Well-Read Students Learn Better",
# https://arxiv.org/abs/1908.08962 and the table of
# https://github.com/google-research/bert; base and large from
# Devlin et al., 2018, https://arxiv.org/abs/1810.04805
BERT_TINY = EncoderConfig(
    vocab_size=30522,
    hidden_size=128,
    num_layers=2,
    num_heads=2,
    intermediate_size=512,
)
BERT_MINI = EncoderConfig(
    vocab_size=30522,
    hidden_size=256,
    num_layers=4,
    num_heads=4,
    intermediate_size=1024,
)
BERT_SMALL = EncoderConfig(
    vocab_size=30522,
    hidden_size=512,
    num_layers=4,
    num_heads=8,
    intermediate_size=2048,
)
BERT_MEDIUM = EncoderConfig(
    vocab_size=30522,
    hidden_size=512,
    num_layers=8,
    num_heads=8,
    intermediate_size=2048,
)
BERT_BASE = EncoderConfig(
    vocab_size=30522,
    hidden_size=768,
    num_layers=12,
    num_heads=12,
    intermediate_size=3072,
)
BERT_LARGE = EncoderConfig(
    vocab_size=30522,
    hidden_size=1024,
    num_layers=24,
    num_heads=16,
    intermediate_size=4096,
)
