"""Whether vectors still tell texts apart."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CollapseReport:
    """What `collapse_report` found.

    Args:
        num_vectors: N.
        mean_norm: mean length of a vector.
        norm_deviation: standard deviation of the lengths.
        mean_cosine: mean cosine of all pairs of different vectors; near 1,
            all point one way.
        singular_values: float64 (min(N, D),), of the vectors less their mean,
            the largest first.
        effective_rank: how many directions they spread over, as if evenly:
            from 1, a line, to min(N - 1, D); 0 if all are one vector.
        num_directions: min(N - 1, D).

    Example:
        >>> import numpy as np, kbert
        >>> kbert.pipelines.collapse_report(-np.eye(4)).num_directions
        3
    """

    num_vectors: int
    mean_norm: float
    norm_deviation: float
    mean_cosine: float
    singular_values: np.ndarray
    effective_rank: float
    num_directions: int

    def __str__(self) -> str:
        """Return one line."""
        return (
            f"{self.num_vectors} vectors: norm {self.mean_norm:.3f} ± "
            f"{self.norm_deviation:.3f}, mean cosine {self.mean_cosine:.3f}, "
            f"effective rank {self.effective_rank:.1f} of "
            f"{self.num_directions}"
        )


def collapse_report(vectors: np.ndarray) -> CollapseReport:
    """Measure whether vectors of texts have collapsed.

    Training on similarity can end where every text gets about the same
    vector, or all vectors lie along few directions, while the loss still
    falls. Compare the report of some hundred different texts before and
    after training: a mean cosine that rises towards 1 or an effective rank
    that falls to a few is a collapse.

    Args:
        vectors: float (N, D), N at least 2, such as `pipelines.Embedder`
            returns.

    Returns:
        A `CollapseReport`; printed, it is one line.

    Raises:
        ValueError: if the shape is another, or a number is not finite.

    Example:
        >>> import numpy as np, kbert
        >>> print(kbert.pipelines.collapse_report(np.eye(4)))
        4 vectors: norm 1.000 ± 0.000, mean cosine 0.000, effective rank 3.0
        of 3

    References:
        Roy & Vetterli, 2007, "The effective rank"; Jing et al., 2021,
        https://arxiv.org/abs/2110.09348
    """
    x = np.asarray(vectors, "float64")
    if x.ndim != 2 or len(x) < 2 or not np.isfinite(x).all():
        raise ValueError(
            "Expected two or more vectors (N, D) of finite numbers. Received: "
            f"shape {x.shape}"
        )
    count = len(x)
    norms = np.linalg.norm(x, axis=1)
    unit = x / np.where(norms > 0, norms, 1)[:, None]
    # All pairs at once: the square of the sum, less each with itself.
    total = (unit.sum(axis=0) ** 2).sum() - (unit**2).sum()
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
    # What rounding leaves of vectors that are all one.
    noise = np.finfo("float64").eps * max(x.shape) * norms.max()
    values = np.where(values > noise, values, 0.0)
    rank = 0.0
    if values.any():
        shares = values[values > 0] / values.sum()
        rank = float(np.exp(-(shares * np.log(shares)).sum()))
    return CollapseReport(
        num_vectors=count,
        mean_norm=float(norms.mean()),
        norm_deviation=float(norms.std()),
        mean_cosine=float(total / (count * (count - 1))),
        singular_values=values,
        effective_rank=rank,
        num_directions=min(count - 1, x.shape[1]),
    )
