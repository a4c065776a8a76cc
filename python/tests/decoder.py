"""A small language model of plain PyTorch whose results are the same each time, and what the checks do with it."""
from __future__ import annotations

import hashlib
from typing import Any, Callable

import torch
from checking import DRIVER
from poolpass import StoreClient, weights
from torch import nn
from torch.nn import functional

IS_CUDA = DRIVER == "cuda"
DEVICE = "cuda:0" if IS_CUDA else "cpu"
DTYPE = torch.bfloat16 if IS_CUDA else torch.float32
VOCABULARY, LENGTH, HEADS = 512, 32, 8
HIDDEN = 1024 if IS_CUDA else 64
LAYER_BYTES = 12 * HIDDEN * HIDDEN * DTYPE.itemsize
if not IS_CUDA:
    torch.set_num_threads(1)


class Layer(nn.Module):
    """A layer, or the part of one of several ranks, whose results `reduce` adds up."""

    def __init__(self, ranks: int, reduce: Callable[[Any], Any]):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN, dtype=DTYPE)
        self.query, self.key, self.value = (
            nn.Linear(HIDDEN, HIDDEN // ranks, bias=False, dtype=DTYPE) for _ in range(3)
        )
        self.output = nn.Linear(HIDDEN // ranks, HIDDEN, bias=False, dtype=DTYPE)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN // ranks, bias=False, dtype=DTYPE)
        self.down = nn.Linear(4 * HIDDEN // ranks, HIDDEN, bias=False, dtype=DTYPE)
        self._reduce = reduce

    def forward(self, hidden: Any, mask: Any) -> Any:
        normal = self.norm(hidden)
        query, key, value = (
            each(normal).unflatten(-1, (-1, HIDDEN // HEADS)).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        # Fused kernels of attention do not give the same gradients each time.
        scores = query @ key.transpose(-1, -2) * (HEADS / HIDDEN) ** 0.5 + mask
        hidden = hidden + self._reduce(self.output((scores.softmax(-1) @ value).transpose(1, 2).flatten(2)))
        return hidden + self._reduce(self.down(functional.gelu(self.up(self.norm(hidden)))))


class Decoder(nn.Module):
    """Returns the logits of LENGTH tokens."""

    def __init__(self, layers: int, ranks: int = 1, reduce: Callable[[Any], Any] = lambda hidden: hidden):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN, dtype=DTYPE)
        self.layers = nn.ModuleList(Layer(ranks, reduce) for _ in range(layers))
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False, dtype=DTYPE)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf"), dtype=DTYPE).triu(1), persistent=False)

    def forward(self, tokens: Any) -> Any:
        hidden = self.embedding(tokens)
        for layer in self.layers:
            hidden = layer(hidden, self.mask)
        return self.head(hidden)


def layers_of(size: int) -> int:
    """Returns the number of layers of a model of about `size` bytes."""
    return max(1, min(64, round(size / LAYER_BYTES)))


def make(layers: int, seed: int = 1, device: str = DEVICE) -> Decoder:
    """Returns a model with random weights that need no gradient."""
    torch.manual_seed(seed)
    with torch.device(device):
        model = Decoder(layers).requires_grad_(False)
        for parameter in model.parameters():
            parameter.normal_(0, 0.05)
    return model


@torch.no_grad()
def part_of(model: Decoder, rank: int, ranks: int) -> Decoder:
    """Returns the part of a rank: columns of some layers, and rows of those that follow."""
    with torch.device(model.head.weight.device):
        part = Decoder(len(model.layers), ranks).requires_grad_(False)
    for name, own in part.named_parameters():
        whole = model.get_parameter(name)
        if own.shape != whole.shape:
            whole = whole.chunk(ranks, 0 if own.shape[0] < whole.shape[0] else 1)[rank]
        own.copy_(whole)
    return part


def load(
    client: StoreClient, name: str, layers: int, *, ranks: int = 1, reduce: Callable[[Any], Any] = lambda hidden: hidden,
    **options: Any,
) -> tuple[Decoder, weights.Weights]:
    """Returns a model whose parameters are in the memory of a store."""
    with torch.device("meta"):
        model = Decoder(layers, ranks, reduce)
    held = weights.load(client, name, model, timeout=60, **options)
    place = range(held._first_address, held._first_address + held.nbytes)
    assert all(each.data_ptr() in place for each in model.parameters())
    return model, held


def tokens(device: str = DEVICE) -> Any:
    return torch.arange(2 * LENGTH, device=device).reshape(2, LENGTH) * 7 % VOCABULARY


@torch.no_grad()
def logits(model: Any, device: str = DEVICE) -> Any:
    return model(tokens(device))


def digest_of(tensor: Any) -> str:
    return hashlib.sha256(tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()


def synchronize() -> None:
    if IS_CUDA:
        torch.cuda.synchronize()


def captured(function: Callable[[], Any]) -> Callable[[], Any]:
    """Captures a function without arguments in a CUDA graph. Returns what replays it, and returns its result."""
    if not IS_CUDA:
        return torch.no_grad()(function)
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            function()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = function()

    def replay() -> Any:
        graph.replay()
        return result

    return replay


class Adapted(nn.Module):
    """A linear layer with an adapter of low rank."""

    def __init__(self, base: nn.Linear, rank: int = 4):
        super().__init__()
        self.base = base
        place = base.weight.device
        self.down = nn.Parameter(torch.randn(rank, base.in_features, device=place) / 16)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank, device=place))

    def forward(self, hidden: Any) -> Any:
        adapted = functional.linear(functional.linear(hidden.float(), self.down), self.up)
        return self.base(hidden) + adapted.to(hidden.dtype)

    def merge(self) -> None:
        self.base.weight.data += (self.up @ self.down).to(DTYPE)


def adapt(model: Decoder, seed: int = 1) -> list[nn.Parameter]:
    """Gives layers of a model adapters. Returns their parameters."""
    torch.manual_seed(seed)
    for layer in model.layers:
        layer.query, layer.value = Adapted(layer.query), Adapted(layer.value)
    return [each for each in model.parameters() if each.requires_grad]


def loss_of(model: Any, given: Any) -> Any:
    """Returns the loss of a step of training."""
    found = model(given).float()
    return functional.cross_entropy(found[:, :-1].flatten(0, 1), given[:, 1:].flatten())
