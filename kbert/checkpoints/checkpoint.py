"""An opened checkpoint: its config, its names and its tensors."""

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kbert.checkpoints import (
    mapping,
    readers,
    tables,
    tf_checkpoint,
    tf_tables,
    translate,
    two_encoders,
)
from kbert.checkpoints.dialects import DIALECTS
from kbert.checkpoints.mapping import LoadReport, Row
from kbert.config import EncoderConfig

_LOGGER = logging.getLogger("kbert")


class Checkpoint:
    """What a loader asks of a checkpoint.

    Args:
        source: hub id, directory, or prefix of a TensorFlow checkpoint.
        revision: branch, tag or commit on the hub.
        head: which head's encoder is meant, in a file that holds two.
        folder: the folder of a Hugging Face source that it lies in.

    Raises:
        FileNotFoundError: if the source or a file of it does not exist.
        ValueError: if a file is damaged or the config is not of an encoder
            that kbert builds, or of the other one in the file.
    """

    def __init__(
        self,
        source: str | os.PathLike,
        revision: str | None = None,
        head: str = "",
        folder: str = "",
    ):
        """See the class."""
        prefix = tf_checkpoint.find_prefix(source)
        self.tensors: mapping.TensorSource
        if prefix is not None:
            self.tensors = tf_checkpoint.TensorFlowReader(prefix)
            # Only ELECTRA's names tell more than a config beside them does.
            has_sizes = tf_tables.is_electra(self.tensors.shapes())
            config = {} if has_sizes else tf_checkpoint.read_config(prefix)
            self.table = tf_tables.TF_TABLES[
                config.get("model_type", "electra")
            ]
        else:
            config = readers.read_config(source, revision, folder)
            self.table = tables.TABLES[translate.family_of(config)]
            self.tensors = readers.open_tensors(source, revision, folder)
        self.names, has_two = two_encoders.encoder_names(
            self.tensors.shapes(), self.table, head
        )
        role = two_encoders.role_of(self.table, head)
        if prefix is not None and not config:
            config = self._told_config(prefix, role)
        self.config = translate.config_from_hf(config)
        if has_two:
            two_encoders.check_sizes(
                self.config.encoder,
                self._told_sizes(),
                role,
                f"{role}_config.json" if prefix else "config.json",
                self.tensors.location,
            )

    def _told_sizes(self) -> dict[str, int]:
        return two_encoders.told_sizes(
            self.table, self.names, self.tensors.shapes()
        )

    def _told_config(self, prefix: Path, role: str) -> dict[str, Any]:
        """What tensors tell, and a config beside them if there is one."""
        family, told = "electra", self._told_sizes()
        size = self.table.head_size
        assert size is not None  # or tensors would not tell
        width = told.get("hidden_size", 0)
        if width <= size or width % size == 0:
            told["num_heads"] = max(1, width // size)
        config: dict[str, Any] = {
            key: told[field]
            for key, (field, _) in DIALECTS[family].fields.items()
            if field in told
        }
        path = tf_checkpoint.find_config(prefix, family, role)
        if path is None:
            _LOGGER.warning(
                "%s: no config beside it; its tensors, and heads of width %d, "
                "say: %s",
                prefix,
                size,
                config,
            )
        else:
            config |= readers.read_json(path)
        if "num_attention_heads" not in config:
            raise ValueError(
                f"Heads of width {size} do not fill the hidden size: give "
                "`num_attention_heads` in a config beside the checkpoint. "
                f"Received: hidden_size={width}, {path or prefix}"
            )
        if config.setdefault("model_type", family) != family:
            raise ValueError(
                f"The tensors have the names of family {family!r}. Received: "
                f"model_type={config['model_type']!r} in {path}"
            )
        return config

    def shape_of(self, variable: str) -> tuple[int, ...] | None:
        """Shape the file gives a variable, None where it is absent."""
        row = self.row_of(variable)
        if row is None or row.tensor not in self.names:
            return None
        shape = self.tensors.shapes()[self.names[row.tensor]]
        return shape[::-1] if row.transpose else shape

    def row_of(self, variable: str) -> Row | None:
        """The row of a variable outside the blocks, None if it has none."""
        for rows in (self.table.encoder, *self.table.heads.values()):
            for row in rows:
                if row.variable == variable:
                    return row
        return None

    def encoder_config(
        self, hidden_dropout: float | None, attention_dropout: float | None
    ) -> EncoderConfig:
        """The config, with what the caller and the file say of it."""
        config = replace(
            self.config.encoder,
            has_pooler=self.shape_of("pooler/dense/kernel") is not None,
        )
        if hidden_dropout is not None:
            config = replace(config, hidden_dropout=hidden_dropout)
        if attention_dropout is not None:
            config = replace(config, attention_dropout=attention_dropout)
        return config

    def head_dropout(self, head: str) -> float | None:
        """Dropout that the config gives a head of its own, None for none."""
        dialect = DIALECTS[self.config.encoder.family]
        if head not in dialect.head_dropout_of:
            return None
        return self.config.classifier_dropout

    def fill(
        self, model, heads: Sequence[str] = (), fresh: Sequence[str] = ()
    ) -> LoadReport:
        """Fill a model's variables and log what happened.

        Args:
            model: a Keras model of kbert's builders.
            heads: names of its heads, as in the table.
            fresh: prefixes of variable paths that are to stay as they are.

        Returns:
            The report.

        Raises:
            ValueError: as `mapping.load_tensors`, or if a tensor that should
                repeat another (a tied decoder) differs from it.
        """
        tied = self._tied_names(heads)
        report = mapping.load_tensors(
            model,
            self.tensors,
            head_rows(self.table, heads, self.config.encoder),
            self.names,
            fresh=fresh,
            ignored=(*self.table.ignored, *tied),
            encoder=self.table.required,
        )
        report = replace(report, ignored_config_keys=self.config.unknown_keys)
        _LOGGER.info("%s", report)
        if report.ignored_config_keys:
            _LOGGER.warning(
                "%s: config.json has keys without meaning for kbert: %s",
                report.source,
                ", ".join(report.ignored_config_keys),
            )
        return report

    def _tied_names(self, heads: Sequence[str]) -> list[str]:
        """Check the tensors that repeat another; return their patterns."""
        if "mlm" not in heads:
            return []
        for name, original in self.table.tied.items():
            if name not in self.names or original not in self.names:
                continue
            if not np.array_equal(
                self.tensors.read(self.names[name]),
                self.tensors.read(self.names[original]),
            ):
                raise ValueError(
                    "kbert ties the vocabulary projection to the embeddings, "
                    f"but {self.names[name]} differs from "
                    f"{self.names[original]}. Received: {self.tensors.location}"
                )
        return [re.escape(name) for name in self.table.tied]


def head_rows(
    table: tables.Table,
    heads: Sequence[str],
    config: EncoderConfig,
    prefix: str = "",
) -> list[Row]:
    """Expanded rows of an encoder and heads.

    Args:
        table: of the family.
        heads: names of heads, as in the table.
        config: of the encoder.
        prefix: what goes before the encoder's tensor names.

    Returns:
        Rows without placeholders.
    """
    rows = [replace(row, tensor=prefix + row.tensor) for row in table.encoder]
    for head in heads:
        rows += table.heads.get(head, ())  # without a row, it is fresh
    return mapping.expand(rows, config.num_blocks, config.layers_per_group)
