"""Public Python code, eager against `braze.compile`: what differs.

    python tests/public/run.py                      # everything; minutes to hours
    python tests/public/run.py --quick              # a sample of torch's own, for `make test`
    python tests/public/run.py kornia -k rgb        # of a group, subjects whose name contains this
    python tests/public/run.py --report docs/fidelity.md

Subjects are tried by worker processes, each of which handles many; one that crashes or hangs is a
finding, and its worker is started again. Exit status 1 if something differs that is not listed in
`listed.txt` with its reason.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import report
from subjects import GROUPS

HERE = Path(__file__).resolve().parent
EAGER_SECONDS = 45  # until eager has accepted and run a subject
SECONDS = 90  # of each of its cases compiled
START = 120  # of a worker's imports


class Worker:
    """A process that tries subjects of one group."""

    def __init__(self, group, backend):
        self.command = [
            sys.executable,
            "-W",
            "ignore",
            "-X",
            "faulthandler",
            str(HERE / "worker.py"),
            group,
        ]
        self.command += ["--backend", backend]
        self.process = None

    def start(self):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.answers = queue.Queue()
        threading.Thread(target=self.read, args=(self.process, self.answers), daemon=True).start()

    @staticmethod
    def read(process, answers):
        for line in process.stdout:
            answers.put(line)
        answers.put(None)

    def run(self, name):
        fresh = self.process is None
        if fresh:
            self.start()
        limit, compiled = EAGER_SECONDS + (START if fresh else 0), False
        line = ""
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
            while (line := self.answers.get(timeout=limit)) is not None:
                found = json.loads(line)
                if "status" in found:
                    return found
                limit, compiled = SECONDS, True
        except queue.Empty:
            self.stop()
            status, what = "hang", f"no answer within {limit} s"
        except BrokenPipeError:
            line = None
        if line is None:
            code = self.process.wait()
            self.errors.seek(0)
            status, what = "crash", f"exit status {code}: {self.errors.read()[-1500:]}"
            self.stop()
        # What eager itself does not survive is not tried.
        return {"name": name, "status": status if compiled else "refused", "what": what}

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def names_of(group):
    command = [sys.executable, "-W", "ignore", str(HERE / "worker.py"), group, "--list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{group}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def try_all(group, names, jobs, backend, told=lambda found: None):
    """The results of the subjects, in the order of their names."""
    waiting = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    results = {}

    def serve():
        worker = Worker(group, backend)
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                break
            begin = time.monotonic()
            found = worker.run(name)
            if found["status"] in ("broken", "hang"):  # for want of memory or time, perhaps
                worker.stop()
                found = worker.run(name)
            found["seconds"] = round(time.monotonic() - begin, 2)
            results[name] = found
            told(found)
        worker.stop()

    threads = [threading.Thread(target=serve) for _ in range(min(jobs, len(names) or 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[name] for name in names]


def quick_sample(group, names):
    """A part of a group's subjects that is spread over all of them, the same each time."""
    step = report.QUICK.get(group, 0)
    return names[::step] if step else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("-k", dest="only", help="subjects whose name contains this")
    parser.add_argument("-j", dest="jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--backend", default="aten")
    parser.add_argument(
        "--results", help="a file of JSON lines for all results; those in it are kept"
    )
    parser.add_argument("--report", help="a file of Markdown")
    options = parser.parse_args()
    groups = options.groups or (list(report.QUICK) if options.quick else list(GROUPS))
    listed = report.read_listed(HERE / "listed.txt")
    done = {}
    if options.results and Path(options.results).exists():
        for line in Path(options.results).read_text().splitlines():
            found = json.loads(line)
            done[found["group"], found["name"]] = found
    everything, failed = [], 0
    for group in groups:
        names = names_of(group)
        if options.only:
            names = [name for name in names if options.only in name]
        if options.quick:
            names = quick_sample(group, names)
        old = [done[group, name] for name in names if (group, name) in done]
        names = [name for name in names if (group, name) not in done]

        def told(found, group=group):
            found["group"] = group
            if options.results:
                with open(options.results, "a") as file:
                    file.write(json.dumps(found) + "\n")
            if found["status"] in report.BAD:
                reason = report.reason_of(found, listed)
                mark = "listed" if reason else found["status"].upper()
                print(f"  {mark} {found['name']}: {found['what'][:600]}", flush=True)

        begin = time.monotonic()
        found = old + try_all(group, names, options.jobs, options.backend, told)
        everything += found
        counts = report.count(found, listed)
        failed += counts["unlisted"]
        print(f"{group}: {report.in_words(counts)} ({time.monotonic() - begin:.0f} s)", flush=True)
    total = report.count(everything, listed)
    print(f"together: {report.in_words(total)}")
    if options.report:
        Path(options.report).write_text(report.markdown(everything, listed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
