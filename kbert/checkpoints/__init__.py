"""Checkpoint formats in and out: data (`tables`) and one engine (`mapping`)."""

from kbert.checkpoints.mapping import LoadReport

__all__ = ["LoadReport"]
