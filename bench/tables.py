"""Tables of Markdown."""


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value, digits: int = 2, unit: str = "") -> str:
    return "-" if value is None else f"{value:,.{digits}f}{unit}"


def reason(record: dict) -> str:
    lines = record["error"].strip().splitlines() or ["no words"]
    return "failed: " + lines[-1].replace("|", "\\|")[:160]
