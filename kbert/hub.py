"""Finding one file of a model: in a local directory or on the hub.

Downloading and caching are `huggingface_hub`'s own, so its environment
variables hold: `HF_HOME`, `HF_HUB_OFFLINE`, `HF_ENDPOINT`, `HF_TOKEN`.
"""

import os
import re
from pathlib import Path, PurePosixPath, PureWindowsPath

# The hub's own rule for the name of a repository: `name` or `org/name`.
_HUB_ID = re.compile(
    r"(?=.{1,96}$)(?!.*(--|\.\.))(?!.*\.git$)"
    r"([A-Za-z0-9_][\w.-]*(?<=\w)/)?[A-Za-z0-9_][\w.-]*(?<=\w)",
    re.ASCII,
)
# Models that come with the package: a folder each, named as their source.
_SHIPPED = Path(__file__).parent / "weights"
# `bert_model.ckpt`, or `model.ckpt-1200` after that many steps, or ALBERT's.
_CHECKPOINT = re.compile(r".*\.ckpt(-\d+|-best)?", re.ASCII)


def find_file(
    source: str | os.PathLike,
    filename: str,
    *,
    revision: str | None = None,
    required: bool = True,
) -> Path | None:
    """Returns the path of one file of a model.

    Args:
        source: A local directory, or the id of a Hugging Face model
            repository (`name` or `org/name`), or "kbert-mini", which comes
            with kbert. A directory of that name wins over both.
        filename: The file's name inside it, with `/` between folders, such as
            `"1_Pooling/config.json"`.
        revision: Branch, tag or commit on the hub; ignored for a directory.
        required: Whether a missing file is an error.

    Returns:
        The path, or None if the file does not exist and is not required.

    Raises:
        TypeError: `source` is not a path or a string.
        ValueError: `filename` leaves the directory.
        FileNotFoundError: The file is required and absent, or `source` is
            neither a directory nor a hub id.
        OSError: The hub cannot be reached, or refuses.

    Example:
        >>> import pathlib
        >>> from kbert.hub import find_file
        >>> directory = pathlib.Path("/tmp/model")
        >>> directory.mkdir(exist_ok=True)
        >>> _ = (directory / "vocab.txt").write_text("[PAD]")
        >>> find_file(directory, "vocab.txt").name
        'vocab.txt'
        >>> find_file(directory, "merges.txt", required=False)
    """
    _check_filename(filename)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            "Expected `source` to be a local directory or a Hugging Face hub "
            f"id. Received: source={source!r}"
        )
    directory = Path(source)
    # An empty string is the current directory to pathlib.
    if os.fspath(source) and directory.is_dir():
        return _find_local(directory, filename, required, source)
    # A PathLike is always meant as a path, never as a hub id.
    if not isinstance(source, str) or not _HUB_ID.fullmatch(source):
        what = "is a file" if directory.is_file() else "does not exist"
        raise FileNotFoundError(
            "Expected `source` to be an existing local directory or a Hugging "
            "Face hub id (`name` or `org/name`), and it is no hub id and "
            f"{what}. Received: source={source!r}"
        )
    if (_SHIPPED / source).is_dir():
        return _find_local(_SHIPPED / source, filename, required, source)
    return _find_on_hub(source, filename, revision, required)


def checkpoint_prefix(source: str | os.PathLike) -> Path | None:
    """Returns the TensorFlow checkpoint that `source` names, if it does.

    `dir/bert_model.ckpt` is no file and no directory but the beginning of
    file names; the model's other files lie in `dir`.

    Args:
        source: What a user gave as a model.

    Returns:
        The prefix if it is called `….ckpt`, `….ckpt-1200` or `….ckpt-best`,
        or has a file `….index`; else None.

    Example:
        >>> from kbert.hub import checkpoint_prefix
        >>> checkpoint_prefix("models/bert_model.ckpt").name
        'bert_model.ckpt'
        >>> checkpoint_prefix("google-bert/bert-base-uncased")
    """
    if not isinstance(source, (str, os.PathLike)):
        return None
    prefix = Path(source)
    if prefix.is_dir():
        return None
    # google-research/electra's published ones are called `electra_small`.
    if Path(f"{source}.index").is_file() or _CHECKPOINT.fullmatch(prefix.name):
        return prefix
    return None


def _check_filename(filename: str) -> None:
    """Refuses file names that lead out of the directory."""
    if (
        not isinstance(filename, str)
        or not filename
        or "\\" in filename
        or PurePosixPath(filename).is_absolute()
        or PureWindowsPath(filename).drive
        or ".." in PurePosixPath(filename).parts
    ):
        raise ValueError(
            "Expected `filename` to be a relative path inside the model, with "
            f"`/` between folders and no `..`. Received: filename={filename!r}"
        )


def _find_local(
    directory: Path, filename: str, required: bool, source: str | os.PathLike
) -> Path | None:
    """Looks in a directory."""
    path = directory / filename
    if path.is_file():
        return path
    if not required:
        return None
    names = sorted(entry.name for entry in directory.iterdir())
    held = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    raise FileNotFoundError(
        f"No file {filename} in the directory, which holds: "
        f"{held or 'nothing'}. Received: source={source!r}"
    )


def _find_on_hub(
    source: str, filename: str, revision: str | None, required: bool
) -> Path | None:
    """Looks on the hub, or in its cache."""
    # Imported here because it takes most of a second.
    import huggingface_hub
    from huggingface_hub import errors

    try:
        path = huggingface_hub.hf_hub_download(
            source, filename, revision=revision
        )
        return Path(path)
    # Each clause stands before the one of its base class.
    except errors.GatedRepoError as error:
        cause = error
        what = (
            "is gated: ask for access on its page, then log in with "
            "`hf auth login` or set HF_TOKEN"
        )
    except errors.RepositoryNotFoundError as error:
        cause = error
        what = (
            "was not found, nor is there a directory of that name: check the "
            "spelling; if it is private, log in with `hf auth login` or set "
            "HF_TOKEN"
        )
    except errors.RevisionNotFoundError as error:
        cause, what = error, f"has no revision {revision!r}"
    except errors.LocalEntryNotFoundError as error:
        # Without the hub, a file that the cached copy lacks counts as absent.
        if not required and _is_cached(source, revision):
            return None
        cause = error
        what = (
            f"cannot be asked for {filename}, and the cache does not hold it: "
            "check the connection, unset HF_HUB_OFFLINE, or give a local "
            "directory"
        )
    except errors.EntryNotFoundError as error:
        if not required:
            return None
        raise FileNotFoundError(
            f"The hub's repository has no file {filename}. "
            f"Received: source={source!r}, revision={revision!r}"
        ) from error
    # What the HTTP library raises is not always an OSError.
    except Exception as error:
        cause, what = error, f"could not be read ({error})"
    raise OSError(
        f"The hub's repository {what}. "
        f"Received: source={source!r}, revision={revision!r}"
    ) from cause


def _is_cached(source: str, revision: str | None) -> bool:
    """Whether the hub's cache holds a copy of that revision."""
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / (
        "models--" + source.replace("/", "--")
    )
    revision = revision or constants.DEFAULT_REVISION
    return (folder / "refs" / revision).is_file() or (
        folder / "snapshots" / revision
    ).is_dir()
