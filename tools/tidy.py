"""Runs clang-tidy (checks of .clang-tidy) over the core: `tidy.py BUILD_FOLDER [FILE...]`."""

import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path

from check_house import CORE, ROOT


def core_files(build: Path) -> list[str]:
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {Path(command["file"]) for command in commands}
    return sorted(
        str(file)
        for file in files
        if file.is_relative_to(ROOT / "src") and file.relative_to(ROOT / "src").parts[0] in CORE
    )


def compiler_headers() -> str:
    """stddef.h and its like: the wheel of clang-tidy comes without its own."""
    command = [os.environ.get("CXX") or "c++", "-print-file-name=include"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def tidy(build: Path, file: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["clang-tidy", "-p", build, "--quiet", f"--extra-arg=-idirafter{compiler_headers()}", file],
        capture_output=True,
        text=True,
    )


def main() -> int:
    build = Path(sys.argv[1])
    files = sys.argv[2:] or core_files(build)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, result in zip(files, pool.map(lambda file: tidy(build, file), files)):
            if result.returncode != 0:
                failed += 1
                print(f"{file}\n{result.stdout}{result.stderr}")
    print(f"clang-tidy: {len(files)} files, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
