"""Runs CPython's own test modules: each test method plainly and, if it passes, compiled by Braze.

    python tests/cpython_suite/run.py                    # all modules, one process for each
    python tests/cpython_suite/run.py test_list test_set
    python tests/cpython_suite/run.py --here test_list   # in this process, with tracebacks

A method that passes plainly must pass compiled, and its capture must not have raised: what raises
while it is captured runs again in eager, which would hide that it was evaluated wrongly. Exit
status 1 and a list of failures otherwise.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
import time
import unittest

MODULES = [
    "test_list",
    "test_dict",
    "test_set",
    "test_generators",
    "test_contextlib",
    "test_exceptions",
    "test_itertools",
    "test_functools",
    "test_dataclasses",
    "test_enum",
    "test_patma",
    "test_with",
    "test_scope",
    "test_descr",
    "test_unpack",
    "test_unpack_ex",
]
# Methods that are not run, each with its reason.
LEFT_OUT = {
    "test_exceptions.ExceptionTests.test_memory_error_in_PyErr_PrintEx": "a minute of subprocesses",
    "test_exceptions.ExceptionTests.test_memory_error_cleanup": "a minute of subprocesses",
}
# What fails compiled although it passes plainly, each with its reason.
EXPECTED_FAILURES = {}
# Exceptions for which a capture always leaves the call to eager.
BREAKS = ("MemoryError", "KeyboardInterrupt is raised")
SECONDS = 400


def methods(module):
    """The test cases of a module; doctests have no function to compile."""

    def flat(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from flat(test)
            elif type(test).__module__ != "doctest" and hasattr(test, "_testMethodName"):
                yield test

    return flat(unittest.defaultTestLoader.loadTestsFromModule(module))


def outcome(test):
    """ "passed", "skipped", or why it failed."""
    result = unittest.TestResult()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        suite = unittest.TestSuite([test])
        suite.run(result)
    if result.skipped or result.expectedFailures:
        return "skipped"
    problems = result.errors + result.failures
    return problems[0][1] if problems else "passed"


def run_module(name, only=None):
    import braze
    from braze import _api

    module = importlib.import_module("test." + name)
    counts = {"passed": 0, "captured whole": 0, "not plainly": 0}
    reasons = collections.Counter()
    failures = []
    for test in methods(module):
        label = f"{name}.{type(test).__name__}.{test._testMethodName}"
        if label in LEFT_OUT or (only and only not in label):
            continue
        if outcome(test) != "passed":
            counts["not plainly"] += 1
            continue
        again = type(test)(test._testMethodName)
        if os.environ.get("BRAZE_SUITE_VERBOSE"):
            print(label, file=sys.stderr, flush=True)
        try:
            compiled = braze.compile(getattr(again, test._testMethodName))
        except TypeError:  # not a Python function: nothing to compile
            counts["not plainly"] += 1
            continue
        setattr(again, test._testMethodName, compiled)
        said = outcome(again)
        entries = _api.compiled_function_of(compiled)._entries()
        counts["captured whole"] += any(entry["exit"] == "return" for entry in entries)
        for entry in entries:
            raised = entry["reason"] and "an exception was raised while tracing" in entry["reason"]
            if raised and entry["reason_what"] not in BREAKS:
                said = entry["reason"] + "\nraised while tracing: " + entry["reason_what"]
            if entry["reason"]:
                reasons[entry["reason_what"]] += 1
        if said == "passed":
            counts["passed"] += 1
        else:
            failures.append([label, said])
    return {"counts": counts, "failures": failures, "reasons": reasons.most_common(8)}


def run_in_process(name):
    start = time.monotonic()
    command = [sys.executable, "-W", "ignore", "-X", "faulthandler", __file__, "--json", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        lines = done.stdout.strip().splitlines()
        found = json.loads(lines[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        said = done.stderr if not isinstance(error, subprocess.TimeoutExpired) else str(error)
        found = {"counts": {}, "failures": [[name + ".*", said[-3000:]]]}
    found["seconds"] = time.monotonic() - start
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--here", action="store_true", help="in this process")
    parser.add_argument("--json", action="store_true", help="in this process, result as JSON")
    parser.add_argument("-k", dest="only", help="methods whose name contains this")
    parser.add_argument("--reasons", action="store_true", help="the most frequent breaks")
    parser.add_argument("-v", action="store_true", help="whole tracebacks")
    options = parser.parse_args()
    names = options.modules or MODULES
    if options.json:
        real = sys.stdout
        sys.stdout = sys.stderr
        found = run_module(names[0], options.only)
        print(json.dumps(found), file=real)
        return 0
    if options.here:
        results = ((name, run_module(name, options.only)) for name in names)
    else:
        pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        results = zip(names, pool.map(run_in_process, names))
    failed = 0
    for name, found in results:
        counts = ", ".join(f"{v} {k}" for k, v in found["counts"].items())
        print(f"{name}: {counts} ({found.get('seconds', 0):.0f} s)", flush=True)
        for reason, times in found.get("reasons", ()) if options.reasons else ():
            print(f"    {times} x {reason}")
        for label, said in found["failures"]:
            if label in EXPECTED_FAILURES:
                continue
            failed += 1
            text = said if options.v else said.strip().splitlines()[-1][:200]
            print(f"  FAILED {label}: {text}", flush=True)
    if failed:
        print(f"{failed} methods pass plainly and fail compiled")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
