"""Tables of the `kernels` suite."""

import math

from bench.compilers import COMPILERS
from bench.tables import number, reason, table

SLOWER = 1.02  # times; below it is noise


def kernels(records: list[dict]) -> str:
    done = [record for record in records if "times_s" in record]
    rates = [record["copy_bytes_a_second"] for record in done]
    copy = f"{number(sorted(rates)[len(rates) // 2] / 1e9, 0)} GB/s" if rates else "not measured"
    names = list(dict.fromkeys(name for record in done for name in record["times_s"]))
    parts = [
        "## Kernels\n\n"
        "What a kernel has to move at least (inputs read once, outputs written once), divided by "
        f"its time, as a share of the bandwidth of a large copy in the same run: {copy}. Medians "
        "of runs in turn, the caches written over before each; on a GPU between two events, behind "
        "half a millisecond of other work. The "
        "backward computes the gradients alone, of a graph that is kept. Results: errors against "
        "the same function in double precision are at most twice eager's and a small floor.",
        _summary(done, names),
    ]
    for direction in ("forward", "backward"):
        chosen = [record for record in done if record["direction"] == direction]
        if chosen:
            parts += [f"### {direction.capitalize()}", _figures(chosen, names)]
    if slower := _slower(done):
        parts += [f"### Where Braze is slower, by more than {SLOWER - 1:.0%}", slower]
    failures = [
        *(f"* {record['kernel']}: {reason(record)}" for record in records if "error" in record),
        *(
            f"* {record['kernel']}, {record['direction']}, {COMPILERS[name].title}: "
            f"{first_words(words)}"
            for record in done
            for name, words in record["errors"].items()
        ),
        *(f"* {r['kernel']}: not run: {r['skipped']}" for r in records if "skipped" in r),
    ]
    if failures:
        parts += ["### What is missing", "\n".join(failures)]
    return "\n\n".join(parts)


def first_words(error: str) -> str:
    """The first two lines: what happened, then where, which is followed by how and why."""
    return reason({"error": " ".join(line.strip() for line in error.splitlines()[:2])})


def geometric_mean(values: list[float]) -> float | None:
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None


def _summary(records: list[dict], names: list[str]) -> str:
    """Of what all have run, so that none gains by failing."""
    rows = []
    for direction in ("forward", "backward"):
        chosen = [record for record in records if record["direction"] == direction]
        common = [record for record in chosen if all(name in record["times_s"] for name in names)]
        for name in names if chosen else ():
            ran = [record for record in chosen if name in record["times_s"]]
            wrong = sum(not accuracy(record, name) for record in ran)
            rows.append(
                [
                    direction,
                    COMPILERS[name].title,
                    number(geometric_mean([record["fractions"][name] for record in common]), 3),
                    f"{len(common)} of {len(chosen)}",
                    str(len(chosen) - len(ran)),
                    str(wrong),
                ]
            )
    header = ["", "compiler", "geometric mean of shares", "kernels", "failed", "wrong"]
    return table(header, rows)


def accuracy(record: dict, name: str) -> bool:
    """Whether the results are right; eager's are by definition."""
    return name == "eager" or record["accuracy"][name]["ok"]


def _figures(records: list[dict], names: list[str]) -> str:
    header = ["kernel", "dtype", "largest", "MB"]
    for name in names:
        header += [f"{COMPILERS[name].title} us", "share"]
    header.append("results")
    rows = []
    for record in records:
        row = [record["kernel"], record["dtype"], record["sizes"], number(record["bytes"] / 1e6, 1)]
        for name in names:
            seconds = record["times_s"].get(name)
            row += [
                number(None if seconds is None else seconds * 1e6, 1),
                number(record["fractions"].get(name), 2),
            ]
        wrong = [COMPILERS[n].title for n in record["times_s"] if not accuracy(record, n)]
        rows.append([*row, "WRONG: " + ", ".join(wrong) if wrong else "ok"])
    return table(header, rows)


def _slower(records: list[dict]) -> str:
    """Worst first."""
    found = []
    for record in records:
        times = record["times_s"]
        for name in times:
            if "braze" in times and name != "braze" and times["braze"] > SLOWER * times[name]:
                found.append((times["braze"] / times[name], record, name))
    found.sort(key=lambda entry: -entry[0])
    rows = [
        [
            record["kernel"],
            record["direction"],
            COMPILERS[name].title,
            number(ratio, 2, "x"),
            number(record["times_s"]["braze"] * 1e6, 1),
            number(record["times_s"][name] * 1e6, 1),
        ]
        for ratio, record, name in found
    ]
    header = ["kernel", "", "than", "slower", "Braze us", "its us"]
    return table(header, rows) if rows else ""
