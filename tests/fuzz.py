"""Fresh random programs for as long as given, each lane a part of the time.

    python tests/fuzz.py --seconds 600 [--seed N] [-j JOBS] [--cpp BUILD]
    python tests/fuzz.py --lane places --cases 10000

The seed is printed; with `--seed` the same cases come again. What fails is made small and put into
the corpus that the normal tests repeat. Lanes: programs of the language, of tensors of all dtypes
(with products and attention large enough for their own kernels), of running values and computed
places, of functions that are trained (views, writes in place, hooks, several results, double
backward; every tenth through generated code, the rest through PyTorch's operators), and, with a
build folder, random graphs and kernels through the C++ compiler. Exit status 1 if anything differs.
"""

import argparse
import concurrent.futures
import os
import secrets
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / "tests" / "python"
LANGUAGE = 500  # programs of a run
TENSORS = 50
GRAPHS = 20
CPP = {  # the tests of a binary that take BRAZE_FUZZ_SEED and BRAZE_FUZZ_COUNT
    "braze_compile_test": "CompileFuzz.DISABLED_ManyKernels:SymbolicFuzz.DISABLED_ManyRandomGraphs"
}


def say(text):
    print(text, flush=True)


def run(command, **environment):
    """What a process says; None if it ends well."""
    ended = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **environment},
    )
    if ended.returncode == 0:
        return None
    return f"{shlex.join(map(str, command))} ended with {ended.returncode}\n{ended.stdout[-4000:]}"


def language(first):
    script = PYTHON / "language" / "run_programs.py"
    return run(
        [sys.executable, script, "--programs", str(LANGUAGE), "--seed", str(first), "-j", "1"]
        + ["--keep"]
    )


def tensors(first):
    return run([sys.executable, __file__, "--tensors", str(first)])


def places(first):
    return run([sys.executable, __file__, "--tensors", str(first), "--lane", "places"])


def training(first):
    return run([sys.executable, __file__, "--tensors", str(first), "--lane", "training"])


def run_training(first):
    """In a process of its own: the seeds whose gradients differ, and each made small."""
    sys.path[:0] = [str(PYTHON / "training"), str(PYTHON), str(ROOT)]
    import torch
    import trained_programs

    failed = 0
    torch.set_num_threads(1)
    for seed in range(first, first + TENSORS):
        backend = "braze" if seed % 10 == 0 else "aten"
        found = trained_programs.difference(trained_programs.generate(seed), backend)
        if found is None:
            continue
        failed += 1
        say(f"training, {backend}, {trained_programs.show(seed, found)}")
    return failed > 0


def run_tensors(first, places):
    """In a process of its own: the seeds that differ, made small into the corpus."""
    sys.path[:0] = [str(PYTHON / "api"), str(PYTHON), str(ROOT)]
    import tensor_programs
    import torch

    failed = 0
    torch.set_num_threads(1)
    with torch.no_grad():
        for seed in range(first, first + TENSORS):
            source = tensor_programs.program(seed, in_place=seed % 3 == 0, places=places)
            found = tensor_programs.failure(source)
            if found is None:
                continue
            failed += 1
            small = tensor_programs.shrunk(source)
            name = f"places_{seed}.py" if places else f"seed_{seed}.py"
            (PYTHON / "api" / "corpus" / name).write_text(small)
            say(f"tensors, seed {seed}: {found}\n{small}")
    return failed > 0


def cpp(build, first):
    for binary, tests in CPP.items():
        found = run(
            [build / binary, f"--gtest_filter={tests}", "--gtest_also_run_disabled_tests"],
            BRAZE_FUZZ_SEED=str(first),
            BRAZE_FUZZ_COUNT=str(GRAPHS),
        )
        if found:
            return found
    return None


def goes_on(cases, done, end):
    return time.monotonic() < end if cases is None else done < cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--cases", type=int, help="of each lane, however long they take")
    parser.add_argument("--lane", choices=("language", "tensors", "places", "training", "cpp"))
    parser.add_argument("--seed", type=int)
    parser.add_argument("-j", dest="jobs", type=int, default=os.cpu_count())
    parser.add_argument("--cpp", type=Path, help="a build folder with the C++ tests")
    parser.add_argument("--tensors", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tensors is not None and options.lane == "training":
        return run_training(options.tensors)
    if options.tensors is not None:
        return run_tensors(options.tensors, options.lane == "places")
    seed = secrets.randbelow(1 << 30) if options.seed is None else options.seed
    say(f"--seed {seed}")
    lanes = {
        "language": (language, LANGUAGE),
        "tensors": (tensors, TENSORS),
        "places": (places, TENSORS),
        "training": (training, TENSORS),
    }
    if options.cpp:
        lanes["cpp"] = (lambda first: cpp(options.cpp, first), GRAPHS)
    if options.lane == "cpp" and not options.cpp:
        parser.error("the lane cpp needs --cpp")
    if options.lane:
        lanes = {options.lane: lanes[options.lane]}
    failed = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, (lane, count) in lanes.items():
            end = time.monotonic() + options.seconds / len(lanes)
            done, under_way = 0, set()
            while goes_on(options.cases, done, end) or under_way:
                while goes_on(options.cases, done, end) and len(under_way) < options.jobs:
                    under_way.add(pool.submit(lane, seed + done))
                    done += count
                ready, under_way = concurrent.futures.wait(
                    under_way, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for found in filter(None, (future.result() for future in ready)):
                    failed = True
                    say(f"{name}: {found}")
            say(f"{name}: {done} cases from {seed}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
