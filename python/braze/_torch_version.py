"""Which versions of PyTorch Braze knows, and whether it may be loaded into the one that is here.

The extension uses PyTorch's C++ interface, which changes from version to version without a word,
and what a capture does depends on PyTorch's own Python code. So it runs in the versions that it has
been tested with, and in each only if it was compiled for it.
"""

# The first and the last that are tested; pyproject.toml and README.md say the same.
FIRST = (2, 11)
LAST = (2, 15)


def why_not(installed, built_for):
    """Why the extension is not to be loaded, with the way out; None if it is.

    Args:
        installed: `torch.__version__`.
        built_for: the version that the extension was compiled for.
    """
    version, built = _minor(installed), _minor(built_for)
    if version is None or not FIRST <= version <= LAST:
        return (
            f"this Braze works with PyTorch {_text(FIRST)} to {_text(LAST)}, not with {installed}: "
            "install another version of either"
        )
    if version != built:
        return f"it was compiled for PyTorch {built_for}, not for {installed}: install it again"
    return None


def _minor(version):
    """(2, 13) of "2.13.0+cpu"."""
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return None
    return int(parts[0]), int(parts[1])


def _text(version):
    return ".".join(map(str, version))
