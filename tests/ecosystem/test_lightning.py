"""Lightning, with the accelerator that the package ships."""

import lightning
import pytest
import torch
import torchmetrics
from lightning.fabric.strategies import SingleDeviceStrategy as FabricStrategy
from lightning.pytorch.plugins import MixedPrecision
from lightning.pytorch.strategies import SingleDeviceStrategy
from problem import CLASSES, computed_in, loader, network
from torch import nn

from torch_openreg.integrations import OpenRegAccelerator


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = network()
        self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=CLASSES)
        self.losses: list[float] = []

    def training_step(self, batch, index):
        points, labels = batch
        loss = nn.functional.cross_entropy(self.network(points), labels)
        self.losses.append(loss.item())
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        points, labels = batch
        self.accuracy(self.network(points), labels)
        self.log("accuracy", self.accuracy)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def trainer(folder, **options) -> lightning.Trainer:
    return lightning.Trainer(
        max_epochs=3,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **options,
    )


@pytest.fixture(scope="module")
def on_host(tmp_path_factory) -> tuple[lightning.Trainer, Classifier]:
    made = trainer(tmp_path_factory.mktemp("host"), accelerator="cpu")
    model = Classifier()
    made.fit(model, loader(), loader())
    return made, model


@pytest.mark.parametrize("device", ["openreg:0", "openreg:1"])
@pytest.mark.parametrize("name", [False, True])
def test_training_gives_the_cpus_losses(tmp_path, on_host, device, name):
    made = trainer(
        tmp_path,
        accelerator="openreg" if name else OpenRegAccelerator(),
        strategy=SingleDeviceStrategy(device),
    )
    model = Classifier()
    made.fit(model, loader(), loader())
    assert str(made.strategy.root_device) == device
    theirs, host_model = on_host
    assert model.losses == pytest.approx(host_model.losses, rel=1e-6)
    assert made.callback_metrics["accuracy"] == theirs.callback_metrics["accuracy"]

    path = made.checkpoint_callback.best_model_path
    loaded = Classifier.load_from_checkpoint(path)
    for ours, trained in zip(loaded.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours.cpu(), trained.cpu())


def test_without_a_strategy_the_error_says_which_one(tmp_path):
    made = trainer(tmp_path, accelerator=OpenRegAccelerator(), devices=1)
    with pytest.raises(
        ValueError, match=r"strategy=SingleDeviceStrategy\('openreg:0'\)"
    ):
        made.fit(Classifier(), loader())


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (2, "devices=2 asks for 2 devices"),
        ("0,1", "devices='0,1' asks for 2 devices"),
        ([9], "there is no device openreg:9"),
        ("one", "devices='one' names no openreg devices"),
    ],
)
def test_devices_that_cannot_be_are_refused(tmp_path, devices, message):
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, accelerator="openreg", devices=devices)


def test_devices_are_parsed_as_lightnings():
    parse = OpenRegAccelerator.parse_devices
    assert parse(1) == parse("1") == parse([0]) == [0]
    assert parse([1]) == parse("1,") == [1]
    assert OpenRegAccelerator.auto_device_count() == 1
    assert "allocated_bytes.all.current" in OpenRegAccelerator().get_device_stats(0)


def test_fabric_trains_on_the_device():
    def train(**options) -> list[float]:
        fabric = lightning.Fabric(**options)
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = fabric.setup(model, optimizer)
        losses = []
        for points, labels in fabric.setup_dataloaders(loader()):
            loss = nn.functional.cross_entropy(model(points), labels)
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    ours = train(accelerator=OpenRegAccelerator(), strategy=FabricStrategy("openreg:1"))
    assert ours == pytest.approx(train(accelerator="cpu"), rel=1e-6)


PRECISIONS = {"16-mixed": torch.float16, "bf16-mixed": torch.bfloat16}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_mixed_precision_is_the_devices(tmp_path, on_host, precision):
    made = trainer(
        tmp_path,
        accelerator="openreg",
        strategy=SingleDeviceStrategy("openreg:0"),
        plugins=[MixedPrecision(precision, device="openreg")],
    )
    model = Classifier()
    dtypes = computed_in(model)
    made.fit(model, loader(), loader())
    assert dtypes == {PRECISIONS[precision]}
    assert model.losses == pytest.approx(on_host[1].losses, rel=0.02)
    assert model.losses != on_host[1].losses


def test_without_the_plugin_nothing_is_cast(tmp_path):
    """Lightning casts on a GPU then; docs/ecosystem.md says so while it is true."""
    made = trainer(
        tmp_path,
        accelerator="openreg",
        strategy=SingleDeviceStrategy("openreg:0"),
        precision="bf16-mixed",
    )
    model = Classifier()
    dtypes = computed_in(model)
    made.fit(model, loader(), loader())
    assert dtypes == {torch.float32}
