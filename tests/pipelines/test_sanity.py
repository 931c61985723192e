"""The collapse report against vectors whose answer is known."""

import numpy as np
import pytest

from kbert.pipelines import collapse_report


def test_pairs_and_norms_by_hand():
    x = np.random.default_rng(0).normal(size=(40, 6)) + 0.5
    report = collapse_report(x.astype("float32"))
    norms = np.linalg.norm(x, axis=1)
    cosines = (x @ x.T) / norms[:, None] / norms
    pairs = cosines[~np.eye(40, dtype=bool)]
    assert abs(report.mean_cosine - pairs.mean()) < 1e-6
    assert abs(report.mean_norm - norms.mean()) < 1e-5
    assert abs(report.norm_deviation - norms.std()) < 1e-5
    covariance = np.cov(x, rowvar=False) * 39
    np.testing.assert_allclose(
        report.singular_values**2,
        np.linalg.eigvalsh(covariance)[::-1],
        rtol=1e-5,
    )


def test_rank_counts_directions():
    corners = np.concatenate([np.eye(5), -np.eye(5)])
    assert abs(collapse_report(corners).effective_rank - 5) < 1e-9
    line = np.outer(np.arange(9.0), [1.0, 2.0, 3.0]) + 7
    report = collapse_report(line)
    assert abs(report.effective_rank - 1) < 1e-9
    assert report.num_directions == 3


def test_one_vector_for_all():
    """Also where rounding makes the copies differ from their mean."""
    report = collapse_report(np.full((7, 5), 0.1))
    assert report.effective_rank == 0.0
    assert abs(report.mean_cosine - 1) < 1e-12
    zeros = collapse_report(np.zeros((3, 2)))
    assert (zeros.mean_cosine, zeros.effective_rank) == (0.0, 0.0)


@pytest.mark.parametrize(
    "vectors", [np.ones(3), np.ones((1, 3)), [[1.0, np.nan], [0.0, 1.0]]]
)
def test_bad_vectors(vectors):
    with pytest.raises(ValueError, match="Received: "):
        collapse_report(vectors)
