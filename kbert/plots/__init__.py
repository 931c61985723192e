"""Pictures: attention, what was found, vectors, training, confusion.

Figures need matplotlib, `pip install 'keras-kbert[plots]'`; HTML does not.
"""

from kbert.plots.attention import AttentionMaps, attention, attention_maps
from kbert.plots.curves import history
from kbert.plots.embeddings import embeddings
from kbert.plots.html import Html, answer, entities
from kbert.plots.matrix import confusion

__all__ = [
    "AttentionMaps",
    "Html",
    "answer",
    "attention",
    "attention_maps",
    "confusion",
    "embeddings",
    "entities",
    "history",
]
