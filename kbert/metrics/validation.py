"""Metrics that need all outputs of a model, in `fit`."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np


class ValidationMetrics(keras.callbacks.Callback):
    """Computes metrics over whole outputs after each epoch of `fit`.

    `compile` splits a dict of outputs and gives a metric one of them. This
    gives `SpanExactMatch` and its like the whole dicts, and writes
    `val_exact_match` and so on into the epoch's logs: they are in the
    `History`, and `EarlyStopping` or `ModelCheckpoint` later in the list can
    monitor them. It runs the model over the data itself, so give `fit` no
    `validation_data` unless the loss on it is worth another pass.

    Args:
        data: batches of `(x, y)` or `(x, y, sample_weight)`, such as a
            `tf.data.Dataset`, gone through anew after each epoch.
        metrics: list of `keras.metrics.Metric`; each is given `y`, the
            model's outputs and `sample_weight`.

    Raises:
        ValueError: if `data` is an iterator, which would be empty after the
            first epoch, or two metrics share a name.

    Example:
        >>> import numpy as np, kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_span_model(encoder)
        >>> loss = {name: kbert.losses.SpanLoss() for name in ("start", "end")}
        >>> model.compile("adam", loss=loss)
        >>> x = {name: np.ones((2, 8), "int32") for name in model.input}
        >>> y = {"start": np.array([1, 3]), "end": np.array([2, 3])}
        >>> callback = kbert.metrics.ValidationMetrics(
        ...     [(x, y)], [kbert.metrics.SpanExactMatch()]
        ... )
        >>> history = model.fit(x, y, callbacks=[callback], verbose=0)
        >>> [name for name in history.history if name.startswith("val")]
        ['val_exact_match']
    """

    def __init__(
        self, data: Iterable[Any], metrics: Sequence[keras.metrics.Metric]
    ) -> None:
        """See the class."""
        super().__init__()
        if iter(data) is data:
            raise ValueError(
                "`data` must be something to go through after each epoch. "
                f"Received: data={data!r}"
            )
        names = [metric.name for metric in metrics]
        if len(set(names)) < len(names):
            raise ValueError(f"Metrics need different names. Received: {names}")
        self.data = data
        self.metrics = list(metrics)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Run the model over the data and add to `logs`."""
        for metric in self.metrics:
            metric.reset_state()
        for batch in self.data:
            x, y, weights = keras.utils.unpack_x_y_sample_weight(
                # tf.data's tensors mean nothing to JAX and PyTorch.
                keras.tree.map_structure(np.asarray, batch)
            )
            outputs = self.model.predict_on_batch(x)
            size = len(keras.tree.flatten(x)[0])
            # Under a strategy every replica answers the whole batch.
            outputs = keras.tree.map_structure(
                lambda rows, n=size: rows[:n], outputs
            )
            for metric in self.metrics:
                metric.update_state(y, outputs, sample_weight=weights)
        if logs is not None:
            for metric in self.metrics:
                logs[f"val_{metric.name}"] = float(metric.result())
