"""The arithmetic of the benchmarks: what they report must be right before it can be believed."""

import json
import os
import signal
import sys
import time

import pytest
import torch

from bench import __main__ as command_line
from bench import measure, models, processes, report, suites, tasks, training


def test_accuracy_allows_what_eager_allows_itself():
    exact = torch.linspace(-1, 1, 2000, dtype=torch.float64)
    eager = (exact + 1e-3).float()
    assert measure.accuracy([exact], [eager], [(exact - 1.9e-3).float()])["ok"]
    assert not measure.accuracy([exact], [eager], [(exact - 2.1e-3).float()])["ok"]


def test_accuracy_is_laxer_for_small_tensors_and_tiny_errors():
    exact = torch.zeros(10, dtype=torch.float64)
    eager = torch.full((10,), 1e-3)
    assert measure.accuracy([exact], [eager], [torch.full((10,), 2.9e-3)])["ok"]
    assert not measure.accuracy([exact], [eager], [torch.full((10,), 3.1e-3)])["ok"]
    assert measure.accuracy([exact], [torch.zeros(10)], [torch.full((10,), 9e-6)])["ok"]
    assert not measure.accuracy([exact], [torch.zeros(10)], [torch.full((10,), 1.1e-5)])["ok"]


def test_accuracy_wants_the_same_count_dtype_and_shape():
    exact, eager = torch.zeros(4, dtype=torch.float64), torch.zeros(4)
    assert not measure.accuracy([exact], [eager], [])["ok"]
    assert not measure.accuracy([exact], [eager], [eager.double()])["ok"]
    assert not measure.accuracy([exact], [eager], [eager.reshape(2, 2)])["ok"]
    integers = torch.arange(4)
    assert measure.accuracy([integers], [integers], [integers.clone()])["ok"]
    assert not measure.accuracy([integers], [integers], [integers + 1])["ok"]


def test_accuracy_does_not_pass_nan():
    exact, eager = torch.zeros(4, dtype=torch.float64), torch.zeros(4)
    assert not measure.accuracy([exact], [eager], [torch.full((4,), float("nan"))])["ok"]


def test_interleaved_takes_turns():
    calls = []
    functions = {name: (lambda x, name=name: calls.append(name)) for name in ("a", "b")}
    times = measure.interleaved(functions, (1,), samples=6)
    assert [len(values) for values in times.values()] == [6, 6]
    turns = [name for i, name in enumerate(calls) if i == 0 or calls[i - 1] != name]
    assert len(turns) >= 6


def test_phases_are_summed_over_entries():
    log = (
        "[braze:timing] f: total 12.5 ms: capture 5.0 (in torch 3.0; 10 bytecodes, 2 nodes, 1 "
        "guards), passes 1.0, lower 2.0, schedule 0.5, codegen 1.5, build 2.5\n"
        "[braze:timing] host compiler 31.1 ms, 4096 bytes of source\n"
        "[braze:timing] g: total 1.5 ms: capture 1.0 (in torch 0.5; 1 bytecodes, 1 nodes, 1 "
        "guards), passes 0.1, lower 0.1, schedule 0.1, codegen 0.1, build 0.1 (plan from the "
        "cache)\n"
    )
    phases = suites.braze_phases(log)
    assert round(phases["total"] * 1e3, 6) == 14.0
    assert round(phases["capture"] * 1e3, 6) == 6.0
    assert round(phases["in torch"] * 1e3, 6) == 3.5
    assert round(phases["build"] * 1e3, 6) == 2.6
    assert suites.braze_phases("nothing of ours\n") == {}


def test_tensors_finds_them_all_in_order():
    a, b, c = torch.zeros(1), torch.ones(1), torch.full((1,), 2.0)
    found = models.tensors({"x": a, "y": (b, [None, c]), "z": 3})
    assert [tensor.item() for tensor in found] == [0, 1, 2]


def test_report_names_failures():
    machine = {
        "cpu": "x", "cores": 2, "memory_gib": 1.0, "isa": "AVX2", "threads": 2,
        "python": "3.11", "torch": "2.13", "load": 0.1,
    }  # fmt: skip
    record = {"size": 8, "compiler": "braze", "error": "overhead: exit code 1\nit | broke"}
    text = report.markdown(machine, {"overhead": [record]})
    assert "failed: it \\| broke" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


MACHINE = {
    "device": "a GPU", "cpu": "x", "cores": 2, "memory_gib": 1.0, "isa": "AVX2", "threads": 2,
    "python": "3.11", "torch": "2.13", "load": 0.1,
}  # fmt: skip


def _run(monkeypatch, capsys, *words):
    """The exit code and what was printed."""
    monkeypatch.setattr(sys, "argv", ["bench", *map(str, words)])
    monkeypatch.setattr(processes, "run", lambda *_, **__: {**MACHINE, "stderr": ""})
    before = signal.getsignal(signal.SIGTERM)
    try:
        code = command_line.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    return code, capsys.readouterr().out


def test_a_run_that_is_cut_short_keeps_what_it_has(monkeypatch, capsys, tmp_path):
    path = tmp_path / "records.json"

    def overhead(compilers, samples, device):
        yield {"size": 8, "compiler": "braze", "eager_ns": 2.0, "compiled_ns": 1.0}
        assert len(json.loads(path.read_text())["overhead"]) == 1  # written before the next one
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr(suites, "overhead", overhead)
    code, text = _run(monkeypatch, capsys, "overhead", "--json", path)
    assert code == 1
    assert "| 8 | Braze | 2 | 1 |" in text
    kept = json.loads(path.read_text())
    assert kept["machine"] == MACHINE
    assert [record["compiled_ns"] for record in kept["overhead"]] == [1.0]
    assert os.listdir(tmp_path) == ["records.json"]


def test_a_run_goes_on_with_the_kernels_that_are_left(monkeypatch, capsys, tmp_path):
    path = tmp_path / "records.json"
    asked = []

    def kernels(names, device, compilers, samples, quick):
        asked.append((list(names), device))
        for name in names:
            yield {"kernel": name, "skipped": "nothing to run it on"}
            if name == "reglu_4096":
                raise KeyboardInterrupt

    monkeypatch.setattr(suites, "kernels", kernels)
    words = ("kernels", "--kernels", "glu_", "--device", "cuda", "--json", path)
    assert _run(monkeypatch, capsys, *words)[0] == 1
    code, text = _run(monkeypatch, capsys, *words, "--resume")
    assert code == 0
    assert asked[0] == (["swiglu_11008", "geglu_10240", "reglu_4096"], "cuda")
    assert asked[1] == ([], "cuda")
    assert len(json.loads(path.read_text())["kernels"]) == 3
    assert "Machine: a GPU; x, 2 cores" in text


def test_what_is_unfinished_is_measured_again():
    done = {"kernel": "silu", "direction": "forward"}, {"kernel": "silu", "direction": "backward"}
    forward_only = {"kernel": "bincount_1024", "direction": "forward"}
    skipped = {"kernel": "quantize_float8_rows_4096", "skipped": "no such numbers"}
    cut = {"kernel": "gelu", "direction": "forward"}
    failed = {"kernel": "mish", "error": "exit code -15"}
    kept = command_line.without_unfinished([*done, forward_only, skipped, cut, failed])
    assert kept == [*done, forward_only, skipped]


def test_a_process_that_takes_too_long_is_an_error():
    with pytest.raises(processes.ChildError, match="longer than 0.01 s"):
        processes.run("machine", {}, timeout=0.01, device="cpu")


def test_suites_of_cpus_refuse_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", "sizes", "--device", "cuda"])
    with pytest.raises(SystemExit):
        command_line.main()
    assert "only on a CPU: sizes" in capsys.readouterr().err


def test_every_section_names_the_device_and_pytorch():
    empty = report.markdown(MACHINE, {suite: [] for suite in report.SECTIONS})
    sections = empty.split("\n## ")[1:]
    assert len(sections) == len(report.SECTIONS)
    for section in sections:
        assert section.partition("\n\n")[2].startswith("a GPU, PyTorch 2.13. "), section


def test_overhead_is_measured_on_the_device():
    times = tasks.overhead("braze", size=8, samples=1, device="cpu")
    assert 0 < times["guard_check"] < times["compiled"]
    assert times["eager"] > 0


def test_communication_that_is_hidden():
    record = {
        "model": "m",
        "step_s": {"eager": 0.014, "Braze": 0.011},
        "alone_s": {"eager": 0.01, "Braze": 0.01},
        "communication_s": 0.004,
    }
    text = report.SECTIONS["distributed"]([record, {"model": "n", "error": "one\nno GPUs"}])
    assert "| m, eager | 14.00 ms | 10.00 ms | 4.00 ms | 1.40 | 0 % |" in text
    assert "| m, Braze | 11.00 ms | 10.00 ms | 4.00 ms | 1.10 | 75 % |" in text
    assert "n: failed: no GPUs" in text


def test_copies_in_two_processes():
    found = processes.run(
        "copies", {}, model="lstm", device="cpu", ways=["Braze", "eager"], samples=1
    )
    assert list(found["step_s"]) == list(found["alone_s"]) == ["Braze", "eager"]
    assert found["communication_s"] > 0
    assert found["bytes"] == sum(4 * p.numel() for p in training.build("lstm")[0].parameters())
