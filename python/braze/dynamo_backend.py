"""`torch.compile(m, backend="braze")`: Dynamo captures, Braze compiles its graphs.

Only PyTorch imports this module, through the entry point group `torch_dynamo_backends`.
"""

from . import compile


def braze_backend(gm, example_inputs):
    """A `torch.compile` backend: `(gm, example_inputs) -> callable` that returns a tuple."""
    return compile(gm.forward)
