"""Raw text in, answers out."""

from kbert.pipelines.classifier import Classifier
from kbert.pipelines.entity_tagger import EntityTagger
from kbert.pipelines.fill_mask import FillMask
from kbert.pipelines.question_answerer import QuestionAnswerer

__all__ = ["Classifier", "EntityTagger", "FillMask", "QuestionAnswerer"]
