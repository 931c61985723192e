"""The distillation losses against torch's, as DistilBERT used them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")

from kbert.losses import DistillationLoss, HiddenStateLoss  # noqa: E402


def draw(*shape):
    rng = np.random.default_rng(0)
    return rng.normal(0.0, 3.0, (2, *shape)).astype("float32")


@pytest.mark.parametrize("temperature", [1.0, 2.0, 7.5])
def test_soft_labels(temperature):
    teacher, student = draw(6, 9)
    logs = [
        torch.log_softmax(torch.tensor(x) / temperature, -1)
        for x in (student, teacher)
    ]
    theirs = torch.nn.functional.kl_div(
        *logs, reduction="batchmean", log_target=True
    )
    ours = DistillationLoss(temperature)(teacher, student)
    expected = temperature**2 * float(theirs)
    assert float(ours) == pytest.approx(expected, rel=1e-5)


def test_cosine_of_real_tokens():
    teacher, student = draw(3, 5, 8)
    mask = np.arange(5) < np.array([5, 2, 3])[:, None]
    theirs = torch.nn.CosineEmbeddingLoss()(
        torch.tensor(student[mask]),
        torch.tensor(teacher[mask]),
        torch.ones(int(mask.sum())),
    )
    ours = HiddenStateLoss("cosine")(teacher, student, mask.astype("int32"))
    assert float(ours) == pytest.approx(float(theirs), rel=1e-5)


def test_mean_square():
    teacher, student = draw(3, 5, 8)
    theirs = torch.nn.functional.mse_loss(
        torch.tensor(student), torch.tensor(teacher)
    )
    ours = HiddenStateLoss("mean_squared")(teacher, student)
    assert float(ours) == pytest.approx(float(theirs), rel=1e-5)
