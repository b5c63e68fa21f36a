"""Small models with the architectures of real ones, and inputs for them.

The weights are random and the same every time; nothing is read from a disk or a
network. Models and inputs are made on the CPU and moved.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

# transformers reads it when it is imported.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from torch import nn
from unet import UNet

VOCABULARY = 97
Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Architecture:
    """How a model and a batch for it are made.

    The model, called with the batch and, in training, with ``options``, returns an
    object with a ``loss``. A decoder has ``prompt``: the part of the batch that
    ``generate`` takes.
    """

    build: Callable[[], nn.Module]
    batch: Callable[[], Inputs]
    prompt: tuple[str, ...] = ()
    options: dict[str, bool] = field(default_factory=dict)


def bert() -> nn.Module:
    """BERT with the head that fills in masked words."""
    return transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=32,
        )
    )


def gpt2() -> nn.Module:
    """GPT-2, with its three dropouts."""
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=64,
            bos_token_id=0,
            eos_token_id=1,
        )
    )


def llama() -> nn.Module:
    """Llama: rotary positions, two query heads to each key and value."""
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
        )
    )


def mixtral() -> nn.Module:
    """Mixtral: every token goes to two of four experts."""
    return transformers.MixtralForCausalLM(
        transformers.MixtralConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_local_experts=4,
            num_experts_per_tok=2,
            max_position_embeddings=64,
        )
    )


def vit() -> nn.Module:
    """A vision transformer that sorts images into five classes."""
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            image_size=32,
            patch_size=8,
            num_labels=5,
        )
    )


def whisper() -> nn.Module:
    """Whisper: convolutions over a spectrogram, an encoder, a decoder.

    Without dropout: a training draws on the host, for each layer, whether to leave
    it out. On the CPU dropout would draw from the same generator, and get others.
    """
    return transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=VOCABULARY,
            num_mel_bins=16,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            max_source_positions=30,
            max_target_positions=48,
            dropout=0.0,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=3,
            begin_suppress_tokens=None,
        )
    )


def t5() -> nn.Module:
    """T5: relative positions, an encoder, a decoder."""
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=VOCABULARY,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        )
    )


def tokens(*shape: int) -> torch.Tensor:
    """Words that are none of the special ones."""
    return torch.randint(5, VOCABULARY, shape)


def text() -> Inputs:
    """Two texts of ten words, the second shorter; each is its own label.

    The shorter one is padded on the left, as `generate` wants it.
    """
    words = tokens(2, 10)
    mask = torch.ones_like(words)
    mask[1, :3] = 0
    labels = words.masked_fill(mask == 0, -100)
    return {"input_ids": words, "attention_mask": mask, "labels": labels}


def images() -> Inputs:
    """Two images and their classes."""
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([3, 1])}


def speech() -> Inputs:
    """Two spectrograms and what was said."""
    return {"input_features": torch.randn(2, 16, 60), "labels": tokens(2, 7)}


def translations() -> Inputs:
    """Two texts and the shorter ones that they become."""
    return text() | {"labels": tokens(2, 7)}


def noise() -> Inputs:
    """Two images with noise in them, and the noise."""
    return {
        "images": torch.randn(2, 3, 16, 16),
        "times": torch.tensor([11, 403]),
        "noise": torch.randn(2, 3, 16, 16),
    }


_WORDS = ("input_ids", "attention_mask")
_BALANCED = {"output_router_logits": True}  # the loss is about the experts' load too
ARCHITECTURES = {
    "bert": Architecture(bert, text),
    "gpt2": Architecture(gpt2, text, _WORDS),
    "llama": Architecture(llama, text, _WORDS),
    "mixtral": Architecture(mixtral, text, _WORDS, _BALANCED),
    "vit": Architecture(vit, images),
    "whisper": Architecture(whisper, speech, ("input_features",)),
    "t5": Architecture(t5, translations, _WORDS),
    "unet": Architecture(UNet, noise),
}
DECODERS = [name for name, made in ARCHITECTURES.items() if made.prompt]


def make(name: str, device: str) -> tuple[nn.Module, Inputs]:
    """Return a model and a batch; leaves both default generators at a known seed."""
    torch.manual_seed(0)
    model = ARCHITECTURES[name].build().to(device)
    batch = ARCHITECTURES[name].batch()
    torch.manual_seed(1)
    return model, {key: value.to(device) for key, value in batch.items()}


def prompt(name: str, batch: Inputs) -> Inputs:
    """Return what ``generate`` takes of ``batch``."""
    return {key: batch[key] for key in ARCHITECTURES[name].prompt}
