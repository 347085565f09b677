"""A compiler that fails, lies, hangs or is killed: the call has its result, and the reason is told."""

import os

import pytest

CUT = 'g++ "$@" || exit 1\nsize=$(stat -c %s "$out")\ntruncate -s {} "$out"\nexit 0\n'

FAILURES = {
    "killed": ("kill -9 $$\n", "exit code 137"),
    "crashed": ("kill -11 $$\n", "exit code 139"),
    "silent": ("exit 1\n", "exit code 1"),
    "garbage": ("head -c 100000 /dev/urandom >&2; exit 1\n", "exit code 1"),
    "no_library": ("exit 0\n", "No such file"),
    "empty": (': > "$out"\n', "too short"),
    "text": ('yes hello | head -c 5000 > "$out"\n', "no shared library"),
    "random": ('head -c 16000 /dev/urandom > "$out"\n', "no shared library"),
    "folder": ('mkdir "$out"\n', "no file"),
    "pipe": ('mkfifo "$out"\n', "no file"),
    "link_to_nothing": ('ln -s /no/such/place "$out"\n', "No such file"),
    "object_file": ('echo "int a;" | g++ -c -x c++ - -o "$out"\n', "no shared library"),
    "executable": ('echo "int main() {}" | g++ -no-pie -x c++ - -o "$out"\n', "no shared library"),
    "without_kernels": ('echo "int a;" | g++ -shared -fPIC -x c++ - -o "$out"\n', "no symbol"),
    "needs_a_symbol": (
        'echo "extern int b; int a() { return b; }" | g++ -shared -fPIC -x c++ - -o "$out"\n',
        "cannot load",
    ),
    "cut_in_half": (CUT.format("$((size / 2))"), "it ends after"),
    "last_byte_cut": (CUT.format("$((size - 1))"), "it ends after"),
    "header_only": (CUT.format(64), "it ends after"),
    "one_page": (CUT.format(4096), "it ends after"),
    "three_pages": (CUT.format(12288), "it ends after"),
    "cut_and_killed": ('g++ "$@"; truncate -s 5000 "$out"; kill -9 $$\n', "exit code 137"),
    "its_folder_removed": ('rm -rf "$(dirname "$out")"\n', "No such file"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_compiler_that_fails(name, program, compiler, tmp_path):
    script, words = FAILURES[name]
    path = compiler(script)
    text = program("print(once())", CXX=path)
    assert "could not be built, running through ATen" in text and words in text, text
    assert "['plan']" in text
    assert os.listdir(tmp_path / "tmp") == []
    assert "report this" not in text
    # A later process with the same cache, and one with a compiler that works.
    program("once()", CXX=path)
    compiler('exec g++ "$@"\n')
    assert program("print(once())", CXX=path) == "['plan']\n"


def test_what_is_said_beside_a_good_library(program, compiler):
    path = compiler('g++ "$@"; head -c 5000000 /dev/zero; (sleep 5 &) ; exit 0\n')
    assert program("print(once())", CXX=path) == "['plan']\n"


HANGS = {
    "sleeps": "sleep 60.25\n",
    "child_sleeps": "(sleep 60.25)\n",
    "ignores_signals": "trap '' TERM INT HUP; sleep 60.25\n",
    "computes": "while :; do :; done\n",
    "stopped": "kill -STOP $$\n",
    "waits_for_input": "sleep 60.25 | cat\n",
    "library_written_then_sleeps": 'g++ "$@"; sleep 60.25\n',
}


def processes_of(path):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    command = file.read()
            except OSError:
                continue
            if bytes(path) in command:
                found.append(int(entry))
    return found


@pytest.mark.parametrize("name", HANGS)
def test_a_compiler_that_hangs_is_killed(name, program, compiler):
    path = compiler(HANGS[name])
    text = program("print(once())", limit=30, CXX=path, BRAZE_COMPILER_TIMEOUT=1)
    assert "did not come to an end in 1 s (BRAZE_COMPILER_TIMEOUT) and was killed" in text, text
    assert "['plan']" in text
    assert processes_of(path) == []


def test_a_compiler_that_hangs_is_not_waited_for_again_and_again(program, compiler):
    path = compiler("sleep 60.25\n")
    text = program(
        """
        for k in range(8):
            once(lambda x, k=k: torch.sin(x) * k + k)
        """,
        limit=50,
        CXX=path,
        BRAZE_COMPILER_TIMEOUT=1,
    )
    assert text.count("did not come to an end in 1 s") == 2, text
    assert text.count("is not run any more") == 6, text


def test_one_that_hangs_once_is_asked_again(program, compiler, tmp_path):
    mark = tmp_path / "hung"
    path = compiler(f'if [ ! -e {mark} ]; then touch {mark}; sleep 60.25; fi\nexec g++ "$@"\n')
    text = program(
        """
        for k in range(4):
            once(lambda x, k=k: torch.sin(x) * k + k)
        """,
        CXX=path,
        BRAZE_COMPILER_TIMEOUT=2,
    )
    assert text.count("running through ATen") == 1, text


def test_without_a_limit_a_slow_compiler_is_waited_for(program, compiler):
    path = compiler('sleep 1.5; exec g++ "$@"\n')
    assert program("print(once())", CXX=path, BRAZE_COMPILER_TIMEOUT=0) == "['plan']\n"


def test_a_compiler_that_hangs_when_asked_for_its_version(program, compiler):
    path = compiler('exec g++ "$@"\n', version="sleep 60.25")
    text = program("print(once())", limit=50, CXX=path, BRAZE_COMPILER_TIMEOUT=1)
    assert "does not run" in text and "['plan']" in text, text
    assert processes_of(path) == []


@pytest.mark.parametrize(
    "version",
    ["kill -9 $$", "exit 1", "exit 0", "head -c 1000 /dev/urandom", "echo -e '\\xff\\xfe 1'"],
)
def test_odd_versions(version, program, compiler):
    path = compiler('exec g++ "$@"\n', version=version)
    assert "['plan']" in program("print(once())", CXX=path)
    assert "(" in program("print(braze._C.host_compiler())", CXX=path)


def test_children_are_ignored_or_reaped_by_others(program, compiler):
    path = compiler("sleep 60.25\n")
    program(
        """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        assert once() == ["plan"]
        def reap_all(*_):
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
        signal.signal(signal.SIGCHLD, reap_all)
        assert once(breaks)
        os.environ.update(CXX=%r, BRAZE_COMPILER_TIMEOUT="1")
        """
        % str(path)
    )
    text = program(
        """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        once()
        """,
        CXX=path,
        BRAZE_COMPILER_TIMEOUT=1,
    )
    assert "did not come to an end in 1 s" in text, text


def test_strict_raises(program, compiler):
    path = compiler(CUT.format(4096))
    text = program(
        """
        try:
            once()
        except RuntimeError as error:
            print("raised", error)
        """,
        CXX=path,
        BRAZE_STRICT=1,
    )
    assert "raised" in text and "it ends after 4096 bytes" in text, text


def test_a_signal_during_a_hang_is_not_lost(program, compiler):
    path = compiler("sleep 60.25\n")
    program(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            once()
        except KeyboardInterrupt:
            print("interrupted")
        else:
            raise AssertionError("no KeyboardInterrupt")
        once()
        """,
        CXX=path,
        BRAZE_COMPILER_TIMEOUT=2,
    )
