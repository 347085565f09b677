"""What can be seen of calls whose tensors and arrays share memory, and ways to make such tensors."""

import array
import ctypes
import os
import tempfile

import numpy
import torch

twin = torch.from_numpy  # a storage of its own over the memory of an array


def numbers(n, start=1, dtype="float32"):
    return numpy.arange(start, start + n).astype(dtype)


def shown(value):
    """Values as they are now, for a comparison later."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.stride(), value.tolist()
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return type(value).__name__, str(value.dtype), value.shape, value.tolist()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(v) for v in value]
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if isinstance(value, (ctypes.Array, array.array, memoryview, bytearray)):
        return type(value).__name__, list(value)
    if isinstance(value, (torch.UntypedStorage, torch.TypedStorage)):
        return type(value).__name__, value.tolist()
    return shown(vars(value)) if hasattr(value, "__dict__") else value


def arrays_in(value):
    if isinstance(value, (torch.Tensor, numpy.ndarray)):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [a for v in value for a in arrays_in(v)] if isinstance(value, (list, tuple)) else []


def outcomes(function, calls, state=None, grow=False):
    """What the calls give and leave behind; with `grow` also what is seen of each result through
    the others and the arguments once it has been changed."""
    seen = []
    for number, make in enumerate(calls):
        torch.manual_seed(number)
        args = make()
        try:
            result = function(*args)
        except Exception as error:
            result = error
        seen.append(shown([result, args, state() if state else None, torch.rand(1)]))
        for changed in arrays_in(result) if grow else []:
            changed += 1
            seen.append(shown([result, args]))
    return seen


# --- Two tensors of four numbers, with one memory or two


def same_place():
    memory = numbers(4)
    return twin(memory), twin(memory)


def part_and_whole():
    memory = numbers(8)
    return twin(memory[:4]), twin(memory)[:4]


def shifted(start):
    def make():
        memory = numbers(20)
        return twin(memory[4:8]), twin(memory[start : start + 4])

    return make


def views_of_one_storage(start):
    def make():
        memory = torch.arange(1.0, 21.0)
        return memory[4:8], memory[start : start + 4]

    return make


def columns(first, second):
    def make():
        memory = numbers(12).reshape(4, 3)
        return twin(memory[:, first]), twin(memory[:, second])

    return make


def every_other(step):
    def make():
        memory = numbers(16)
        return twin(memory[:8:2]), twin(memory[step - 1 : 4 * step : step])

    return make


def through_dlpack():
    tensor = torch.arange(1.0, 5.0)
    return tensor, torch.from_dlpack(tensor)


def through_a_buffer():
    memory = bytearray(numbers(6).tobytes())
    tensor = torch.frombuffer(memory, dtype=torch.float32, offset=8)
    return tensor, torch.frombuffer(memory, dtype=torch.float32, count=4)


def through_a_misaligned_buffer():
    memory = bytearray(numbers(6, dtype="int32").tobytes())
    tensor = torch.frombuffer(memory, dtype=torch.int32, count=4)
    return tensor, torch.frombuffer(memory, dtype=torch.int32, offset=1, count=4)


def through_a_storage():
    tensor = torch.arange(1.0, 7.0)
    return tensor[:4], torch.empty(0).set_(tensor.untyped_storage(), 2, (4,), (1,))


def through_a_file():
    with tempfile.NamedTemporaryFile(delete=False) as file:
        numbers(8).tofile(file)
    memory = numpy.memmap(file.name, "float32", "r+")
    os.unlink(file.name)
    return twin(memory[:4]), twin(memory[2:6])


def through_ctypes():
    memory = (ctypes.c_float * 4)(1, 2, 3, 4)
    return torch.frombuffer(memory, dtype=torch.float32), twin(numpy.ctypeslib.as_array(memory))


def through_shared_memory():
    tensor = torch.arange(1.0, 5.0).share_memory_()
    return tensor, twin(tensor.numpy())


def as_other_numbers():
    memory = numbers(4)
    return twin(memory), twin(memory.view("int32"))


def one_element_often():
    memory = numbers(4)
    return twin(memory), twin(numpy.broadcast_to(memory[1:2], (4,)))


def empty_in_the_middle():
    memory = numbers(4)
    return twin(memory), twin(memory[1:1])


PAIRS = {
    "two memories": lambda: (twin(numbers(4)), twin(numbers(4, 11))),
    "same place": same_place,
    "part and whole": part_and_whole,
    "shifted by 1": shifted(5),
    "shifted by 3": shifted(7),
    "shifted by -2": shifted(2),
    "next to it": shifted(8),
    "further on": shifted(12),
    "one storage": views_of_one_storage(4),
    "one storage, shifted": views_of_one_storage(6),
    "one storage, apart": views_of_one_storage(10),
    "two columns": columns(0, 1),
    "one column": columns(1, 1),
    "every other": every_other(2),
    "every third": every_other(3),
    "DLPack": through_dlpack,
    "buffer": through_a_buffer,
    "misaligned buffer": through_a_misaligned_buffer,
    "storage": through_a_storage,
    "file": through_a_file,
    "ctypes": through_ctypes,
    "shared memory": through_shared_memory,
    "other numbers": as_other_numbers,
    "one element": one_element_often,
    "empty": empty_in_the_middle,
}
