"""A loader of vLLM that takes weights from a store. It was written from vLLM's source, and NEVER RUN with vLLM: expect
to adapt it to your version. It refuses quantized models, whose layers vLLM converts after loading.

    # pyproject.toml of a package of yours that contains this file and store_model.py. vLLM imports it in every process:
    [project.entry-points."vllm.general_plugins"]
    poolpass = "your_package.vllm_loader:register"

    vllm serve /models/llama-8b --load-format poolpass \
      --model-loader-extra-config '{"store": "/run/poolpass/store.sock", "name": "llama-8b"}'
"""
from __future__ import annotations

import dataclasses
from typing import Any

import torch
from vllm.config import LoadConfig, ModelConfig, VllmConfig
from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.base_loader import BaseModelLoader
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.utils.torch_utils import set_default_torch_dtype

from .store_model import StoreModel

class StoreLoader(BaseModelLoader):
    def __init__(self, load_config: LoadConfig):
        super().__init__(load_config)
        extra = load_config.model_loader_extra_config
        self._model = StoreModel(extra["store"], extra["name"])
        files = dataclasses.replace(load_config, load_format="auto", model_loader_extra_config={})
        self._files = DefaultModelLoader(files)

    def download_model(self, model_config: ModelConfig) -> None:
        self._files.download_model(model_config)

    def load_weights(self, model: torch.nn.Module, model_config: ModelConfig) -> None:
        self._files.load_weights(model, model_config)

    def load_model(self, vllm_config: VllmConfig, model_config: ModelConfig, prefix: str = "") -> Any:
        if model_config.quantization is not None:
            raise ValueError("Cannot take a quantized model from a store: vLLM converts its weights after loading")
        rank, count = get_tensor_model_parallel_rank(), get_tensor_model_parallel_world_size()
        parts = {"vllm_config": vllm_config, "model_config": model_config, "prefix": prefix}

        def make_on_meta() -> Any:
            with set_default_torch_dtype(model_config.dtype), torch.device("meta"):
                return initialize_model(**parts)

        return self._model.load(
            model_config.dtype, rank, count, make_on_meta=make_on_meta, load=lambda: self._files.load_model(**parts)
        )


def register() -> None:
    register_model_loader("poolpass")(StoreLoader)
