"""What vllm_loader.py and sglang_loader.py share: copy it beside the one that you use."""
from __future__ import annotations

from typing import Any, Callable

import torch
from poolpass import StoreClient, weights

# Seconds to wait for another process that loads the same model.
TIMEOUT = 600.0


class StoreModel:
    """A model that the first process loads and publishes, and all others map."""

    def __init__(self, path: str, name: str):
        self._path, self._name = path, name

    def load(
        self, dtype: torch.dtype, rank: int, count: int, *, load: Callable[[], Any], make_on_meta: Callable[[], Any]
    ) -> Any:
        """Returns the module. `load` loads it as usual, and `make_on_meta` makes one whose parameters have no values."""
        # The dtype is part of the name, because the store has the weights as they are after loading.
        name = f"{self._name}.{str(dtype).removeprefix('torch.')}.{rank}-of-{count}"
        device = torch.cuda.current_device()
        # It stays open: the mapped weights need it.
        self._store = StoreClient.connect(self._path)
        claim = self._store.create(name, 1, device=device, once=True, timeout=TIMEOUT)
        if claim is None:
            model = make_on_meta()
        else:
            with claim:
                # Nobody has published the model: this process does, and others wait.
                model = load()
                weights.publish(self._store, name, model, device=device, timeout=TIMEOUT).release()
        self.held = weights.load(self._store, name, model, timeout=TIMEOUT)
        # What the process that has loaded it does not need any more.
        torch.cuda.empty_cache()
        return model.eval()
