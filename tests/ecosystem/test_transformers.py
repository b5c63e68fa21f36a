"""The Trainer of transformers, on a model with random weights."""

import pytest
import torch
from accelerate.state import AcceleratorState
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from torch_openreg.integrations.transformers import MemoryMetrics

VOCABULARY = 50
LENGTH = 16


@pytest.fixture(autouse=True)
def _fresh_accelerate(monkeypatch):
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture
def on_openreg(monkeypatch):
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "openreg")


def model() -> GPT2LMHeadModel:
    """The same weights every time; no dropout, whose draws are each device's own."""
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            n_layer=2,
            n_head=2,
            n_embd=32,
            vocab_size=VOCABULARY,
            n_positions=LENGTH,
            bos_token_id=0,
            eos_token_id=0,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


def sequences(number: int = 32) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    starts = torch.randint(VOCABULARY, (number,), generator=generator)
    rows = [(start + torch.arange(LENGTH)) % VOCABULARY for start in starts]
    return [{"input_ids": row, "labels": row} for row in rows]


def trainer(folder, **options) -> Trainer:
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=8,
        per_device_train_batch_size=4,
        learning_rate=5e-3,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        seed=0,
        **{"save_strategy": "no"} | options,
    )
    data = sequences()
    return Trainer(
        model=model(), args=arguments, train_dataset=data, eval_dataset=data[:8]
    )


def losses(of: Trainer) -> list[float]:
    return [entry["loss"] for entry in of.state.log_history if "loss" in entry]


def test_training_gives_the_cpus_losses(tmp_path, on_openreg, monkeypatch):
    ours = trainer(tmp_path / "ours")
    assert ours.args.device.type == "openreg"
    ours.train()
    assert next(ours.model.parameters()).device.type == "openreg"
    evaluated = ours.evaluate()["eval_loss"]

    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.delenv("ACCELERATE_TORCH_DEVICE")
    host = trainer(tmp_path / "host", use_cpu=True)
    host.train()
    assert next(host.model.parameters()).device.type == "cpu"
    assert len(losses(ours)) == 8
    assert losses(ours) == pytest.approx(losses(host), rel=1e-4)
    assert evaluated == pytest.approx(host.evaluate()["eval_loss"], rel=1e-4)
    assert losses(ours)[-1] < losses(ours)[0]


def test_training_goes_on_from_a_checkpoint(tmp_path, on_openreg):
    whole = trainer(tmp_path, save_strategy="steps", save_steps=4)
    whole.train()
    resumed = trainer(tmp_path)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert resumed.state.global_step == 8
    for ours, theirs in zip(
        resumed.model.parameters(), whole.model.parameters(), strict=True
    ):
        assert ours.device.type == "openreg"
        torch.testing.assert_close(ours, theirs)


def test_weights_are_loaded_straight_to_a_device_and_generate(tmp_path):
    saved = model()
    saved.save_pretrained(tmp_path)
    loaded = GPT2LMHeadModel.from_pretrained(tmp_path, device_map="openreg:1")
    assert {str(p.device) for p in loaded.parameters()} == {"openreg:1"}
    for ours, theirs in zip(loaded.parameters(), saved.parameters(), strict=True):
        assert torch.equal(ours.cpu(), theirs)
    prompt = torch.tensor([[3, 4, 5]])
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    expected = saved.generate(prompt, **options)
    assert torch.equal(
        loaded.generate(prompt.to("openreg:1"), **options).cpu(), expected
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [("bf16", "doesn't support bf16"), ("fp16", "requires a device in")],
)
def test_the_library_refuses_mixed_precision(tmp_path, on_openreg, option, message):
    """It has lists of devices for that; docs/ecosystem.md says so while it is true."""
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, **{option: True})


def test_the_librarys_memory_metrics_leave_the_device_out(tmp_path, on_openreg):
    """As long as they do, MemoryMetrics has a reason."""
    metrics = trainer(tmp_path, skip_memory_metrics=False).train().metrics
    assert "train_mem_cpu_alloc_delta" in metrics
    assert not [name for name in metrics if "gpu" in name]


def test_a_callback_adds_the_devices_memory_to_the_metrics(tmp_path, on_openreg):
    ours = trainer(tmp_path)
    ours.add_callback(MemoryMetrics())
    before = torch.openreg.memory_allocated()
    metrics = ours.train().metrics
    # Adam has two moments for each parameter; the gradients are gone.
    parameters = sum(p.numel() * p.element_size() for p in ours.model.parameters())
    grown = metrics["train_mem_gpu_alloc_delta"]
    assert grown >= 2 * parameters
    assert torch.openreg.memory_allocated() - before == pytest.approx(grown, rel=0.05)
    assert metrics["train_mem_gpu_peaked_delta"] >= parameters
