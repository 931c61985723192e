"""Files that hold two encoders trained together, as ELECTRA's do.

A generator and a discriminator differ in size and share their embeddings,
which such a file has once: google-research/electra keeps all of it under
`electra/` and `generator/`, PyTorch code under `discriminator.` and
`generator.` or the like. A head belongs to one of the two, and the names of
that one are made those of a file without the other.
"""

import re
from collections.abc import Iterable, Mapping

from kbert.checkpoints import mapping
from kbert.checkpoints.tables import Table
from kbert.config import EncoderConfig


def role_of(table: Table, head: str) -> str:
    """Return the name of the encoder that a head belongs to, or ""."""
    return table.roles.get(head, table.roles.get("", ""))


def encoder_names(
    names: Iterable[str], table: Table, head: str
) -> tuple[dict[str, str], bool]:
    """Find the encoder that a head belongs to.

    Args:
        names: names in the file.
        table: of the file's format.
        head: name of the head, as in the table; "" for none.

    Returns:
        Name as the rows have it → name in the file, as `canonical_names`;
        what is the other encoder's alone has names that no row has. And
        whether there is another.

    Raises:
        ValueError: as `canonical_names`, or if there are several encoders
            that their names do not tell apart.
    """
    names = list(names)
    scopes = _scopes(names, table) if table.roles else []
    if len(scopes) < 2:
        return _canonical(names, table), False
    role = role_of(table, head)
    ours = [x for x in scopes if _role_of_scope(x, table) == role]
    if len(scopes) > 2 or len(ours) != 1:
        raise ValueError(
            "Expected one encoder, or two that their names tell apart as "
            f"{' and '.join(table.roles.values())}. Received: encoders below "
            f"{scopes}"
        )
    whole = ours[0]
    kept, others = {}, {}
    for name in names:
        # One scope may lie inside the other.
        inside = [scope for scope in scopes if name.startswith(scope)]
        scope = max(inside, key=len, default=whole)
        if scope == whole:
            kept[name] = name
        else:
            others[name.removeprefix(scope)] = name
    for short in list(others):
        if re.match(r"embeddings\b", short) and whole + short not in kept:
            kept[whole + short] = others.pop(short)
    found = _canonical(kept, table)
    found = {short: kept[name] for short, name in found.items()}
    return found | {f"other/{name}": name for name in others.values()}, True


def _canonical(names: Iterable[str], table: Table) -> dict[str, str]:
    return mapping.canonical_names(
        names, table.prefix, table.anchor, table.aliases
    )


def _scopes(names: list[str], table: Table) -> list[str]:
    """What stands before the names of each encoder's blocks."""
    pattern = re.compile(rf"((?:.*?[./])?){_block(table)}\d")
    return sorted({m[1] for name in names if (m := pattern.match(name))})


def _block(table: Table) -> str:
    """A regular expression of what stands before a block's number."""
    tensor = next(r.tensor for r in table.encoder if "{i}" in r.variable)
    return re.escape(tensor[: tensor.index("{i}")])


def _role_of_scope(scope: str, table: Table) -> str:
    """The role that a part of the scope begins with, or that of no head."""
    for role in table.roles.values():
        if re.search(rf"(^|[./]){role}", scope):
            return role
    return table.roles[""]


def told_sizes(
    table: Table,
    names: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, int]:
    """Read an encoder's sizes off its tensors.

    Args:
        table: of the file's format.
        names: canonical name → name in the file.
        shapes: name in the file → shape.

    Returns:
        Field of `EncoderConfig` → value, without those whose tensors are
        absent. `embedding_size` is the tables' width, projected or not.
    """
    rows = {row.variable: row for row in table.encoder}
    pattern = re.compile(rf"{_block(table)}(\d+)")
    layers = {m[1] for name in names if (m := pattern.match(name))}

    def sides(variable: str) -> tuple[int | None, ...]:
        row = rows[variable]
        for i in sorted(layers):  # a tensor may be absent from one
            shape = shapes.get(names.get(row.tensor.format(i=i), ""), ())
            if len(shape) == 2:
                return shape[::-1] if row.transpose else shape
        return (None, None)

    vocab_size, embedding_size = sides("embedding/token/embeddings")
    hidden_size, intermediate_size = sides(
        "encoder_block_{i}/intermediate/kernel"
    )
    told = {
        "vocab_size": vocab_size,
        "embedding_size": embedding_size,
        "hidden_size": hidden_size,
        "num_layers": len(layers) or None,
        "intermediate_size": intermediate_size,
        "max_positions": sides("embedding/position/embeddings")[0],
        "num_segments": sides("embedding/segment/embeddings")[0],
    }
    return {field: size for field, size in told.items() if size is not None}


def check_sizes(
    config: EncoderConfig,
    told: Mapping[str, int],
    role: str,
    config_name: str,
    location: str,
) -> None:
    """Refuse the config of one encoder where the other is asked for.

    Args:
        config: what the config beside the file says.
        told: what the tensors say, of `told_sizes`.
        role: name of the encoder asked for.
        config_name: of the file that should have its sizes.
        location: of the file.

    Raises:
        ValueError: if they differ.
    """
    said = {field: getattr(config, field) for field in told}
    if said.get("embedding_size", 0) is None:
        said["embedding_size"] = config.hidden_size
    wrong = [
        f"{field}={said[field]}, in the tensors {told[field]}"
        for field in told
        if said[field] != told[field]
    ]
    if wrong:
        raise ValueError(
            f"The file holds two encoders, and its config is not the {role}'s: "
            f"it says {'; '.join(wrong)}. Put a {config_name} with the "
            f"{role}'s sizes beside the file. Received: {location}"
        )
