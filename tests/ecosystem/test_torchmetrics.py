"""Metrics live on the device and give the CPU's numbers."""

import pytest
import torch
import torchmetrics
from torchmetrics import classification, regression

CLASSES = 4


def labels(generator):
    scores = torch.randn(64, CLASSES, generator=generator).softmax(1)
    return scores, torch.randint(CLASSES, (64,), generator=generator)


def numbers(generator):
    return torch.randn(64, generator=generator), torch.randn(64, generator=generator)


METRICS = {
    "accuracy": (lambda: classification.MulticlassAccuracy(CLASSES), labels),
    "f1": (lambda: classification.MulticlassF1Score(CLASSES), labels),
    "auroc": (lambda: classification.MulticlassAUROC(CLASSES), labels),
    "confusion": (lambda: classification.MulticlassConfusionMatrix(CLASSES), labels),
    "calibration": (lambda: classification.MulticlassCalibrationError(CLASSES), labels),
    "mse": (regression.MeanSquaredError, numbers),
    "pearson": (regression.PearsonCorrCoef, numbers),
    "spearman": (regression.SpearmanCorrCoef, numbers),
    "r2": (regression.R2Score, numbers),
}


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_gives_the_cpus_number(name):
    make, draw = METRICS[name]
    generator = torch.Generator().manual_seed(0)
    ours, host = make().to("openreg"), make()
    for _ in range(3):
        prediction, truth = draw(generator)
        ours.update(prediction.to("openreg"), truth.to("openreg"))
        host.update(prediction, truth)
    result = ours.compute()
    assert result.device.type == "openreg"
    torch.testing.assert_close(result.cpu(), host.compute())


def test_a_collection_moves_and_starts_again():
    made = torchmetrics.MetricCollection(
        [classification.MulticlassAccuracy(CLASSES), torchmetrics.MeanMetric()],
        compute_groups=False,
    ).to("openreg:1")
    made["MeanMetric"].update(torch.ones(3, device="openreg:1"))
    assert made["MeanMetric"].compute().item() == 1
    made.reset()
    assert str(made["MeanMetric"].device) == "openreg:1"
