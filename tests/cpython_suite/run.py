"""Runs CPython's own test modules: each test method plainly and, if it passes, compiled by Braze.
A doctest counts as a method: its examples become the body of one function (doctests.py).

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
import doctest
import importlib.util
import io
import json
import os
import subprocess
import sys
import time
import unittest

import doctests

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


class Method:
    """A test method of unittest."""

    def __init__(self, test):
        self.name = f"{type(test).__name__}.{test._testMethodName}"
        self.make = lambda: type(test)(test._testMethodName)

    def function(self):
        self.test = self.make()
        return getattr(self.test, self.test._testMethodName)

    def outcome(self, function=None):
        """ "passed", "skipped", or why it failed."""
        test = self.test if function else self.make()
        if function:
            setattr(test, test._testMethodName, function)
        result = unittest.TestResult()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            unittest.TestSuite([test]).run(result)
        if result.skipped or result.expectedFailures:
            return "skipped"
        problems = result.errors + result.failures
        return problems[0][1] if problems else "passed"


class Doctest:
    """The examples of a docstring."""

    def __init__(self, test):
        self.test = test
        self.name = "doctest." + test._dt_test.name

    def function(self):
        function, self.examples = doctests.function_of(self.test._dt_test)
        return function

    def outcome(self, function=None):
        return doctests.outcome(
            function or self.function(), self.examples, self.test._dt_optionflags
        )


def cases(module):
    def flat(suite):
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                yield from flat(test)
            elif isinstance(test, doctest.DocTestCase):
                if any(example.source for example in test._dt_test.examples):
                    yield Doctest(test)
            elif hasattr(test, "_testMethodName"):
                yield Method(test)

    return flat(unittest.defaultTestLoader.loadTestsFromModule(module))


def run_compiled(case):
    """What the case says when its function is compiled, and the entries; None: not compilable."""
    import braze
    from braze import _api

    try:
        compiled = braze.compile(case.function())
    except TypeError:  # not a Python function
        return None
    said = case.outcome(compiled)
    entries = _api.compiled_function_of(compiled)._entries()
    for entry in entries:
        raised = entry["reason"] and "an exception was raised while tracing" in entry["reason"]
        if raised and entry["reason_what"] not in BREAKS:
            said = entry["reason"] + "\nraised while tracing: " + entry["reason_what"]
    return said, entries


def run_module(name, only=None):
    module = importlib.import_module("test." + name)
    counts = {"passed": 0, "captured whole": 0, "not plainly": 0}
    reasons = collections.Counter()
    failures = []
    for case in cases(module):
        label = f"{name}.{case.name}"
        if label in LEFT_OUT or (only and only not in label):
            continue
        if os.environ.get("BRAZE_SUITE_VERBOSE"):
            print(label, file=sys.stderr, flush=True)
        done = run_compiled(case) if case.outcome() == "passed" else None
        if done is None:
            counts["not plainly"] += 1
            continue
        said, entries = done
        counts["captured whole"] += any(entry["exit"] == "return" for entry in entries)
        reasons.update(entry["reason_what"] for entry in entries if entry["reason"])
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
    if importlib.util.find_spec("test.test_list") is None:
        print(
            "NOT RUN: this Python has no package `test` with CPython's own tests "
            "(Debian: apt-get install libpython3.11-testsuite)"
        )
        return 0
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
