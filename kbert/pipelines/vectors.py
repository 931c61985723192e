"""What is done to vectors of texts: shortened, quantised, compared."""

import ml_dtypes
import numpy as np

# Name of the numbers a vector is kept in → their numpy dtype.
DTYPES = {
    "float32": np.dtype("float32"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "int8": np.dtype("int8"),
    "uint8": np.dtype("uint8"),
    "binary": np.dtype("int8"),
    "ubinary": np.dtype("uint8"),
}
# Rows whose differences from all others are held in memory at once.
_ROWS = 16


def quantize(
    vectors: np.ndarray, dtype: str, ranges: np.ndarray | None = None
) -> np.ndarray:
    """Turn float vectors into smaller numbers.

    Args:
        vectors: float (N, D).
        dtype: what to keep of each component:

            - "float32", "bfloat16": the number, rounded.
            - "int8", "uint8": in which of 256 equal steps of its range it
              lies, counted from -128 or 0; outside, the nearest one.
            - "binary", "ubinary": whether it is above 0, eight components in
              a byte, the first in the highest bit; "binary" is 128 less.
        ranges: float (2, D), for "int8" and "uint8": the smallest and the
            largest value of each component, `np.stack([x.min(0), x.max(0)])`
            of vectors of typical texts. Vectors that are to be compared need
            the same ones. None for those of `vectors`.

    Returns:
        (N, D), or (N, ⌈D / 8⌉) for "binary" and "ubinary".

    Raises:
        ValueError: if `dtype` is unknown, `vectors` has another shape, or
            `ranges` is needed or does not fit.

    Example:
        >>> import numpy as np, kbert
        >>> vectors = np.array([[255.0, -255.0], [0.0, 255.0]], "float32")
        >>> kbert.pipelines.quantize(vectors, "ubinary").tolist()
        [[128], [64]]
        >>> kbert.pipelines.quantize(vectors, "int8").tolist()
        [[127, -128], [-128, 127]]

    References:
        `quantize_embeddings` in huggingface/sentence-transformers
    """
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or vectors.dtype.kind in "biu":
        raise ValueError(
            "Expected float vectors (N, D). Received: "
            f"{vectors.dtype} {vectors.shape}"
        )
    check_dtype(dtype)
    if dtype in ("float32", "bfloat16"):
        return vectors.astype(DTYPES[dtype])
    if dtype in ("binary", "ubinary"):
        bits = np.packbits(vectors > 0, axis=-1)
        return bits if dtype == "ubinary" else (bits ^ 128).view("int8")
    if not len(vectors):
        return np.zeros(vectors.shape, DTYPES[dtype])
    if ranges is None:
        if len(vectors) < 2:
            raise ValueError(
                f"One vector tells no ranges: give `ranges` for {dtype}. "
                "Received: ranges=None"
            )
        ranges = np.stack([vectors.min(axis=0), vectors.max(axis=0)])
    low, high = check_ranges(ranges, vectors.shape[1])
    step = (high - low) / np.float32(255)
    # A component that never changes.
    step = np.where(step == 0, 1, step)
    steps = np.clip(np.floor((vectors - low) / step), 0, 255)
    return (steps - 128 * (dtype == "int8")).astype(DTYPES[dtype])


def check_dtype(dtype: str) -> None:
    """Refuse a dtype that vectors are not kept in."""
    if dtype not in DTYPES:
        raise ValueError(
            f"`dtype` must be one of {list(DTYPES)}. Received: dtype={dtype!r}"
        )


def check_ranges(ranges: np.ndarray, width: int) -> np.ndarray:
    """Return ranges as float32 (2, D).

    Raises:
        ValueError: if they have another shape, or a largest value is under
            the smallest or not finite.
    """
    found = np.asarray(ranges, "float32")
    if found.shape != (2, width):
        raise ValueError(
            f"`ranges` must have shape (2, {width}). Received: shape "
            f"{found.shape}"
        )
    if not (np.isfinite(found).all() and (found[0] <= found[1]).all()):
        raise ValueError(
            "`ranges` must be finite, the smallest values first. Received: "
            f"ranges={ranges!r}"
        )
    return found


def shorten(
    vectors: np.ndarray, dimensions: int, is_normalized: bool
) -> np.ndarray:
    """Return the first components, float32 (N, dimensions).

    Args:
        vectors: float32 (N, D).
        dimensions: how many.
        is_normalized: whether to give vectors length 1 again.
    """
    vectors = vectors[:, :dimensions]
    return unit(vectors) if is_normalized else vectors


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of length 1; zero vectors stay 0."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def similarity(a: np.ndarray, b: np.ndarray, name: str) -> np.ndarray:
    """Compare every vector of one array with every one of another.

    Args:
        a: (N, D).
        b: (M, D).
        name: "cosine", "dot", or "euclidean" or "manhattan", which are
            distances times -1.

    Returns:
        float32 (N, M), larger for what is more alike.

    Raises:
        ValueError: if the shapes do not fit, or bits are packed.
    """
    a, b = np.atleast_2d(a), np.atleast_2d(b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(
            "Expected vectors (N, D) and (M, D). Received: shapes "
            f"{a.shape} and {b.shape}"
        )
    for vectors in (a, b):
        if vectors.dtype.kind in "iub":
            raise ValueError(
                "Expected vectors of floats: steps and bits have a "
                f"similarity of their own. Received: {vectors.dtype}"
            )
    a, b = a.astype("float32"), b.astype("float32")
    if name == "cosine":
        return unit(a) @ unit(b).T
    if name == "dot":
        return a @ b.T
    result = np.zeros((len(a), len(b)), "float32")
    for start in range(0, len(a), _ROWS):
        gap = np.abs(a[start : start + _ROWS, None] - b[None])
        if name == "manhattan":
            result[start : start + _ROWS] = -gap.sum(axis=2)
        else:
            result[start : start + _ROWS] = -np.linalg.norm(gap, axis=2)
    return result
