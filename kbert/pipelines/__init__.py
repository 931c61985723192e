"""Raw text in, answers out."""

from kbert.pipelines.classifier import Classifier
from kbert.pipelines.embedder import Embedder
from kbert.pipelines.entity_tagger import EntityTagger
from kbert.pipelines.fill_mask import FillMask
from kbert.pipelines.hard_negatives import mine_hard_negatives
from kbert.pipelines.question_answerer import QuestionAnswerer
from kbert.pipelines.sanity import CollapseReport, collapse_report
from kbert.pipelines.vectors import quantize

__all__ = [
    "Classifier",
    "CollapseReport",
    "Embedder",
    "EntityTagger",
    "FillMask",
    "QuestionAnswerer",
    "collapse_report",
    "mine_hard_negatives",
    "quantize",
]
