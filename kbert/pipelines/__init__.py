"""Raw text in, answers out."""

from kbert.pipelines.classifier import Classifier
from kbert.pipelines.fill_mask import FillMask

__all__ = ["Classifier", "FillMask"]
