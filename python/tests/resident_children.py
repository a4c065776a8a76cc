"""Processes that load models inside of `weights.resident`. Each prints a line of JSON for each model.

    python3 resident_children.py STORE COUNT LOG MODEL=FOLDER...

All COUNT processes are forks of one that has imported everything, and start at once. A process that begins to read the
files of a model appends its ID to LOG. If the file LOG.stop exists, the first process that does removes it and stops.
The environment variable POOLPASS_DEVICE_MAP is where the models are loaded to.
"""
from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from typing import Any

import torch
import transformers
import weights_models
from poolpass import StoreClient, weights
from transformers import modeling_utils


def digest_of(tensor: Any) -> str:
    return hashlib.sha256(tensor.contiguous().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()


def outside(model: Any, held: Any) -> list[str]:
    """Returns the names of the parameters that are not in the memory of the store."""
    place = range(held._first_address, held._first_address + held.nbytes)
    return [name for name, each in model.named_parameters() if each.data_ptr() not in place]


def main() -> None:
    path, count, log, *models = sys.argv[1:]
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    opened = modeling_utils.safe_open

    def open_logged(*positional: Any, **named: Any) -> Any:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        os.close(descriptor)
        try:
            os.remove(f"{log}.stop")
        except FileNotFoundError:
            return opened(*positional, **named)
        while True:
            signal.pause()

    children = [fork for fork in (os.fork() for _ in range(int(count)) if os.getpid() == PARENT) if fork]
    if os.getpid() == PARENT:
        for child in children:
            os.waitpid(child, 0)
        return
    modeling_utils.safe_open = open_logged
    place = os.environ.get("POOLPASS_DEVICE_MAP", "cpu")
    with StoreClient.connect(path, wait=30, handshake_timeout=30, message_timeout=30) as client:
        for each in models:
            name, _, folder = each.partition("=")
            with weights.resident(client, timeout=120) as resident:
                model = weights_models.load(name, folder, device_map=place)
            held, = resident.weights
            said = {
                "model": name, "name": held.name, "generation": held.generation, "digest": held.digest,
                "logits": digest_of(weights_models.logits(model)), "outside": outside(model, held),
            }
            os.write(1, json.dumps(said).encode() + b"\n")
            del model
            held.release()


PARENT = os.getpid()
if __name__ == "__main__":
    main()
