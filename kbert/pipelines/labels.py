"""The names of a head's classes."""

from collections.abc import Sequence

from kbert.checkpoints.translate import placeholder_names
from kbert.layers import ClassificationHead, TokenClassificationHead


def class_names(
    label_names: Sequence[str] | None,
    head: ClassificationHead | TokenClassificationHead,
) -> list[str]:
    """Return the names to use for a head's classes.

    Args:
        label_names: names that the user gave, or None.
        head: the head.

    Returns:
        C names: the user's, or the head's, or "LABEL_0", "LABEL_1", ….

    Raises:
        ValueError: if `label_names` does not hold C different names.
    """
    if label_names is None:
        label_names = head.label_names or placeholder_names(head.num_classes)
    if isinstance(label_names, str) or not (
        len(set(label_names)) == len(label_names) == head.num_classes
    ):
        raise ValueError(
            f"`label_names` must hold {head.num_classes} different names. "
            f"Received: label_names={label_names!r}"
        )
    return list(label_names)
