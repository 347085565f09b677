"""Many random programs, plainly and compiled, over processes; what differs is made small.

    python tests/python/language/run_programs.py --programs 50000 --seed 0 -j 2
    python tests/python/language/run_programs.py --only 1234 --kind function --dynamic   # one, made small

Each seed is a program of one of the kinds with `dynamic=None` or `dynamic=True`, in turn. A process
that crashes or hangs is a finding. Exit status 1 and the small programs on the output if any differ.
"""

import argparse
import concurrent.futures
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[2])]
os.environ.setdefault("BRAZE_CACHE_DIR", tempfile.mkdtemp(prefix="braze-test-cache-"))

CHUNK = 250  # a process each
SECONDS = 900  # of a chunk
CONTINUED = re.compile(r"(except|else|elif|finally)\b")
BEGIN = re.compile(r"^(async )?def f\(", re.MULTILINE)


def variant(seed):
    """(kind, dynamic) of a seed."""
    from programs import KINDS

    return KINDS[0 if seed % 3 else seed // 3 % 4], True if seed // 2 % 2 else None


def failure(source, dynamic):
    """What differs, as text; None if nothing does, or if it is no program."""
    if not compiles(source):
        return None
    import torch
    from program_running import difference

    with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):
        try:
            return difference(source, dynamic=dynamic)
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def lines_of_block(lines, begin):
    """The number of lines of the statement that begins here, with its blocks."""

    def depth(line):
        return len(line) - len(line.lstrip())

    end = begin + 1
    while end < len(lines) and (
        depth(lines[end]) > depth(lines[begin])
        or (depth(lines[end]) == depth(lines[begin]) and CONTINUED.match(lines[end].lstrip()))
    ):
        end += 1
    return end - begin


def shrunk(source, fails):
    """The program with statements left out, as long as it fails."""
    begin = BEGIN.search(source).start()
    prelude, lines = source[:begin], source[begin:].rstrip().split("\n")
    changed = True
    while changed:
        changed = False
        at = len(lines) - 2  # the last line gives the result back
        while at > 0:
            count = lines_of_block(lines, at)
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            for put in ([], [indent + "pass"]):
                trial = lines[:at] + put + lines[at + count :]
                text = prelude + "\n".join(trial) + "\n"
                if trial != lines and compiles(text) and fails(text):
                    lines, changed = trial, True
                    break
            at -= 1
    return prelude + "\n".join(lines) + "\n"


def compiles(text):
    try:
        compile(text, "<program>", "exec")
    except SyntaxError:
        return False
    return True


def program_of(seed, kind):
    from programs import LIBRARIES, program

    return program(seed, kind, wide=LIBRARIES)


def serve(first, last):
    """In a process of its own: a line of JSON for each seed that differs, and one that it is done."""
    import torch

    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for seed in range(first, last):
        print(json.dumps({"begun": seed}), file=answers)
        kind, dynamic = variant(seed)
        found = failure(program_of(seed, kind), dynamic)
        if found:
            print(json.dumps({"seed": seed, "what": found[:2000]}), file=answers)
    print(json.dumps({"done": last}), file=answers)


def run_chunk(first, last):
    """[(seed, what)] of the programs that differ, crash or hang."""
    found = []
    while first < last:
        command = [sys.executable, "-W", "ignore", __file__, "--serve", str(first), str(last)]
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            try:
                code = subprocess.run(command, stdout=out, stderr=err, timeout=SECONDS).returncode
                what = f"exit status {code}"
            except subprocess.TimeoutExpired:
                what = f"hangs: not done within {SECONDS} s"
            out.seek(0)
            answers = [json.loads(line) for line in out.read().splitlines()]
            err.seek(0)
            said = err.read()
        found += [(a["seed"], a["what"]) for a in answers if "seed" in a]
        if "Please report" in said:
            found.append((first, f"one of this chunk: {said[-1500:]}"))
        if answers and "done" in answers[-1]:
            break
        at = answers[-1].get("begun", first) if answers else first
        found.append((at, f"{what}: {said[-1500:]}"))
        first = at + 1
    return found


class TooLong(BaseException):
    pass


def stop(signal_number, frame):
    raise TooLong


def fails_soon(source, dynamic):
    """Whether it fails; a program made smaller may never end, and catch what ends it once."""
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 5, 0.2)
    try:
        return failure(source, dynamic) is not None
    except TooLong:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def show(seed, kind, dynamic, keep=False):
    source = program_of(seed, kind)
    found = failure(source, dynamic)
    print(f"--- program {seed}, {kind}, dynamic={dynamic}: {found or 'equal'}", flush=True)
    if found:
        small = shrunk(source, lambda text: fails_soon(text, dynamic))
        function = small[BEGIN.search(small).start() :]
        print(function)
        print(f"# {failure(small, dynamic)}", flush=True)
        if keep:
            head = json.dumps({"dynamic": dynamic})
            (HERE / "corpus" / f"seed_{seed}.py").write_text(f"# {head}\n{function}")
    return found is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("-j", dest="jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", type=int, help="show this program, made small")
    parser.add_argument("--kind", help="its kind, if not the one of its seed")
    parser.add_argument("--dynamic", action="store_const", const=True, help="not that of its seed")
    parser.add_argument("--keep", action="store_true", help="and put it into corpus/")
    parser.add_argument("--serve", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return 0
    if options.only is not None:
        kind, dynamic = variant(options.only)
        if options.kind:
            kind, dynamic = options.kind, options.dynamic
        return show(options.only, kind, dynamic, options.keep)
    last = options.seed + options.programs
    chunks = [(at, min(at + CHUNK, last)) for at in range(options.seed, last, CHUNK)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done, found in enumerate(pool.map(lambda c: run_chunk(*c), chunks), 1):
            for seed, what in found:
                failed += 1
                print(f"{seed} {variant(seed)}: {what}", flush=True)
                if options.keep:
                    show(seed, *variant(seed), keep=True)
            if done % 20 == 0:
                print(f"{done * CHUNK} programs, {failed} differ", flush=True)
    print(f"{options.programs} programs from {options.seed}: {failed} differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
