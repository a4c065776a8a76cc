"""A loader of vLLM that takes weights from a store. It was written from vLLM's source, and NEVER RUN with vLLM: expect
to adapt it to your version. It refuses quantized models, whose layers vLLM converts after loading.

    # pyproject.toml of a package of yours that contains this file. vLLM imports it in every process:
    [project.entry-points."vllm.general_plugins"]
    poolpass = "your_package.vllm_loader:register"

    vllm serve /models/llama-8b --load-format poolpass \
      --model-loader-extra-config '{"store": "/run/poolpass/store.sock", "name": "llama-8b"}'
"""
from __future__ import annotations

import dataclasses
from typing import Any

import torch
from poolpass import StoreClient, weights
from vllm.config import LoadConfig, ModelConfig, VllmConfig
from vllm.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.base_loader import BaseModelLoader
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.utils.torch_utils import set_default_torch_dtype

# Seconds to wait for another process that loads the same model.
TIMEOUT = 600.0


class StoreLoader(BaseModelLoader):
    def __init__(self, load_config: LoadConfig):
        super().__init__(load_config)
        extra = load_config.model_loader_extra_config
        self._path, self._name = extra["store"], extra["name"]
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
        # The dtype is part of the name, because the store has the weights as they are after loading.
        name = f"{self._name}.{str(model_config.dtype).removeprefix('torch.')}.{rank}-of-{count}"
        # It stays open: the mapped weights need it.
        self._store = StoreClient.connect(self._path)
        claim = self._store.create(name, 1, device=torch.cuda.current_device(), once=True, timeout=TIMEOUT)
        if claim is not None:
            with claim:
                # Nobody has published the model: this process does, and others wait.
                model = self._files.load_model(vllm_config=vllm_config, model_config=model_config, prefix=prefix)
                weights.publish(self._store, name, model, device=torch.cuda.current_device(), timeout=TIMEOUT).release()
        else:
            with set_default_torch_dtype(model_config.dtype), torch.device("meta"):
                model = initialize_model(vllm_config=vllm_config, model_config=model_config, prefix=prefix)
        self.held = weights.load(self._store, name, model, timeout=TIMEOUT)
        # What the process that has loaded it does not need any more.
        torch.cuda.empty_cache()
        return model.eval()


def register() -> None:
    register_model_loader("poolpass")(StoreLoader)
