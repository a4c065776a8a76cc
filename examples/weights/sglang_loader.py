"""A loader of SGLang that takes weights from a store. It was written from SGLang's source, and NEVER RUN with SGLang:
expect to adapt it to your version. It refuses quantized models, whose layers SGLang converts after loading.

SGLang uses a class as a load format, which can be given to its engine in Python:

    POOLPASS_STORE=/run/poolpass/store.sock POOLPASS_NAME=llama-8b python3 server.py

    import sglang
    from sglang_loader import StoreLoader

    engine = sglang.Engine(model_path="/models/llama-8b", load_format=StoreLoader)
"""
from __future__ import annotations

import dataclasses
import os
from typing import Any

import torch
from sglang.srt.configs.device_config import DeviceConfig
from sglang.srt.configs.load_config import LoadConfig, LoadFormat
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.distributed import get_tensor_model_parallel_rank, get_tensor_model_parallel_world_size
from sglang.srt.model_loader.loader import BaseModelLoader, DefaultModelLoader, _initialize_model
from sglang.srt.model_loader.utils import set_default_torch_dtype
from store_model import StoreModel

class StoreLoader(BaseModelLoader):
    def __init__(self, load_config: LoadConfig):
        super().__init__(load_config)
        self._model = StoreModel(os.environ["POOLPASS_STORE"], os.environ["POOLPASS_NAME"])
        self._files = DefaultModelLoader(dataclasses.replace(load_config, load_format=LoadFormat.AUTO))

    def download_model(self, model_config: ModelConfig) -> None:
        self._files.download_model(model_config)

    def load_model(self, *, model_config: ModelConfig, device_config: DeviceConfig) -> Any:
        if model_config.quantization is not None:
            raise ValueError("Cannot take a quantized model from a store: SGLang converts its weights after loading")
        rank, count = get_tensor_model_parallel_rank(), get_tensor_model_parallel_world_size()

        def make_on_meta() -> Any:
            with set_default_torch_dtype(model_config.dtype), torch.device("meta"):
                return _initialize_model(model_config, self.load_config)

        return self._model.load(
            model_config.dtype, rank, count, make_on_meta=make_on_meta,
            load=lambda: self._files.load_model(model_config=model_config, device_config=device_config),
        )
