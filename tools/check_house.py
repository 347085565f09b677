"""Checks what the compiler does not: who may use what, and where things may stand.

Run by `make check`, `make test` and `make lint`. Exits with 1 and a line for each finding.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = {
    "base", "target", "sym", "graph", "passes", "loop", "schedule", "codegen", "toolchain", "plan",
    "compile",
}  # fmt: skip
PYTHON_HEADER = re.compile(r"[<\"](Python\.h|internal/pycore_\w+\.h|pybind11/.*)[>\"]")
TORCH_HEADER = re.compile(r"[<\"](ATen|c10|caffe2|torch)/.*[>\"]")
COMPETITION = re.compile(
    r"\b(torch\._(dynamo|inductor|functorch)|import functorch|from functorch)\b"
)
# The plug-in for torch.compile is called by TorchDynamo and may know it.
COMPETITION_ALLOWED = {"python/braze/dynamo_backend.py"}
GETENV_ALLOWED = {"src/base/options.cpp"}
MOST_LINES, MOST_LINES_OF_HEADER, MOST_METHODS = 500, 250, 60
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:root|work)/")


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [ROOT / line for line in listing.splitlines() if (ROOT / line).is_file()]


def allowed_folders() -> dict[str, set[str]]:
    """For each folder of src/, the folders that its CMake target may use, itself among them."""
    text = (ROOT / "CMakeLists.txt").read_text()
    direct = {}
    for name, rest in re.findall(
        r"^\s*braze_(?:library|module|program)\((\w+)([^)]*)\)", text, re.M
    ):
        folder = re.search(r"FOLDER (\w+)", rest)
        depends = re.search(r"DEPENDS ([a-z_ ]+)", rest)
        direct[folder.group(1) if folder else name] = set(
            depends.group(1).split() if depends else ()
        )

    def closure(name: str) -> set[str]:
        return {name}.union(*(closure(other) for other in direct[name]))

    return {name: closure(name) for name in direct}


def includes(path: Path) -> list[tuple[int, str]]:
    lines = path.read_text().splitlines()
    return [
        (number, match.group(1))
        for number, line in enumerate(lines, 1)
        if (match := re.match(r"\s*#\s*include\s*([<\"].*[>\"])", line))
    ]


def check_includes(path: Path, allowed: dict[str, set[str]]) -> list[str]:
    name = path.relative_to(ROOT)
    folder = name.parts[1]
    findings = []
    for number, header in includes(path):
        if folder in CORE and (PYTHON_HEADER.match(header) or TORCH_HEADER.match(header)):
            findings.append(f"{name}:{number}: the core knows neither Python nor PyTorch: {header}")
        other = header.strip('"').split("/")[0]
        if header[0] == '"' and other in allowed and other not in allowed.get(folder, {other}):
            findings.append(f"{name}:{number}: {folder}/ may not use {other}/ (CMakeLists.txt)")
    return findings


def check_text(path: Path) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError:
        return []
    findings = []
    product = name.startswith(("src/", "python/"))
    for number, line in enumerate(lines, 1):
        if product and name not in COMPETITION_ALLOWED and COMPETITION.search(line):
            code = line.split("//")[0] if name.startswith("src/") else line.split("#")[0]
            if re.search(r"\bimport\b|import_module|PyImport", code):
                findings.append(f"{name}:{number}: imports the competition: {line.strip()}")
        if (
            name.startswith("src/")
            and name not in GETENV_ALLOWED
            and re.search(r"\bgetenv\(", line)
        ):
            findings.append(f"{name}:{number}: settings come from base/options.h, not getenv")
        if MACHINE_PATH.search(line):
            findings.append(f"{name}:{number}: a path of one machine: {line.strip()[:80]}")
    return findings


CLASS = re.compile(r"\b(?:class|struct)\s+(\w+)[^;{}()]*\{")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def closing(text: str, at: int) -> int:
    """Where the brace that is open before `at` closes."""
    depth = 1
    while depth and at < len(text):
        depth += (text[at] == "{") - (text[at] == "}")
        at += 1
    return at


def methods(header: str) -> dict[str, int]:
    """Functions that each class of a header declares, overloads and constructors among them."""
    text = COMMENT.sub("", header)
    counts = {}
    for found in CLASS.finditer(text):
        body = text[found.end() : closing(text, found.end()) - 1]
        members, at = "", 0
        while at < len(body):  # with bodies and nested classes left out
            members += body[at] if body[at] != "{" else ";"
            at = closing(body, at + 1) if body[at] == "{" else at + 1
        declarations = [
            d for d in members.split(";")
            if re.search(r"[\w=>]\s*\(", d) and not re.match(r"\s*(?:friend|static_assert)\b", d)
        ]  # fmt: skip
        counts[found.group(1)] = len(declarations)
    return counts


def check_sizes(path: Path) -> list[str]:
    name = path.relative_to(ROOT)
    text = path.read_text()
    is_header = path.suffix == ".h" and name.parts[0] == "src"
    most = MOST_LINES_OF_HEADER if is_header else MOST_LINES
    findings = []
    if (count := len(text.splitlines())) > most:
        findings.append(f"{name}: {count} lines, {most} are the most")
    if is_header:
        for cls, count in methods(text).items():
            if count > MOST_METHODS:
                findings.append(f"{name}: {cls} has {count} methods, {MOST_METHODS} are the most")
    return findings


def check_test_names(paths: list[Path]) -> list[str]:
    """pytest imports test modules by their file's name alone, so no two folders may share one."""
    seen: dict[str, Path] = {}
    findings = []
    for path in paths:
        name = path.relative_to(ROOT)
        if name.parts[0] == "tests" and re.fullmatch(r"test_\w+\.py", path.name):
            if path.name in seen:
                findings.append(f"{name}: pytest takes it for {seen[path.name]}")
            seen.setdefault(path.name, name)
    return findings


def main() -> int:
    allowed = allowed_folders()
    paths = tracked_files()
    findings = check_test_names(paths)
    for path in paths:
        parts = path.relative_to(ROOT).parts
        if parts[0] == "src" and path.suffix in {".h", ".cpp", ".inc"}:
            findings += check_includes(path, allowed)
        if path.suffix in {".h", ".cpp", ".inc", ".py", ".cmake"}:
            findings += check_sizes(path)
        if path.name != "check_house.py":
            findings += check_text(path)
    print("\n".join(findings) if findings else "the house is in order")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
