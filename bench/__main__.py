"""Command line of the benchmarks."""

import argparse
import json
import sys
from pathlib import Path

from bench import processes, report, suites
from bench.compilers import COMPILERS
from bench.models import CAPTURED, MODELS
from bench.training import TRAINED

SUITES = ("models", "overhead", "compile_time", "sizes", "capture", "scans", "draws", "optimizers")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "suites", nargs="+", choices=SUITES, metavar="SUITE", help=", ".join(SUITES)
    )
    parser.add_argument("--json", type=Path, help="write every record there")
    parser.add_argument("--markdown", type=Path, help="write the tables there, not to stdout")
    parser.add_argument(
        "--models", nargs="+", default=None, choices={**MODELS, **CAPTURED, **TRAINED}
    )
    parser.add_argument("--mode", default="infer", choices=("infer", "train"), help="of the models")
    parser.add_argument("--compilers", nargs="+", default=["inductor", "braze"], choices=COMPILERS)
    parser.add_argument("--samples", type=int, default=30, help="of each timing")
    parser.add_argument("--quick", action="store_true", help="5 samples, one process per model")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    samples = 5 if arguments.quick else arguments.samples
    machine = processes.run("machine", {})
    machine.pop("stderr")
    results = {}
    for suite in dict.fromkeys(arguments.suites):
        if suite == "models" and arguments.mode == "train":
            suite = "training"
        known = {"capture": CAPTURED, "training": TRAINED}.get(suite, MODELS)
        names = [name for name in arguments.models or known if name in known]
        if suite == "models":
            records = suites.models(names, arguments.compilers, samples, arguments.quick)
        elif suite == "training":
            records = suites.training(names, arguments.compilers, samples, arguments.quick)
        elif suite == "overhead":
            records = suites.overhead(arguments.compilers, samples)
        elif suite == "sizes":
            records = suites.sizes(samples)
        elif suite == "scans":
            records = suites.scans(samples)
        elif suite == "draws":
            records = suites.draws(samples)
        elif suite == "optimizers":
            records = suites.optimizers(arguments.compilers, samples)
        elif suite == "capture":
            records = suites.capture(names, samples)
        else:
            records = suites.compile_time(names, arguments.compilers)
        results[suite] = records
        # Behind each suite: the whole takes minutes, and may be interrupted.
        if arguments.json:
            arguments.json.write_text(json.dumps({"machine": machine, **results}, indent=1) + "\n")
        if arguments.markdown:
            arguments.markdown.parent.mkdir(parents=True, exist_ok=True)
            arguments.markdown.write_text(report.markdown(machine, results))
    if not arguments.markdown:
        print(report.markdown(machine, results), end="")
    failed = [record for records in results.values() for record in records if "error" in record]
    for record in failed:
        suites.say(record["error"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
