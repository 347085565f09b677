"""Command line of the benchmarks."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import distributed as copies
from bench import processes, report, suites
from bench.compilers import COMPILERS
from bench.device_models import DEVICE_MODELS
from bench.kernels import KERNELS
from bench.models import CAPTURED, MODELS
from bench.training import TRAINED

SUITES = (
    "models", "kernels", "overhead", "compile_time", "sizes", "capture", "scans", "draws",
    "optimizers", "memory", "distributed", "attention",
)  # fmt: skip
ON_CUDA = ("models", "kernels", "overhead", "memory", "distributed", "attention")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "suites", nargs="+", choices=SUITES, metavar="SUITE", help=", ".join(SUITES)
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--json", type=Path, help="write every record there, as it comes")
    parser.add_argument("--markdown", type=Path, help="write the tables there, not to stdout")
    parser.add_argument(
        "--models",
        nargs="+",
        default=None,
        choices={**MODELS, **CAPTURED, **TRAINED, **DEVICE_MODELS},
        help="on a GPU those of bench/device_models.py, which say themselves whether they train",
    )
    parser.add_argument(
        "--kernels", nargs="+", default=[""], help="those whose names have one of these in them"
    )
    parser.add_argument("--mode", default="infer", choices=("infer", "train"), help="of the models")
    parser.add_argument("--compilers", nargs="+", default=["inductor", "braze"], choices=COMPILERS)
    parser.add_argument("--samples", type=int, default=30, help="of each timing")
    parser.add_argument("--quick", action="store_true", help="5 samples, one process per model")
    parser.add_argument(
        "--resume", action="store_true", help="kernels that --json has figures of stay as they are"
    )
    arguments = parser.parse_args()
    if arguments.device == "cuda" and (cpu := set(arguments.suites) - set(ON_CUDA)):
        parser.error(f"only on a CPU: {', '.join(sorted(cpu))}")
    if arguments.device == "cpu" and "attention" in arguments.suites:
        parser.error("only on a GPU: attention")
    if arguments.resume and not arguments.json:
        parser.error("--resume needs --json")
    return arguments


def suite_of_models(arguments: argparse.Namespace) -> str:
    """Models of a GPU can be asked for on a CPU as well, by name."""
    asked = set(arguments.models or ())
    if arguments.device == "cuda" or (asked and asked <= set(DEVICE_MODELS)):
        return "device_models"
    return "training" if arguments.mode == "train" else "models"


def records(suite: str, arguments: argparse.Namespace, kept: list[dict]) -> Iterator[dict]:
    """The suite's, as they come, without those of what is `kept`."""
    samples = 5 if arguments.quick else arguments.samples
    compilers = arguments.compilers
    trained = {"training": TRAINED, "memory": TRAINED, "distributed": TRAINED}
    known = {"capture": CAPTURED, **trained}.get(suite, MODELS)
    if arguments.device == "cuda" or suite == "device_models":
        known = DEVICE_MODELS
    elif suite == "memory":
        known = {**known, **(DEVICE_MODELS if arguments.models else {})}
    names = [name for name in arguments.models or known if name in known]
    if suite == "models":
        return suites.models(names, compilers, samples, arguments.quick)
    if suite == "training":
        return suites.training(names, compilers, samples, arguments.quick)
    if suite == "device_models":
        return suites.device_models(names, arguments.device, compilers, samples, arguments.quick)
    if suite == "memory":
        return suites.memory(names, arguments.device, compilers)
    if suite == "kernels":
        done = {record["kernel"] for record in kept}
        asked = [name for name in KERNELS if any(part in name for part in arguments.kernels)]
        left = [name for name in asked if name not in done]
        return suites.kernels(left, arguments.device, compilers, samples, arguments.quick)
    if suite == "overhead":
        return suites.overhead(compilers, samples, arguments.device)
    if suite == "sizes":
        return suites.sizes(samples)
    if suite == "scans":
        return suites.scans(samples)
    if suite == "attention":
        return suites.attention(compilers, arguments.device, samples)
    if suite == "draws":
        return suites.draws(samples)
    if suite == "distributed":
        names = names if arguments.models else [copies.MODELS[arguments.device]]
        return suites.distributed(names, arguments.device, compilers, samples)
    if suite == "optimizers":
        return suites.optimizers(compilers, samples)
    if suite == "capture":
        return suites.capture(names, samples)
    return suites.compile_time(names, compilers)


def without_unfinished(kept: list[dict]) -> list[dict]:
    """Records of kernels that have all their figures, or that the device cannot run."""
    by_kernel: dict[str, list[dict]] = {}
    for record in kept:
        by_kernel.setdefault(record["kernel"], []).append(record)
    finished = []
    for name, found in by_kernel.items():
        directions = {record.get("direction") for record in found}
        kernel = KERNELS.get(name)
        wanted = {way for way in ("forward", "backward") if kernel and getattr(kernel, way)}
        if wanted <= directions or "skipped" in found[0]:
            finished += found
    return finished


def write(path: Path, text: str) -> None:
    """At once: whoever is ended while writing leaves what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    os.replace(fresh, path)


def collect(arguments: argparse.Namespace, machine: dict, results: dict[str, list[dict]]) -> None:
    """Fills `results` suite by suite; behind each record all of them are written."""
    for suite in dict.fromkeys(arguments.suites):
        if suite == "models":
            suite = suite_of_models(arguments)
        kept = results.setdefault(suite, [])
        for record in records(suite, arguments, list(kept)):
            kept.append(record)
            if arguments.json:
                text = json.dumps({"machine": machine, **results}, indent=1)
                write(arguments.json, text + "\n")
        if arguments.markdown:
            write(arguments.markdown, report.markdown(machine, results))


def _interrupt(*_) -> None:
    raise KeyboardInterrupt


def main() -> int:
    arguments = parse_arguments()
    machine = processes.run("machine", {}, device=arguments.device)
    machine.pop("stderr")
    results: dict[str, list[dict]] = {}
    if arguments.resume and arguments.json.exists():
        results = json.loads(arguments.json.read_text())
        results.pop("machine")
        if "kernels" in results:
            results["kernels"] = without_unfinished(results["kernels"])
    # What a time limit ends (as timeout does) still shows what it has measured.
    signal.signal(signal.SIGTERM, _interrupt)
    complete = True
    try:
        collect(arguments, machine, results)
    except KeyboardInterrupt:
        suites.say("interrupted: what follows is what was measured")
        complete = False
    if arguments.markdown:
        write(arguments.markdown, report.markdown(machine, results))
    else:
        print(report.markdown(machine, results), end="")
    failed = [record for records in results.values() for record in records if "error" in record]
    for record in failed:
        suites.say(record["error"])
    return 1 if failed or not complete else 0


if __name__ == "__main__":
    sys.exit(main())
