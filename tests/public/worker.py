"""Tries subjects of one group, one for each line of its input; a line of JSON for each result.

python tests/public/worker.py GROUP --list
echo torch.nn.init.normal_ | python tests/public/worker.py torch.nn.init
"""

import argparse
import gc
import json
import os
import resource
import sys
import tempfile
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("BRAZE_CACHE_DIR", tempfile.mkdtemp(prefix="braze-public-cache-"))
MEMORY = 12 << 30  # bytes of addresses


def try_subject(build, backend, begin):
    import compare

    with_breaks = 0
    cases = [case for case in build() if case is not None]
    if not cases:
        return {"status": "refused"}
    statuses = []
    for case in cases:
        status, text, breaks = compare.check(case, (None, True), backend, begin)
        with_breaks += breaks
        if status in ("differs", "fake"):
            return {"status": status, "what": text, "breaks": with_breaks}
        statuses.append((status, text))
    tried = [status for status, _ in statuses if status in ("equal", "asks")]
    if not tried:
        return {"status": statuses[0][0], "what": statuses[0][1]}
    return {"status": "asks" if "asks" in tried else "equal", "breaks": with_breaks}


def broken(error, show):
    if show:
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(last.filename)}:{last.lineno}"
    text = f"{type(error).__name__}: {str(error)[:300]} ({where})"
    return {"status": "broken", "what": text}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("group")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--backend", default="aten")
    parser.add_argument("--here", action="store_true", help="show what is printed and raised")
    options = parser.parse_args()
    # A subject may close the streams that it knows.
    answers, questions = os.fdopen(os.dup(1), "w", buffering=1), os.fdopen(os.dup(0))
    if not options.here:
        # What the subjects print is of no interest.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

    import torch
    from subjects import group

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    table = group(options.group)
    if options.list:
        print(json.dumps(sorted(table)), file=answers)
        return
    os.chdir(tempfile.mkdtemp(prefix="braze-public-"))
    gc.collect()
    gc.freeze()  # only what the subjects make is looked through for fakes

    def begin():
        print(json.dumps({"name": name, "compiled": True}), file=answers)

    for line in questions:
        name = line.strip()
        try:
            found = try_subject(table[name], options.backend, begin)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
                found = broken(error, options.here)
            else:
                found = {"status": "refused", "what": f"needs more than {MEMORY >> 30} GB"}
        except BaseException as error:
            found = broken(error, options.here)
        print(json.dumps({"name": name, **found}), file=answers)


if __name__ == "__main__":
    main()
