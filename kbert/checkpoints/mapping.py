"""The engine: moves tensors between a checkpoint and a model's variables.

What a checkpoint calls a tensor is data (`tables.py`); how a file is read
is `readers.py`. This module pairs the two with the variable paths of a
model, in both directions, and accounts for every name on either side.
"""

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from kbert.checkpoints.memory import to_tensors


@dataclasses.dataclass(frozen=True)
class Row:
    """One tensor of a checkpoint and the variable it fills.

    Args:
        tensor: name in the checkpoint, with placeholders as in `expand`.
        variable: path of the variable; `{i}` stands for a block's number.
        transpose: whether the last two axes trade places (a torch `Linear`
            keeps (out, in), a Keras kernel (in, out)).
        reshape: whether both sides hold the same numbers in the same order
            in different shapes (KerasHub keeps an axis for the heads).
        part: (number, count) where the tensor is that many variables of one
            size, one after the other along its first axis (ModernBERT keeps
            query, key and value in one).
    """

    tensor: str
    variable: str
    transpose: bool = False
    reshape: bool = False
    part: tuple[int, int] | None = None

    def cut(self, array: np.ndarray) -> np.ndarray:
        """Take the variable's part of the tensor."""
        if self.part is None:
            return array
        number, count = self.part
        size = len(array) // count
        return array[number * size : (number + 1) * size]

    def convert(self, array: np.ndarray) -> np.ndarray:
        """Turn one side's array into the other's; its own inverse."""
        return array.T if self.transpose else array


class TensorSource(Protocol):
    """What the engine asks of a file reader."""

    location: str

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return name → shape of every tensor, without reading any."""
        ...

    def is_float(self, name: str) -> bool:
        """Return whether a tensor holds floating-point numbers."""
        ...

    def read(self, name: str) -> np.ndarray:
        """Return one tensor, perhaps a view of the file; nothing keeps it."""
        ...


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What became of every tensor of a checkpoint.

    Attributes:
        source: where the checkpoint lies.
        loaded: names of tensors that went into variables.
        missing: paths of variables that stayed fresh because the caller
            asked for it; anything else missing is an error.
        unused: names of tensors that nothing in the model takes.
        ignored_config_keys: keys of the config without meaning for kbert.
        ignored: names of tensors that hold no weights, such as the state of
            an optimiser.
    """

    source: str
    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    ignored_config_keys: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line with counts, and names where there are few."""
        parts = [f"{len(self.loaded)} tensors loaded"]
        if self.missing:
            parts.append(f"left fresh: {_listed(self.missing)}")
        if self.unused:
            parts.append(f"unused: {_listed(self.unused)}")
        if self.ignored:
            parts.append(f"no weights: {_listed(self.ignored)}")
        return f"{self.source}: " + "; ".join(parts)


def _listed(names: Iterable[str], most: int = 8) -> str:
    names = list(names)
    shown = ", ".join(names[:most])
    more = len(names) - most
    return f"{len(names)} ({shown}{f', and {more} more' if more > 0 else ''})"


def expand(
    rows: Iterable[Row], num_blocks: int, layers_per_group: int = 1
) -> list[Row]:
    """Write out the rows of every block.

    Args:
        rows: rows with `{i}` in the variable for the block's number; in the
            tensor `{i}` too, or `{g}` and `{j}` for its group and its place
            in the group.
        num_blocks: number of different blocks.
        layers_per_group: blocks in a group.

    Returns:
        Rows without placeholders.
    """
    expanded = []
    for row in rows:
        if "{i}" not in row.variable:
            expanded.append(row)
            continue
        for i in range(num_blocks):
            g, j = divmod(i, layers_per_group)
            expanded.append(
                dataclasses.replace(
                    row,
                    tensor=row.tensor.format(i=i, g=g, j=j),
                    variable=row.variable.format(i=i),
                )
            )
    return expanded


def canonical_names(
    names: Iterable[str],
    prefix: str,
    anchor: str,
    aliases: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Undo what files add to the names of a table.

    A file may put `prefix` before the encoder's names (every task model
    does), and anything at all before both (a wrapper's `model.`); old ones
    say `gamma` and `beta` where the rows say `weight` and `bias`.

    Args:
        names: names in the file.
        prefix: the table's prefix of encoder names in task models.
        anchor: the table's name of an encoder tensor every file has.
        aliases: starts of names in some files → what the table has instead.

    Returns:
        Name as the rows have it → name in the file.

    Raises:
        ValueError: if the anchor is absent or appears more than once, or
            two names become one.
    """
    names = list(names)
    anchors = [
        name
        for name in names
        if name == anchor or name.endswith((f".{anchor}", f"/{anchor}"))
    ]
    if len(anchors) != 1:
        raise ValueError(
            f"Expected one tensor named {anchor!r}, with any prefix, to tell "
            f"where the encoder is. Received: {anchors or _listed(names)}"
        )
    whole = anchors[0][: -len(anchor)]
    outer = whole[: -len(prefix)] if whole.endswith(prefix) else whole
    canonical: dict[str, str] = {}
    for name in names:
        short = name.removeprefix(whole)
        if short == name:
            short = name.removeprefix(outer)
        short = re.sub(r"\bLayerNorm\.gamma$", "LayerNorm.weight", short)
        short = re.sub(r"\bLayerNorm\.beta$", "LayerNorm.bias", short)
        for alias, start in (aliases or {}).items():
            if short.startswith(alias):
                short = start + short.removeprefix(alias)
        if short in canonical:
            raise ValueError(
                "Two tensors of the checkpoint mean the same. Received: "
                f"{canonical[short]!r} and {name!r}"
            )
        canonical[short] = name
    return canonical


def weight_variables(model) -> dict[str, Any]:
    """Return path → variable of a model, without random-seed states."""
    return {
        variable.path: variable
        for variable in model.variables
        if not variable.path.endswith("seed_generator_state")
    }


def load_tensors(
    model,
    source: TensorSource,
    rows: Iterable[Row],
    names: Mapping[str, str],
    *,
    fresh: Iterable[str] = (),
    ignored: Iterable[str] = (),
    encoder: str = "",
) -> LoadReport:
    """Fill a model's variables from a checkpoint.

    Args:
        model: a Keras model.
        source: an open checkpoint.
        rows: expanded rows that may apply.
        names: canonical name (as in the rows) → name in the file.
        fresh: prefixes of variable paths that are to stay as they are.
        ignored: regular expressions of canonical names that hold no weight.
        encoder: a regular expression of canonical names that a model must
            take: what is left over of an encoder means that the config
            describes another one. Empty for none.

    Returns:
        The report; `model` is changed in place.

    Raises:
        ValueError: before any variable changes, if one has no row or no
            tensor, a tensor of the encoder is left over, or a shape or kind
            of number differs.
    """
    variables = weight_variables(model)
    row_of = {row.variable: row for row in rows}
    fresh = tuple(fresh)
    kept = [path for path in variables if fresh and path.startswith(fresh)]
    wanted = {p: v for p, v in variables.items() if p not in set(kept)}
    patterns = [re.compile(pattern) for pattern in ignored]
    taken = {row_of[path].tensor for path in wanted if path in row_of}
    rest = [name for name in names if name not in taken]
    no_weights = [n for n in rest if any(p.fullmatch(n) for p in patterns)]
    unused = [name for name in rest if name not in set(no_weights)]
    _check_complete(source, wanted, row_of, names, unused)
    left_over = [n for n in unused if encoder and re.match(encoder, n)]
    if left_over:
        raise ValueError(
            "The checkpoint's encoder has more weights than its config "
            f"describes; nothing was loaded. Left over: {_listed(left_over)}. "
            f"Received: {source.location}"
        )
    _check_shapes(source, wanted, row_of, names)
    arrays = (
        _array(source.read(names[row_of[path].tensor]), row_of[path], variable)
        for path, variable in wanted.items()
    )
    tensors = to_tensors(arrays)
    for variable, tensor in zip(wanted.values(), tensors, strict=True):
        variable.assign(tensor)
    return LoadReport(
        source=source.location,
        loaded=tuple(
            dict.fromkeys(names[row_of[path].tensor] for path in wanted)
        ),
        missing=tuple(kept),
        unused=tuple(names[name] for name in unused),
        ignored=tuple(names[name] for name in no_weights),
    )


def _array(array: np.ndarray, row: Row, variable) -> np.ndarray:
    """A tensor's numbers as the variable has them, in the file's dtype."""
    array = row.convert(row.cut(array))
    return array.reshape(variable.shape) if row.reshape else array


def _check_complete(source, wanted, row_of, names, unused) -> None:
    missing = [
        f"{path} (from {row_of[path].tensor})" if path in row_of else path
        for path in wanted
        if path not in row_of or row_of[path].tensor not in names
    ]
    if missing:
        raise ValueError(
            "The checkpoint lacks weights that the model needs; nothing was "
            f"loaded. Missing: {_listed(missing)}. Unused in the file: "
            f"{_listed(unused)}. Received: {source.location}"
        )


def _check_shapes(source, wanted, row_of, names) -> None:
    shapes = source.shapes()
    wrong = []
    for path, variable in wanted.items():
        row = row_of[path]
        given = tuple(shapes[names[row.tensor]])
        expected = tuple(variable.shape)
        if row.transpose:
            expected = expected[::-1]
        if row.part is not None:
            expected = (row.part[1] * expected[0], *expected[1:])
        fits = given == expected
        if row.reshape:
            fits = math.prod(given) == math.prod(expected)
        if not fits:
            wrong.append(
                f"{names[row.tensor]} has shape {given}, but {path} needs "
                f"{expected}"
            )
        elif not source.is_float(names[row.tensor]):
            wrong.append(f"{names[row.tensor]} holds no floats")
    if wrong:
        raise ValueError(
            "Tensors differ from the model's; nothing was loaded: "
            f"{'; '.join(wrong[:8])}. Received: {source.location}"
        )


def collect_tensors(model, rows: Iterable[Row]) -> dict[str, np.ndarray]:
    """Gather a model's weights under a checkpoint's names.

    Args:
        model: a Keras model.
        rows: expanded rows that may apply.

    Returns:
        Tensor name → C-contiguous array, in the variable's dtype.

    Raises:
        ValueError: if a variable has no row: it would be lost.
    """
    row_of = {row.variable: row for row in rows}
    parts: dict[str, dict[int, np.ndarray]] = {}
    homeless = []
    for path, variable in weight_variables(model).items():
        if path not in row_of:
            homeless.append(path)
            continue
        row = row_of[path]
        number = row.part[0] if row.part else 0
        array = row.convert(variable.numpy())
        parts.setdefault(row.tensor, {})[number] = array
    if homeless:
        raise ValueError(
            "This checkpoint format has no place for some of the model's "
            f"variables. Received: {_listed(homeless)}"
        )
    return {
        tensor: np.ascontiguousarray(
            found[0]
            if len(found) == 1
            else np.concatenate([found[i] for i in range(len(found))])
        )
        for tensor, found in parts.items()
    }
