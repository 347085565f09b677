"""`python -m braze doctor`: what Braze finds on this machine. `python -m braze breaks`: the page of
breaks and errors, in Markdown."""

import sys

import torch

from . import WHY_EAGER, __version__

if WHY_EAGER is None:
    from . import _C, _words


def doctor():
    if WHY_EAGER is not None:
        print(f"nothing is compiled: {WHY_EAGER}")
        return 1
    compiler = _C.host_compiler()
    lines = [
        ("braze", __version__),
        ("python", sys.version.split()[0]),
        ("torch", torch.__version__),
        ("threads", torch.get_num_threads()),
        ("vector instructions", _C.host_isa()),
        (
            "C++ compiler",
            f"{compiler[0]} ({compiler[1]})"
            if compiler
            else "none: compiled functions run through ATen; install g++ or clang++",
        ),
    ]
    for name, value in lines:
        print(f"{name:20} {value}")

    import braze

    def probe(x):
        return torch.relu(x + 1) * 2

    x = torch.randn(1000)
    ok = torch.equal(braze.compile(probe, fullgraph=True)(x), probe(x))
    print(f"{'compile and run':20} {'ok' if ok else 'WRONG RESULT, please report this'}")
    return 0 if ok else 1


if __name__ == "__main__":
    # A path or a line that the terminal's encoding does not have is shown with escapes.
    sys.stdout.reconfigure(errors="backslashreplace")
    if sys.argv[1:] == ["breaks"] and WHY_EAGER is None:
        sys.stdout.write(_words.markdown())
    elif sys.argv[1:] in ([], ["doctor"], ["breaks"]):
        sys.exit(doctor())
    else:
        sys.exit("usage: python -m braze [doctor | breaks]")
