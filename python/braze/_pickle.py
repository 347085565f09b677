"""Pickling of compiled functions: as the original, compiled again on load."""

import importlib


def reduce_function(compiled):
    original = compiled.__wrapped__
    module = getattr(original, "__module__", None)
    name = getattr(original, "__qualname__", None)
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, TypeError, ValueError):
        found = None
    if found is compiled:  # used as a decorator: the name stands for the compiled function
        return name if "." not in name else (_by_name, (module, name))
    return _compile_again, (original, vars(compiled)["_settings"])


def _by_name(module, name):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _compile_again(original, settings):
    from ._api import _compile

    return _compile(original, settings)
