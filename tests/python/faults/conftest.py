"""Programs that are run in processes of their own, with limits."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

LIMIT = 60  # seconds; a machine under load is slow


class Zygote:
    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        for name in ("CXX", "BRAZE_CACHE", "BRAZE_LOG"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, source, environment, limit):
        request = {
            "source": textwrap.dedent(source),
            "environment": {name: str(value) for name, value in environment.items()},
            "limit": limit,
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["verdict"], answer["text"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


@pytest.fixture(scope="session")
def zygote():
    made = Zygote()
    yield made
    made.close()


@pytest.fixture
def program(zygote, tmp_path):
    """program(source, **environment): what it printed; it must end well, within its limit.

    Each test has a cache and a folder for temporary files of its own.
    """
    (tmp_path / "tmp").mkdir()

    def run(source, verdict="ok", limit=LIMIT, **environment):
        environment = {
            "BRAZE_CACHE_DIR": tmp_path / "cache",
            "TMPDIR": tmp_path / "tmp",
            **environment,
        }
        got, text = zygote.run(source, environment, limit)
        # A machine under load takes long.
        text = re.sub(r"braze: still compiling .*\n", "", text)
        assert got == verdict, f"{got}\n{text[-3000:]}"
        return text

    return run


@pytest.fixture
def compiler(tmp_path):
    """compiler(script): the path of a compiler that does that; `$out` is the file to write."""

    def make(script, version="exec g++ --version"):
        path = tmp_path / "compiler"
        path.write_text(
            "#!/bin/bash\n"
            f'for a in "$@"; do if [ "$a" = --version ]; then {version}; exit; fi; done\n'
            'prev=; for a in "$@"; do [ "$prev" = -o ] && out="$a"; prev="$a"; done\n' + script
        )
        path.chmod(0o755)
        return path

    return make
