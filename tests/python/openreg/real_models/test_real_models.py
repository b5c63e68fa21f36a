"""Models of transformers train and generate on the device as on the CPU.

Equal means bit for bit: with one thread, the CPU's kernels add in one order.
"""

from collections.abc import Iterator

import pytest
import torch
from compare import DEVICE, assert_same
from zoo import ARCHITECTURES, DECODERS, make, prompt

STEPS = 3
NEW_TOKENS = 12

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _no_fallback() -> Iterator[None]:
    """A fallback to the CPU is an error, and none happens unseen."""
    torch.openreg.reset_fallback_report()
    with torch.openreg.strict():
        yield
    assert not torch.openreg.fallback_report()


def train(name: str, device: str) -> dict[str, object]:
    """The losses of a few steps, and the gradients and weights at the end."""
    model, batch = make(name, device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**batch, **ARCHITECTURES[name].options).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return {
        "losses": losses,
        "gradients": {key: x.grad for key, x in model.named_parameters()},
        "weights": model.state_dict(),
    }


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_training_gives_the_cpus_losses_gradients_and_weights(name):
    ours, theirs = train(name, DEVICE), train(name, "cpu")
    assert_same(ours, theirs)
    losses = [loss.item() for loss in theirs["losses"]]
    assert len(set(losses)) == STEPS, "nothing was learned"


def evaluate(name: str, device: str) -> torch.Tensor:
    model, batch = make(name, device)
    model.eval()
    with torch.inference_mode():
        outputs = model(**batch)
    return outputs.guess if name == "unet" else outputs.logits


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_evaluation_gives_the_cpus_outputs(name):
    assert_same(evaluate(name, DEVICE), evaluate(name, "cpu"))


def generate(name: str, device: str, **options: object) -> torch.Tensor:
    """The tokens that a model goes on with."""
    model, batch = make(name, device)
    model.eval()
    return model.generate(
        **prompt(name, batch),
        min_new_tokens=NEW_TOKENS,
        max_new_tokens=NEW_TOKENS,
        pad_token_id=0,
        **options,
    )


WAYS = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 1.5},
    "beams": {"do_sample": False, "num_beams": 3},
    "no_cache": {"do_sample": False, "use_cache": False},
    "static_cache": {"do_sample": False, "cache_implementation": "static"},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DECODERS)
def test_generated_tokens_are_the_cpus(name, way):
    ours, theirs = (generate(name, device, **WAYS[way]) for device in (DEVICE, "cpu"))
    assert_same(ours, theirs)
    assert ours.shape[1] >= NEW_TOKENS


def train_checkpointed(device: str) -> dict[str, object]:
    """Llama in bfloat16; what the backward pass needs is computed a second time."""
    model, batch = make("llama", device)
    model.to(torch.bfloat16).train()
    model.gradient_checkpointing_enable()
    loss = model(**batch).loss
    loss.backward()
    return {"loss": loss.detach(), "gradients": [x.grad for x in model.parameters()]}


def test_checkpointed_training_in_bfloat16_gives_the_cpus_gradients():
    assert_same(train_checkpointed(DEVICE), train_checkpointed("cpu"))


def attend_eagerly(device: str) -> tuple[torch.Tensor, ...]:
    """The outputs and the attention of BERT, put together from operators."""
    model, batch = make("bert", device)
    model.set_attn_implementation("eager")
    model.eval()
    with torch.no_grad():
        outputs = model(**batch, output_attentions=True)
    return outputs.logits, *outputs.attentions


def test_unfused_attention_gives_the_cpus_outputs():
    assert_same(attend_eagerly(DEVICE), attend_eagerly("cpu"))


def test_a_saved_model_comes_back_on_either_device(tmp_path):
    model, batch = make("llama", DEVICE)
    model.eval().save_pretrained(tmp_path)
    expected = model.generate(**prompt("llama", batch), max_new_tokens=NEW_TOKENS)
    for device in (DEVICE, "cpu"):
        loaded = type(model).from_pretrained(tmp_path).to(device)
        words = {key: x.to(device) for key, x in prompt("llama", batch).items()}
        tokens = loaded.generate(**words, max_new_tokens=NEW_TOKENS)
        assert tokens.device.type == device
        assert tokens.tolist() == expected.tolist()
