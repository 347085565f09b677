"""What tests and benchmarks see of a capture and of a trace (tests/hooks/): a module in the shared
library of `braze._C`, which an installation for users is built without."""

from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader

from braze import _C


def _load():
    loader = ExtensionFileLoader("_test_hooks", _C.__file__)
    try:
        module = module_from_spec(spec_from_loader(loader.name, loader))
    except ImportError as error:
        raise ImportError(
            "the extension is built without BRAZE_TEST_HOOKS; `make build`"
        ) from error
    loader.exec_module(module)
    return module


_hooks = _load()
capture = _hooks.capture
trace = _hooks.trace
torch_code_list = _hooks.torch_code_list
repeat_on_cpu = _hooks.repeat_on_cpu
