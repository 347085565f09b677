"""Counts of results, the list of known differences, and `docs/fidelity.md`."""

import importlib.metadata
import re

BAD = ("differs", "fake", "crash", "hang", "broken")
# Groups of `make test` and how many subjects one is taken from.
QUICK = {
    "torch.distributions": 12,
    "torch.distributions.kl": 10,
    "torch.distributions.transforms": 8,
    "torch.nn.init": 3,
    "torch.nn.functional": 8,
    "torch.nn.modules": 8,
    "torch.func": 3,
    "torch.optim": 4,
    "torch.optim.lr_scheduler": 4,
    "torch.utils": 4,
}


def read_listed(path):
    """(pattern of names, pattern of what differs, reason) of each line `name | what | reason`."""
    listed = []
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.strip() and not line.startswith("#"):
            name, what, reason = (part.strip() for part in line.split("|", 2))
            if not reason:
                raise ValueError(f"no reason is given: {line}")
            listed.append((re.compile(name), re.compile(what), reason))
    return listed


def reason_of(found, listed):
    """Why a difference is known; None if it is not. Crashes and fakes are never listed."""
    if found["status"] == "asks":
        return "asks torch.compiler.is_compiling() and does something else; equal to eager that is told so"
    if found["status"] not in ("differs", "hang"):
        return None
    for name, what, reason in listed:
        if name.fullmatch(found["name"]) and what.search(found.get("what", "")):
            return reason
    return None


def count(results, listed):
    counts = dict.fromkeys(
        ("found", "tried", "equal", "listed", "unlisted", "refused", "varies"), 0
    )
    for found in results:
        counts["found"] += 1
        status = found["status"]
        if status in ("refused", "varies"):
            counts[status] += 1
            continue
        counts["tried"] += 1
        if status == "equal":
            counts["equal"] += 1
        elif reason_of(found, listed):
            counts["listed"] += 1
        else:
            counts["unlisted"] += 1
    return counts


def in_words(counts):
    words = f"{counts['tried']} tried of {counts['found']}, {counts['equal']} equal, {counts['listed']} listed"
    if counts["unlisted"]:
        words += f", {counts['unlisted']} DIFFERENT"
    return words


def version(group):
    package = group.split(".")[0]
    return importlib.metadata.version(package)


def markdown(results, listed):
    """The text of `docs/fidelity.md`."""
    lines = [
        "# Fidelity to public code",
        "",
        "Made by `make test-public`. Functions and modules of PyTorch's Python code and of libraries are",
        "called in eager and compiled, several times with different values, sizes, strides and dtypes, also",
        "with what does not fit, with `dynamic=None` and `dynamic=True`; results, exceptions, arguments, the",
        "state of objects and of random generators, and what is shared are compared, and no tensor without",
        "data may be left anywhere (`tests/public/`). *Found*: public functions, methods and modules; *tried*:",
        "those for which eager accepts arguments that the harness makes, and gives the same each time;",
        "*listed*: different for the reason given below.",
        "",
        "| library | version | found | tried | equal | listed | different |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    groups = {}
    for found in results:
        groups.setdefault(found["group"], []).append(found)
    for name, members in [*groups.items(), ("**together**", results)]:
        c = count(members, listed)
        which = "" if name.startswith("*") else version(name)
        lines.append(
            f"| {name} | {which} | {c['found']} | {c['tried']} | {c['equal']} | {c['listed']} | {c['unlisted']} |"
        )
    known = [
        (found, reason_of(found, listed)) for found in results if found["status"] in (*BAD, "asks")
    ]
    known = [(found["name"], reason) for found, reason in known if reason]
    if known:
        lines += ["", "## Listed", ""]
        for reason in sorted({reason for _, reason in known}):
            names = sorted(name for name, why in known if why == reason)
            lines += [f"{reason[:1].upper() + reason[1:]} ({len(names)}):", ""]
            lines += [", ".join(f"`{name}`" for name in names) + ".", ""]
    return "\n".join(lines).rstrip() + "\n"
