"""`braze.explain`: what a call was compiled to, as text."""

import time
import types

import torch

from . import _C, _api, _words

_MOST_SEGMENTS = 12  # of the short text
_MOST_KEPT = 5
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class Explanation(str):
    """What a call was compiled to, on a screen, with the facts behind it as attributes.

    Attributes:
        details: str, with guards, graphs, schedules and plans as well.
        entries: list of dicts, one per compiled entry (kind, graph, guards, code, reason, ...).
        breaks: list of dicts, one per break: number ("B501", see docs/breaks.md), what, file, line,
            text (all that is shown of it).
        memory: dict of bytes: "peak", what tensors take at most in such a call, and "held", what
            they hold after it, its result among them; for a call with a backward to come,
            "eager_peak" and "eager_held" as well. Empty where the call cannot be made again
            without anybody noticing: it changes something outside, or has breaks.
        result: what the call returned.
    """

    details: str
    entries: list
    breaks: list
    memory: dict
    result: object


def explain(function, *, dynamic=None, backend=None, mode=None, options=None, recompile_limit=None):
    """`explain(f)(*args)` compiles `f` afresh for these arguments, runs it, tells what happened.

    Returns a callable; its result is an `Explanation`, a string. What the call raises is raised.
    A call with a backward to come that changes nothing is made in eager too, for its memory.

    Args:
        function: what `compile` takes, but no class; or what it has returned.
        dynamic, backend, mode, options, recompile_limit: as for `compile`. Without any of them,
            what has been compiled is compiled as it was.

    Raises:
        TypeError, ValueError: arguments that make no sense, with what is allowed.
    """
    settings = _api._check_settings(
        False, dynamic, "braze" if backend is None else backend, mode, options, recompile_limit
    )
    target = function
    if _api.is_compiled(function):
        compiled = _api.compiled_function_of(function)
        target = compiled.__wrapped__
        if all(given is None for given in (dynamic, backend, mode, options, recompile_limit)):
            settings = vars(compiled)["_settings"]
    if isinstance(target, type):
        raise _words.error("E101", f"cannot explain the class {target.__name__}: give an instance")
    settings = {**settings, "fullgraph": False, "keep_report": True}

    def run(*args, **kwargs):
        fresh = _api._compile(target, settings)
        start = time.perf_counter()
        drawn_from = _random_state()
        result = fresh(*args, **kwargs)
        seconds = time.perf_counter() - start
        entries = _api.compiled_function_of(fresh)._entries()
        memory = {}
        if len(entries) == 1 and entries[0]["repeatable"]:
            memory |= _measured("", lambda: fresh(*args, **kwargs), drawn_from)
            if entries[0]["backward_nodes"]:
                memory |= _measured("eager_", lambda: target(*args, **kwargs), drawn_from)
        text = Explanation(_text(target, entries, seconds, memory, result, details=False))
        text.details = _text(target, entries, seconds, memory, result, details=True)
        text.entries, text.memory = entries, memory
        text.breaks = [_break_of(entry) for entry in entries if entry["reason"]]
        text.result = result
        return text

    return run


def _measured(prefix, call, drawn_from):
    """Of a call that does nothing to the outside but draw random numbers: those of before.

    What is measured is made a second time, as the measuring may be seen: by a profiler, say.
    """
    drawn_to = _random_state()
    _set_random_state(drawn_from)
    try:
        _, peak, held = _C.measure_memory(call)
    except RuntimeError:  # out of memory, which the first call was not
        return {}
    finally:
        _set_random_state(drawn_to)
    return {f"{prefix}peak": peak, f"{prefix}held": held}


def _random_state():
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), on_gpus


def _set_random_state(state):
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])


def _name(target):
    if isinstance(target, torch.nn.Module):
        return type(target).__name__
    return getattr(target, "__qualname__", repr(target))


def _break_of(entry):
    return {
        "number": entry["reason_number"],
        "what": entry["reason_what"],
        "file": entry.get("reason_file"),
        "line": entry.get("reason_line"),
        "text": entry["reason"],
    }


def _text(target, entries, seconds, memory, result, details):
    lines = [f"braze.explain({_name(target)})"]
    if not entries and isinstance(result, _SUSPENDED):
        lines.append("  nothing has run yet: what was made is compiled when it is resumed")
    elif not entries:
        lines.append("  nothing was compiled: the call ran in eager")
    else:
        compiling = sum(entry["seconds"]["total"] for entry in entries)
        running = max(seconds - compiling, 0)
        lines.append(
            f"  this call: {compiling * 1e3:.1f} ms compiling, {running * 1e3:.1f} ms running"
        )
        if "peak" in memory:
            lines.append("  " + _memory_text(memory))
    shown = entries if details else entries[:_MOST_SEGMENTS]
    for entry in shown:
        lines += _entry_lines(entry, details)
    if len(shown) < len(entries):
        lines.append(f"  ... and {len(entries) - len(shown)} more segments")
    if entries and not details:
        lines.append("  guards, graphs, schedules and plans: .details of this")
    return "\n".join(lines) + "\n"


def _memory_text(memory):
    line = (
        f"memory: {_size(memory['peak'])} at most in such a call, {_size(memory['held'])} after it"
    )
    if "eager_peak" in memory:
        peak, held = _size(memory["eager_peak"]), _size(memory["eager_held"])
        line += f"; in eager {peak} and {held}"
    return line


# What a break costs, by how the compiled code before it ends.
_COSTS = {
    "break": "this instruction runs in CPython at each call, then compiled code goes on",
    "give up": "the rest of the function runs in eager",
}


def _entry_lines(entry, details):
    lines = [f"  {entry['function']}, line {entry['line']}:"]
    if entry["kind"] == "eager":
        lines.append("  runs in eager" + (" up to a break" if entry["exit"] == "break" else ""))
    elif entry["exit"] == "return":
        lines.append(
            f"  captured as a whole: {_counted(entry['nodes'], 'operator')}, "
            f"{_counted(entry['bytecodes'], 'bytecode')}"
        )
    elif entry["exit"] == "raise":
        lines.append(
            f"  captured up to line {entry['break_line']}, which raises: "
            f"{_counted(entry['nodes'], 'operator')}"
        )
    else:
        lines.append(f"  captured up to a break: {_counted(entry['nodes'], 'operator')}")
    if entry["reason"]:
        lines.append("  break:")
        lines += ["    " + line for line in entry["reason"].splitlines()]
        whole = entry["kind"] == "eager" and entry["exit"] == "give up"
        cost = "the whole function runs in eager" if whole else _COSTS[entry["exit"]]
        lines.append(f"      cost: {cost}")
    times = entry["seconds"]
    lines.append(
        "  compile time: "
        + ", ".join(f"{name} {times[name] * 1e3:.1f} ms" for name in times if times[name] > 5e-5)
    )
    lines += _run_lines(entry) + _training_lines(entry, details)
    lines.append(f"  guards: {len(entry['guards'])}")
    return lines + _detail_lines(entry) if details else lines


def _run_lines(entry):
    if not entry["plan"]:
        return []
    counts = sorted(entry["operators"].items(), key=lambda item: (-item[1], item[0]))
    calls = sum(count for _, count in counts)
    line = f"  runs: {_counted(entry['kernels'], 'kernel')}"
    if calls:
        named = ", ".join(f"{count} {name}" for name, count in counts[:4])
        line += f", {_counted(calls, 'operator')} ({named}{', ...' if len(counts) > 4 else ''})"
    if entry["arena_bytes"]:
        line += f", intermediates in {_size(entry['arena_bytes'])}"
    lines = [line, f"  memory by the plan: {_size(entry['peak_bytes'])} at most"]
    if entry["cuda_graphs"]:
        lines.append(f"  CUDA graphs: {entry['cuda_graphs']}")
    return lines


def _training_lines(entry, details):
    """What the backward is, and which tensors are kept for it."""
    if not entry["backward_nodes"]:
        return []
    own = [kept for kept in entry["kept"] if kept["bytes"]]
    total = sum(kept["bytes"] for kept in own)
    others = len(entry["kept"]) - len(own)
    beside = f", beside {_counted(others, 'result')}" if others else ""
    peak = _size(entry["backward_peak_bytes"])
    lines = [
        f"  backward: {_counted(entry['backward_nodes'], 'operator')}, compiled when it first runs",
        f"  memory of it by the plan: {peak} at most, with what is kept",
        f"  kept for it: {_size(total)} in {_counted(len(own), 'tensor')}{beside}",
    ]
    shown = own if details else own[:_MOST_KEPT]
    lines += [f"    {_size(kept['bytes'])}  {kept['what']}  {kept['place']}" for kept in shown]
    if len(own) > len(shown):
        lines.append(f"    ... and {len(own) - len(shown)} more")
    return lines


def _counted(count, what):
    return f"{count} {what}" + ("" if count == 1 else "s")


def _size(count):
    for unit in ("B", "kB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} MB" if count < 1000 else f"{count / 1000:.3g} GB"


def _detail_lines(entry):
    shown = entry["guards"][:20]
    lines = ["    " + guard for guard in shown]
    if len(entry["guards"]) > len(shown):
        lines.append(f"    ... and {len(entry['guards']) - len(shown)} more")
    for title in ("graph", "schedule", "plan"):
        if entry[title]:
            lines.append(f"  {title}:")
            lines += ["    " + line for line in entry[title].splitlines()]
    return lines
