"""What is tried: for each group a table from a subject's name to a function that gives its cases."""

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import torch
from cases import function_case, module_case

# The libraries stand apart: what runs without them is not to find them.
LIBRARIES = Path(sys.prefix) / "public"
if str(LIBRARIES) not in sys.path:
    sys.path.append(str(LIBRARIES))

# Never called: what reaches outside of the process, ends it, waits, or is about tools.
LEFT_OUT = re.compile(
    r"(^|[._])(save|load|download|write|export|onnx|plot|draw|show|visuali[sz]e|main|cli|test|testing|hub|"
    r"distributed|dist|cuda|xla|tpu|npu|mps|fork|spawn|launch|compile|jit|script|tensorboard|wandb|"
    r"benchmark|profil\w*|logg\w*|deprecat\w*|from_pretrained|register\w*|install|docs?|env|exit|pickle|"
    r"video|audio|torchscript|dynamo|bitsandbytes|flash|triton|datasets?|loaders?|push\w*|print\w*|"
    r"is_\w+_available|require\w*|set_\w*(seed|default|global|num_threads|deterministic)\w*|seed\w*|breakpoint)($|[._])",
    re.IGNORECASE,
)


def modules_of(package, only=None, skip=None):
    root = importlib.import_module(package)
    names = [package]
    if hasattr(root, "__path__"):
        names += [m.name for m in pkgutil.walk_packages(root.__path__, package + ".", onerror=lambda _: None)
                  if not LEFT_OUT.search(m.name[len(package):]) and "._" not in m.name]  # fmt: skip
    for name in names:
        if (only and not re.search(only, name)) or (skip and re.search(skip, name)):
            continue
        try:
            yield importlib.import_module(name)
        except BaseException:  # a package that is not there, or ends the process
            continue


def public(package, only=None, skip=None):
    """(name, object) of the functions and module classes that a package defines, each once."""
    top = package.split(".")[0]
    seen = {}
    for module in modules_of(package, only, skip):
        for name, found in sorted(vars(module).items()):
            if name.startswith("_") or LEFT_OUT.search(name) or id(found) in seen:
                continue
            home, qualname = (getattr(found, a, None) for a in ("__module__", "__qualname__"))
            if not isinstance(home, str) or not isinstance(qualname, str):
                continue
            if home.split(".")[0] != top or "<locals>" in qualname:
                continue
            is_module = inspect.isclass(found) and issubclass(found, torch.nn.Module)
            if is_module or inspect.isfunction(found):
                seen[id(found)] = (f"{home}.{found.__qualname__}", found)
    return sorted(seen.values(), key=lambda pair: pair[0])


def walked(package, only=None, skip=None, given=None, forward=None, too_large=()):
    """A table over the public functions and modules of a package, but classes of `too_large`."""
    table = {}
    for name, found in public(package, only, skip):
        if inspect.isclass(found) and issubclass(found, too_large):
            continue
        if inspect.isclass(found):
            table[name] = lambda found=found: [module_case(found, given, forward)]
        else:
            table[name] = lambda found=found: [function_case(found, given)]
    return table


def group(name):
    """The subjects of a group, by name; one that is not listed is called `module:function`."""
    module, function = GROUPS[name] if name in GROUPS else name.split(":")
    return getattr(importlib.import_module(module), function)()


# Where each group's table is made; those of torch need nothing but torch.
GROUPS = {
    "torch.distributions": ("subjects_distributions", "distributions"),
    "torch.distributions.kl": ("subjects_distributions", "divergences"),
    "torch.distributions.transforms": ("subjects_distributions", "transforms"),
    "torch.nn.init": ("subjects_torch", "inits"),
    "torch.nn.functional": ("subjects_torch", "functional"),
    "torch.nn.modules": ("subjects_torch", "modules"),
    "torch.func": ("subjects_torch", "transforms_of_functions"),
    "torch.optim": ("subjects_training", "optimizers"),
    "torch.optim.lr_scheduler": ("subjects_training", "schedulers"),
    "torch.utils": ("subjects_training", "utilities"),
    "einops": ("subjects_libraries", "einops"),
    "kornia": ("subjects_libraries", "kornia"),
    "torchvision": ("subjects_libraries", "torchvision"),
    "torchmetrics": ("subjects_libraries", "torchmetrics"),
    "e3nn": ("subjects_libraries", "e3nn"),
    "torch_geometric": ("subjects_libraries", "torch_geometric"),
    "timm": ("subjects_libraries", "timm"),
    "diffusers": ("subjects_libraries", "diffusers"),
    "transformers": ("subjects_libraries", "transformers"),
}
