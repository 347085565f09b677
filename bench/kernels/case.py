"""What a kernel of the breadth set is, how its inputs are made, and what it has to move."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch


class Draw:
    """Makes inputs: random numbers of one dtype on one device, in sizes that follow from how many
    bytes the largest input shall have."""

    def __init__(self, device: str, dtype: torch.dtype, size_bytes: int):
        self.device, self.dtype = device, dtype
        self.elements = max(64, size_bytes // dtype.itemsize)

    def matrix_shape(self, width: int) -> tuple[int, int]:
        """(rows, width); a width that leaves no two rows is cut."""
        width = min(width, self.elements // 2)
        return self.elements // width, width

    def image_shape(self, channels: int, side: int) -> tuple[int, int, int, int]:
        """(batch, channels, side, side); a side that leaves no two images is halved, down to 8 or
        less, and stays one that four divides where it was."""
        multiple = 4 if side % 4 == 0 else 1
        while side > 8 and 2 * channels * side * side > self.elements:
            side = side // 2 // multiple * multiple
        return max(2, self.elements // (channels * side * side)), channels, side, side

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.randn(shape, device=self.device, dtype=dtype or self.dtype)

    def uniform(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, device=self.device, dtype=self.dtype)

    def below(self, bound: int, *shape: int) -> torch.Tensor:
        return torch.randint(bound, shape, device=self.device)

    def mask(self, *shape: int) -> torch.Tensor:
        return torch.rand(shape, device=self.device) < 0.5

    def matrix(self, width: int) -> torch.Tensor:
        return self.normal(*self.matrix_shape(width))

    def matrices(self, count: int, width: int) -> tuple[torch.Tensor, ...]:
        return tuple(self.matrix(width) for _ in range(count))

    def matrix_and_rows(self, matrices: int, rows: int, width: int) -> tuple[torch.Tensor, ...]:
        """Matrices, then vectors of their width."""
        whole = self.matrices(matrices, width)
        return *whole, *(self.normal(whole[0].shape[1]) for _ in range(rows))

    def images(self, channels: int, side: int) -> torch.Tensor:
        return self.normal(*self.image_shape(channels, side))


@dataclass(frozen=True)
class Kernel:
    """function(*inputs(draw)).

    `forward` and `backward` say what has to be moved at least, each word once: a parameter of the
    function (an input that is read), `y` (the outputs), `dy` (their gradients), and `d` with a
    parameter's name (its gradient); `a|b` is the smaller of both. The backward computes the
    gradients that its words name. A direction without words is not measured.
    """

    name: str
    dtype: torch.dtype
    function: Callable
    inputs: Callable[[Draw], tuple]
    forward: str
    backward: str = ""
    updates: tuple[str, ...] = ()  # parameters that are written to: they are the outputs
    random: bool = False  # draws numbers: the outputs are compared by their moments
    tangent_scale: float = 1.0  # of a loss, so that its gradients in half precision are not zero
    lacking: Callable[[str], str] = lambda device: ""  # what the device lacks to run it

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.function).parameters)

    @property
    def differentiated(self) -> tuple[str, ...]:
        words = self.backward.split()
        return tuple(name for name in self.parameters if "d" + name in words)


def tensors_of(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value for tensor in tensors_of(part)] if value is not None else []


def outputs_of(kernel: Kernel, result, arguments: tuple) -> list[torch.Tensor]:
    """What the function gives: its result, or the arguments that it writes to."""
    if kernel.updates:
        named = dict(zip(kernel.parameters, arguments))
        result = [named[name] for name in kernel.updates]
    return tensors_of(result)


def traffic(kernel: Kernel, words: str, arguments: tuple, outputs: list[torch.Tensor]) -> int:
    """Bytes that `words` stand for."""
    sizes = {name: _bytes(value) for name, value in zip(kernel.parameters, arguments)}
    sizes |= {"d" + name: size for name, size in sizes.items()}
    sizes |= {"y": _bytes(outputs), "dy": _bytes(outputs)}
    return sum(min(sizes[name] for name in word.split("|")) for word in words.split())


def _bytes(value) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(value))


def wide(x: torch.Tensor) -> torch.Tensor:
    """Single precision, as models compute in where half is too coarse; double stays double."""
    return x if x.dtype == torch.float64 else x.float()


def _grown(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def in_double(value):
    """A copy of arguments whose floats are of double precision."""
    return _grown(value) if isinstance(value, torch.Tensor) else type(value)(map(in_double, value))


def copied(value):
    """A copy of arguments: leaves without a history."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return type(value)(map(copied, value))
