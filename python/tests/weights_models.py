"""Small models of transformers with random weights. Needs PyTorch and transformers."""
from __future__ import annotations

import os
from typing import Any

import torch
import transformers

_VOCABULARY = 96
_DECODER = {
    "vocab_size": _VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
}
_QWEN = {**_DECODER, "head_dim": 8}

MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", "AutoModelForCausalLM", _DECODER),
    "tied llama": ("LlamaConfig", "AutoModelForCausalLM", {**_DECODER, "tie_word_embeddings": True}),
    "gpt2": ("GPT2Config", "AutoModelForCausalLM", {
        "vocab_size": _VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64,
    }),
    "qwen3": ("Qwen3Config", "AutoModelForCausalLM", _QWEN),
    "qwen3 moe": ("Qwen3MoeConfig", "AutoModelForCausalLM", {
        **_QWEN, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    }),
    "bert": ("BertConfig", "AutoModelForMaskedLM", {
        "vocab_size": _VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": 64,
    }),
    "t5": ("T5Config", "AutoModelForSeq2SeqLM", {
        "vocab_size": _VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
        "decoder_start_token_id": 0,
    }),
}
"""The class of the configuration, the automatic class, and the options of the configuration of each model."""


def save(
    name: str, folder: str, *, seed: int = 1, dtype: torch.dtype = torch.float32, make_on: str = "cpu", **options: Any
) -> str:
    """Saves a model with random weights, made on a device, in a folder of its own. Returns the folder's path."""
    config, automatic, own = MODELS[name]
    torch.manual_seed(seed)
    made = getattr(transformers, config)(**{**own, **options})
    with torch.device(make_on):
        model = getattr(transformers, automatic).from_config(made, dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            # Also those that begin as ones or zeros.
            parameter.normal_(0, 0.1)
    path = os.path.join(folder, name.replace(" ", "-"))
    model.save_pretrained(path)
    return path


def load(name: str, path: str, **options: Any) -> Any:
    """Loads a model from its folder."""
    return getattr(transformers, MODELS[name][1]).from_pretrained(path, **options)


def on_meta(name: str, model: Any) -> Any:
    """Returns a module like that of a model, without values."""
    with torch.device("meta"):
        return getattr(transformers, MODELS[name][1]).from_config(model.config, dtype=model.dtype).eval()


def logits(model: Any) -> Any:
    """Returns the output of a model for certain tokens."""
    tokens = torch.arange(12, device=model.device).reshape(2, 6)
    options = {"decoder_input_ids": tokens} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        return model(tokens, **options).logits


def tied_names(model: Any) -> set[tuple[str, ...]]:
    """Returns the names of each parameter that has several."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {tuple(each) for each in names.values() if len(each) > 1}
