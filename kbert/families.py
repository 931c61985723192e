"""Published sizes: data only, each with its source.

Vary one with `dataclasses.replace(kbert.families.BERT_BASE, vocab_size=…)`.
"""

import dataclasses

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

# Liu et al., 2019, https://arxiv.org/abs/1907.11692; sizes of
# huggingface.co/FacebookAI/roberta-base and -large. 514 rows of positions, of
# which the first two are not used.
ROBERTA_BASE = EncoderConfig(
    vocab_size=50265,
    hidden_size=768,
    num_layers=12,
    num_heads=12,
    intermediate_size=3072,
    num_segments=1,
    position_offset=2,
    layer_norm_epsilon=1e-5,
    pad_token_id=1,
    family="roberta",
)
ROBERTA_LARGE = dataclasses.replace(
    ROBERTA_BASE,
    hidden_size=1024,
    num_layers=24,
    num_heads=16,
    intermediate_size=4096,
)
# Conneau et al., 2020, https://arxiv.org/abs/1911.02116;
# huggingface.co/FacebookAI/xlm-roberta-base and -large.
XLM_ROBERTA_BASE = dataclasses.replace(
    ROBERTA_BASE, vocab_size=250002, family="xlm-roberta"
)
XLM_ROBERTA_LARGE = dataclasses.replace(
    ROBERTA_LARGE, vocab_size=250002, family="xlm-roberta"
)
# Martin et al., 2020, https://arxiv.org/abs/1911.03894;
# huggingface.co/almanach/camembert-base.
CAMEMBERT_BASE = dataclasses.replace(
    ROBERTA_BASE, vocab_size=32005, family="camembert"
)
# Sanh et al., 2019, https://arxiv.org/abs/1910.01108;
# huggingface.co/distilbert/distilbert-base-uncased.
DISTILBERT_BASE = dataclasses.replace(
    BERT_BASE,
    num_layers=6,
    num_segments=0,
    has_pooler=False,
    family="distilbert",
)
# Lan et al., 2020, https://arxiv.org/abs/1909.11942, table 1; version 2 of
# github.com/google-research/albert.
ALBERT_BASE_V2 = EncoderConfig(
    vocab_size=30000,
    hidden_size=768,
    num_layers=12,
    num_heads=12,
    intermediate_size=3072,
    embedding_size=128,
    shared_layers=True,
    activation="gelu_tanh",
    hidden_dropout=0.0,
    attention_dropout=0.0,
    family="albert",
)
ALBERT_LARGE_V2 = dataclasses.replace(
    ALBERT_BASE_V2,
    hidden_size=1024,
    num_layers=24,
    num_heads=16,
    intermediate_size=4096,
)
ALBERT_XLARGE_V2 = dataclasses.replace(
    ALBERT_LARGE_V2, hidden_size=2048, intermediate_size=8192
)
ALBERT_XXLARGE_V2 = dataclasses.replace(
    ALBERT_BASE_V2,
    hidden_size=4096,
    num_heads=64,
    intermediate_size=16384,
)
# Clark et al., 2020, https://arxiv.org/abs/2003.10555, table 6; the
# discriminators of github.com/google-research/electra.
ELECTRA_SMALL = EncoderConfig(
    vocab_size=30522,
    hidden_size=256,
    num_layers=12,
    num_heads=4,
    intermediate_size=1024,
    embedding_size=128,
    has_pooler=False,
    family="electra",
)
ELECTRA_BASE = dataclasses.replace(
    BERT_BASE, has_pooler=False, family="electra"
)
ELECTRA_LARGE = dataclasses.replace(
    BERT_LARGE, has_pooler=False, family="electra"
)

# Song et al., 2020, https://arxiv.org/abs/2004.09297;
# huggingface.co/microsoft/mpnet-base. BERT's vocabulary and five more tokens;
# 514 rows of positions, of which the first two are not used.
MPNET_BASE = EncoderConfig(
    vocab_size=30527,
    hidden_size=768,
    num_layers=12,
    num_heads=12,
    intermediate_size=3072,
    num_segments=0,
    position_offset=2,
    layer_norm_epsilon=1e-5,
    pad_token_id=1,
    relative_attention="bias",
    family="mpnet",
)
# Warner et al., 2024, https://arxiv.org/abs/2412.13663, table 3;
# huggingface.co/answerdotai/ModernBERT-base and -large. A layer of local
# attention sees 64 tokens on each side.
MODERNBERT_BASE = EncoderConfig(
    vocab_size=50368,
    hidden_size=768,
    num_layers=22,
    num_heads=12,
    intermediate_size=1152,
    max_positions=8192,
    num_segments=0,
    layer_norm_epsilon=1e-5,
    hidden_dropout=0.0,
    attention_dropout=0.0,
    pad_token_id=50283,
    has_pooler=False,
    has_position_table=False,
    has_bias=False,
    pre_norm=True,
    gated=True,
    rotary_base=160000.0,
    local_rotary_base=10000.0,
    local_window=64,
    global_every=3,
    family="modernbert",
)
MODERNBERT_LARGE = dataclasses.replace(
    MODERNBERT_BASE,
    hidden_size=1024,
    num_layers=28,
    num_heads=16,
    intermediate_size=2624,
)
# He et al., 2021, https://arxiv.org/abs/2111.09543;
# huggingface.co/microsoft/deberta-v3-xsmall, -small, -base and -large.
DEBERTA_V3_BASE = EncoderConfig(
    vocab_size=128100,
    hidden_size=768,
    num_layers=12,
    num_heads=12,
    intermediate_size=3072,
    num_segments=0,
    layer_norm_epsilon=1e-7,
    has_pooler=False,
    has_position_table=False,
    relative_attention="disentangled",
    relative_buckets=256,
    relative_distance=512,
    family="deberta-v2",
)
DEBERTA_V3_XSMALL = dataclasses.replace(
    DEBERTA_V3_BASE, hidden_size=384, num_heads=6, intermediate_size=1536
)
DEBERTA_V3_SMALL = dataclasses.replace(DEBERTA_V3_BASE, num_layers=6)
DEBERTA_V3_LARGE = dataclasses.replace(
    DEBERTA_V3_BASE,
    hidden_size=1024,
    num_layers=24,
    num_heads=16,
    intermediate_size=4096,
)

# `EncoderConfig.family` → what its classification head has beside BERT's one
# linear layer: arguments of `ClassificationHead`. As in transformers, which
# follows each family's original code.
CLASSIFIER_FORMS = {
    "bert": {"dense_activation": None, "has_input_dropout": True},
    "albert": {"dense_activation": None, "has_input_dropout": True},
    "roberta": {"dense_activation": "tanh", "has_input_dropout": True},
    "xlm-roberta": {"dense_activation": "tanh", "has_input_dropout": True},
    "camembert": {"dense_activation": "tanh", "has_input_dropout": True},
    "electra": {"dense_activation": "gelu", "has_input_dropout": True},
    "distilbert": {"dense_activation": "relu", "has_input_dropout": False},
    "mpnet": {"dense_activation": "tanh", "has_input_dropout": True},
    "deberta-v2": {"dense_activation": "gelu", "has_input_dropout": False},
    # A dense layer comes before each of its heads: `TRANSFORMED`.
    "modernbert": {"dense_activation": None, "has_input_dropout": True},
}
# Families whose classification, token and span heads read what their
# masked-language head's dense layer, activation and normalisation give.
TRANSFORMED = ("modernbert",)
