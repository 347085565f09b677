"""Damaged caches, disks that are full, paths and environments that are no UTF-8."""

import os
import shutil
import sys

import pytest

BOTH = """
dynamic = braze.compile(breaks, dynamic=True)
fast = braze.compile(f)
same(fast(X), W)
same(fast(X), W)
same(dynamic(X[:4]), breaks(X[:4]))
same(dynamic(X), WB)
print([entry["kind"] for entry in fast._entries()], [entry["from_cache"] for entry in fast._entries()])
"""
WARM, COLD = "['plan'] [True]\n", "['plan'] [False]\n"


def files_of(folder):
    return sorted(
        os.path.relpath(os.path.join(at, name), folder)
        for at, _, names in os.walk(folder)
        for name in names
    )


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory):
    return tmp_path_factory.mktemp("filled") / "cache"


@pytest.fixture
def filled(filled_once, program, tmp_path):
    """The test's cache has the entries of BOTH in it."""
    if not filled_once.exists():
        assert program(BOTH) == COLD
        assert program(BOTH) == WARM
        shutil.copytree(tmp_path / "cache", filled_once)
    else:
        shutil.copytree(filled_once, tmp_path / "cache")


DAMAGE = {
    "cut": lambda data, k: data[: len(data) * (k % 7) // 7],
    "last_bytes_cut": lambda data, k: data[: -1 - k],
    "zeroed": lambda data, k: bytes(len(data)),
    "end_zeroed": lambda data, k: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    "page_zeroed": lambda data, k: data[:10] + bytes(len(data[10:510])) + data[510:],
    "longer": lambda data, k: data + b"x" * (k + 1),
    "bit_flipped": lambda data, k: (
        data[: len(data) * (k + 1) // 20]
        + bytes([data[len(data) * (k + 1) // 20] ^ 16])
        + data[len(data) * (k + 1) // 20 + 1 :]
    ),
    "another_file": lambda data, k: b"\x7fELF" + data[::-1],
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_cache_is_built_again(kind, filled, program, tmp_path):
    files = files_of(tmp_path / "cache")
    assert {name.split(os.sep)[1] for name in files} >= {"kernels", "plan"}
    for k, name in enumerate(files):
        path = tmp_path / "cache" / name
        path.write_bytes(DAMAGE[kind](path.read_bytes(), k))
    text = program(BOTH)
    assert text in (WARM, COLD), text
    assert program(BOTH) == WARM
    assert files_of(tmp_path / "cache") == files


def trailer_of(data):
    """As src/toolchain/disk_cache.cpp writes it: SipHash-2-4 of 128 bits under a fixed key."""
    mask = (1 << 64) - 1
    k0, k1 = 0x6B736964, 0x6568636163
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def turn(x, b):
        return ((x << b) | (x >> (64 - b))) & mask

    def mix(rounds):
        for _ in range(rounds):
            v[0] = (v[0] + v[1]) & mask
            v[1] = turn(v[1], 13) ^ v[0]
            v[0] = turn(v[0], 32)
            v[2] = (v[2] + v[3]) & mask
            v[3] = turn(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = turn(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = turn(v[1], 17) ^ v[2]
            v[2] = turn(v[2], 32)

    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, whole, 8)]
    words.append((len(data) & 0xFF) << 56 | int.from_bytes(data[whole:], "little"))
    for word in words:
        v[3] ^= word
        mix(2)
        v[0] ^= word
    v[2] ^= 0xEE
    mix(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    mix(4)
    high = v[0] ^ v[1] ^ v[2] ^ v[3]
    return b"BRAZE-1\n" + b"".join(n.to_bytes(8, "little") for n in (len(data), low, high))


@pytest.mark.parametrize("bytes_left", [64, 4096, 8192, -1])
def test_a_short_library_with_a_right_digest(bytes_left, filled, program, tmp_path):
    """What an earlier version took from a compiler that was cut off."""
    for name in files_of(tmp_path / "cache"):
        if "kernels" in name:
            path = tmp_path / "cache" / name
            data = path.read_bytes()
            assert trailer_of(data[:-32]) == data[-32:]
            data = data[:-32][:bytes_left]
            path.write_bytes(data + trailer_of(data))
    assert program(BOTH) == WARM  # the plans; the kernels are built again
    assert program(BOTH) == WARM


LIMITS = [0, 1, 100, 3000, 5000, 9000, 15000, 17000, 20000, 30000, 60000]


@pytest.mark.parametrize("limit", LIMITS)
def test_files_that_cannot_grow(limit, program, tmp_path):
    """As on a full disk, writes fail in the middle: of the cache, the source, the compiler's files."""
    limited = (
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        'os.dup2(os.open("/dev/null", os.O_WRONLY), 1)\n'
        'os.dup2(os.open("/dev/null", os.O_WRONLY), 2)\n'
    )
    for _ in range(2):
        program(limited + BOTH)
    assert os.listdir(tmp_path / "tmp") == []
    assert not [name for name in files_of(tmp_path / "cache") if ".tmp" in name]
    assert program(BOTH) in (WARM, COLD)
    assert program(BOTH) == WARM


@pytest.mark.parametrize("which", ["cache", "tmp", "both"])
@pytest.mark.parametrize("kilobytes", [4, 16, 32, 64])
def test_a_full_disk(which, kilobytes, program, tmp_path):
    mount = tmp_path / "disk"
    mount.mkdir()
    if os.system(f"mount -t tmpfs -o size={kilobytes}k,mode=0755 none {mount} 2>/dev/null"):
        pytest.skip("takes the right to mount; lifted by running as root in a mount namespace")
    try:
        environment = {"BRAZE_CACHE_DIR": mount / "cache"} if which != "tmp" else {}
        if which != "cache":
            environment["TMPDIR"] = mount
        for _ in range(2):
            text = program(BOTH, **environment)
            assert "['plan']" in text and "report this" not in text, text
        if which == "tmp":
            assert program(BOTH).endswith("]\n")
    finally:
        os.system(f"umount {mount}")


PLACES = {
    "not_utf8": "bad-\udcff\udcfe",
    "newline": "a\nb",
    "quotes": "a'b\"c",
    "shell": "$(exit 3);b",
    "percent": "%s%n",
    "unicode": "\u00e9\u4e2d\U0001f600",
    "blank": "a b",
    "long": "a" * 250,
    "dash": "-o",
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("variable", ["BRAZE_CACHE_DIR", "TMPDIR", "HOME", "XDG_CACHE_HOME", "CXX"])
def test_odd_places(variable, name, program, tmp_path):
    place = tmp_path / PLACES[name]
    if variable != "CXX":
        place.mkdir()
    else:
        place = tmp_path / "bin" / PLACES[name]
        place.parent.mkdir()
        place.symlink_to(shutil.which("g++"))
    environment = {variable: place}
    if variable in ("HOME", "XDG_CACHE_HOME"):
        environment["BRAZE_CACHE_DIR"] = ""
        if variable == "HOME":
            environment["XDG_CACHE_HOME"] = ""
    source = BOTH + "assert braze._C.options() and braze._C.host_compiler()\nbraze.explain(f)(X)\n"
    if variable == "CXX":
        source += 'print(os.fsencode(braze._C.options()["cxx"]))\n'
    text = program(source, **environment)
    assert "['plan']" in text and "Traceback" not in text, text
    if variable == "CXX":
        assert repr(os.fsencode(str(place))) in text
    assert program(source, **environment)


@pytest.mark.parametrize("variable", ["PATH", "BRAZE_LOG", "BRAZE_ISA", "SOMETHING_ELSE"])
def test_variables_that_are_no_utf8(variable, program):
    value = os.environ.get(variable, "graph") + ":/x-\udcff"
    text = program(BOTH + "str(braze._C.options())\n", **{variable: value})
    assert "['plan']" in text and "Traceback" not in text, text


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii:strict", "utf-8:surrogateescape"])
def test_the_command_line_tells_of_odd_places(encoding, program, tmp_path):
    place = tmp_path / "bad-\udcff"
    place.symlink_to(shutil.which("g++"))
    import subprocess

    environment = {**os.environ, "CXX": str(place), "BRAZE_CACHE_DIR": str(tmp_path / "\udcfe")}
    environment["PYTHONIOENCODING"] = encoding
    done = subprocess.run(
        [sys.executable, "-m", "braze"], env=environment, capture_output=True, timeout=120
    )
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr


FOLDERS = {
    "file": lambda at: at.write_text("x"),
    "device": lambda at: at.symlink_to("/dev/null"),
    "proc": lambda at: at.symlink_to("/proc"),
    "dangling": lambda at: at.symlink_to("/no/such/place"),
    "loop": lambda at: at.symlink_to(at),
    "pipe": lambda at: os.mkfifo(at),
    "missing": lambda at: None,
    "kind_is_a_file": lambda at: ((at / "v1").mkdir(parents=True), (at / "v1/plan").write_text("")),
    "kernels_is_a_pipe": lambda at: ((at / "v1").mkdir(parents=True), os.mkfifo(at / "v1/kernels")),
}


@pytest.mark.parametrize("variable", ["BRAZE_CACHE_DIR", "TMPDIR"])
@pytest.mark.parametrize("name", FOLDERS)
def test_folders_that_are_none(variable, name, program, tmp_path):
    place = tmp_path / "place"
    FOLDERS[name](place)
    text = program(BOTH, **{variable: place})
    assert "['plan']" in text and "report this" not in text, text


ENTRIES = {
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "dangling_link": lambda path: (path.unlink(), path.symlink_to("/no/such/place")),
    "loop": lambda path: (path.unlink(), path.symlink_to(path)),
    "link_to_a_good_one": lambda path: (
        path.rename(path.with_suffix(".x")),
        path.symlink_to(path.with_suffix(".x")),
    ),
    "writable_by_all": lambda path: path.chmod(0o666),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_that_are_no_files(name, filled, program, tmp_path):
    for file in files_of(tmp_path / "cache"):
        ENTRIES[name](tmp_path / "cache" / file)
    for _ in range(2):
        text = program(BOTH)
        assert text.endswith((WARM, COLD)) and "Traceback" not in text, text


def test_a_library_cut_while_it_is_in_use_elsewhere(program, tmp_path):
    """Entries are replaced, never written to: what another process has open stays whole."""
    program(
        """
        fast = braze.compile(f)
        same(fast(X), W)
        folder = os.environ["BRAZE_CACHE_DIR"] + "/v1/kernels/"
        for name in os.listdir(folder):
            os.unlink(folder + name)
        same(fast(X), W)
        braze.reset()
        same(fast(X), W)
        assert len(os.listdir(folder)) == 1
        """
    )


def test_no_file_descriptors(program):
    program(
        """
        held = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        try:
            while True:
                held.append(open("/dev/null"))
        except OSError:
            pass
        fast = braze.compile(f)
        same(fast(X), W)
        for file in held:
            file.close()
        assert once() == ["plan"]
        """
    )


def test_standard_streams_are_closed(program):
    program(
        """
        for descriptor in range(3):
            os.close(descriptor)
        kinds = once()
        os._exit(0 if kinds == ["plan"] else 5)
        """
    )
