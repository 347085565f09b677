"""What a break says: number, line with carets, object, callers."""

import os
import subprocess
import sys

import braze
import torch
from support import entries, same

X = torch.ones(3)


def reason_of(function, *args, **options):
    fast = braze.compile(function, **options)
    same(fast(*args), function(*args))
    return next(entry["reason"] for entry in entries(fast) if entry["reason"])


def test_object_and_where_it_came_from():
    class Model:
        def __init__(self):
            import threading

            self.local = threading.local()
            self.local.scale = 2

        def forward(self, x):
            return x * self.local.scale

    text = reason_of(Model().forward, X)
    assert "object: self.local, a '_thread._local' object" in text
    assert "return x * self.local.scale\n                 ^^^^^^^^^^^^^^^^" in text


def test_callers_of_an_inlined_function():
    def innermost(x):
        return x.numpy()

    def middle(x):
        return innermost(x + 1)

    def f(x):
        return torch.from_numpy(middle(x)) * 2

    lines = reason_of(f, X).splitlines()
    assert lines[0].startswith("B101: Tensor.numpy()")
    assert [line.split(" in ")[-1].split(".")[-1] for line in lines if ".py:" in line] == [
        "innermost",
        "middle",
        "f",
    ]
    assert lines[2:4] == ["      return x.numpy()", "             ^^^^^^^^^"]
    assert "called from" in lines[4] and "called from" in lines[7]


def test_carets_count_characters_not_bytes():
    def f(x):
        é = "größe"; y = x.tolist(); return len(é) + len(y)  # fmt: skip  # noqa: E702

    lines = reason_of(f, X).splitlines()
    at = lines[2].index("x.tolist()")
    assert lines[3] == " " * at + "^" * len("x.tolist()")


def test_expression_over_several_lines():
    def f(x):
        return len(
            x.tolist(
            )
        )  # fmt: skip

    lines = reason_of(f, X).splitlines()
    assert lines[2] == "      x.tolist(" and lines[3] == "      ^^^^^^^^^"


def test_source_that_is_not_there():
    names = {}
    exec("def f(x):\n    return x.tolist()", names)
    text = reason_of(names["f"], X)
    assert "<string>:2 in f" in text and "way out" in text


def test_log_names_each_break_once(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        "import torch, braze\n"
        "@braze.compile\n"
        "def f(x):\n"
        "    return len(x.tolist())\n"
        "with torch.no_grad():\n"
        "    for n in range(1, 5):\n"
        "        f(torch.ones(n))\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env={**os.environ, "BRAZE_LOG": "breaks"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("B101: Tensor.tolist()") == 1, done.stderr


def test_graph_break_and_its_message():
    def f(x):
        y = x * 2
        braze.graph_break("the second half")
        return y + 1

    assert "B702: braze.graph_break(): the second half" in reason_of(f, X)


def test_disable_of_torch_is_honoured():
    @torch.compiler.disable
    def helper(x):
        return x + 1

    def f(x):
        return helper(x * 2)

    assert "marked with torch.compiler.disable" in reason_of(f, X)


def test_is_compiling():
    def f(x):
        return x * 2 if braze.is_compiling() else x * 2 + 0

    assert not braze.is_compiling()
    fast = braze.compile(f, fullgraph=True)
    same(fast(X), X * 2)
    assert entries(fast)[0]["nodes"] == 1
