"""Models of a device: their steps, what is compared, memory, and the tables, by small models."""

import pytest
import torch
from torch import nn

from bench import __main__ as command_line
from bench import device_models, devices, processes, report, suites, tasks
from bench.device_models import DEVICE_MODELS, DeviceModel, build

MACHINE = {
    "device": "a GPU", "cpu": "x", "cores": 2, "memory_gib": 1.0, "isa": "AVX2", "threads": 2,
    "python": "3.11", "torch": "2.13", "load": 0.1,
}  # fmt: skip


def _small():
    module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 4))
    return module, {"input": torch.randn(3, 8)}


def _normalized():
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16)), {"input": torch.randn(5, 8)}


SMALL = {
    model.name: model
    for model in (
        DeviceModel("infer", "small", torch.bfloat16, _small),
        DeviceModel("train", "small, training", torch.float32, _small, True, True),
        DeviceModel("train_norm", "normalized, training", torch.float32, _normalized, True),
    )
}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(device_models, "DEVICE_MODELS", SMALL)


def test_there_are_sixteen_of_both_kinds():
    assert len(DEVICE_MODELS) == 16
    assert sum(model.train for model in DEVICE_MODELS.values()) == 6
    assert all(model.train or not model.has_dropout for model in DEVICE_MODELS.values())


def test_a_step_of_training_makes_fresh_gradients():
    built = build(SMALL["train_norm"], "cpu")
    first = built.results(built.module)
    again = built.results(built.module)
    assert len(first) == 1 + len(list(built.module.parameters()))
    for one, other in zip(first, again):
        torch.testing.assert_close(one, other)
    assert first[1].abs().sum() > 0
    exact = built.in_double()
    assert {t.dtype for t in exact.results(exact.module)[1:]} == {torch.float64}
    assert {p.dtype for p in built.module.parameters()} == {torch.float32}


def test_dropout_is_left_out_where_results_are_compared():
    built = build(SMALL["train"], "cpu")
    assert built.module.training
    judged = built.without_dropout()
    one, other = (judged.results(judged.module) for _ in range(2))
    assert len(one) == 5
    for a, b in zip(one, other):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("compiler", ("braze", "braze_graphs"))
def test_a_model_is_measured_and_compared(small, name, compiler):
    with torch.no_grad():
        found = tasks.device_model(name, compiler, samples=2, device="cpu")
    assert min(found[key] for key in ("first_call_s", "eager_ms", "compiled_ms")) > 0
    assert [accuracy["ok"] for accuracy in found["accuracies"]] == [True, True]
    assert tasks.device_peak(name, compiler, "cpu")["peak_mb"] >= 0


def test_a_wrong_model_is_found_out(small, monkeypatch):
    monkeypatch.setattr(
        tasks.compilers, "load", lambda name: lambda module: lambda **given: module(**given) * 1.2
    )
    found = tasks.device_model("infer", "braze", samples=1, device="cpu")
    assert [accuracy["ok"] for accuracy in found["accuracies"]] == [False, False]


def _run(task, caches, model, compiler, **parameters):
    if model == "t5_infer":
        raise processes.ChildError("no such\nmodule | library")
    if task in ("device_peak", "peak_of_step"):
        scale = 2.0 if compiler == "eager" else 1.0
        return {"peak_mb": 100 * scale, "reserved_mb": 150 * scale, "stderr": ""}
    return {
        "first_call_s": 1.5, "eager_ms": 4.0, "compiled_ms": 2.0, "stderr": "",
        "accuracies": [{"ok": True}, {"ok": model != "vit_infer"}] if model != "bert_infer" else [],
    }  # fmt: skip


def test_tables_of_models_and_memory(monkeypatch):
    monkeypatch.setattr(processes, "run", _run)
    names = ["llama_infer", "vit_infer", "bert_infer", "t5_infer"]
    found = list(suites.device_models(names, "cuda", ["braze", "braze_graphs"], 1, False))
    assert [(record["model"], record["compiler"]) for record in found[:2]] == [
        ("llama_infer", "braze"),
        ("llama_infer", "braze_graphs"),
    ]
    text = report.markdown(MACHINE, {"device_models": found})
    figures = "4.00 | 2.00 | 2.00x | 1.50 s | 100 MB | 200 MB | 150 MB | 300 MB"
    assert f"| Llama, 12 layers, 4x512, bf16 | Braze | {figures} | ok |" in text
    assert f"| ViT-B (transformers), 16, fp32 | Braze | {figures} | WRONG |" in text
    assert f"| BERT, 16x128, fp16 | Braze | {figures} | no fp64 |" in text
    assert "failed: module \\| library" in text
    assert "Braze 2.00x, Braze, reduce-overhead 2.00x" in text

    found = list(suites.memory(["llama_infer", "t5_infer", "lstm"], "cuda", ["braze"]))
    text = report.markdown(MACHINE, {"memory": found})
    assert "| 100 MB | 200 MB | 150 MB | 300 MB | 0.50 |" in text
    assert "failed: module \\| library" in text
    assert text.count("| Braze |") == 3


def test_models_of_a_gpu_are_asked_for_by_the_device_or_by_name(monkeypatch):
    def suite(*words):
        monkeypatch.setattr(command_line.sys, "argv", ["bench", "models", *words])
        return command_line.suite_of_models(command_line.parse_arguments())

    assert suite() == "models"
    assert suite("--mode", "train") == "training"
    assert suite("--device", "cuda") == "device_models"
    assert suite("--models", "vit_infer") == "device_models"
    assert suite("--models", "resnet50") == "models"


class _Event:
    """Of a clock that every call moves on."""

    log = []

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = len(self.log)
        self.log.append("record")

    def synchronize(self):
        self.log.append("synchronize")

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


def test_a_gpu_is_timed_between_events_behind_a_flush(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", _Event)
    monkeypatch.setattr(_Event, "log", [])
    made = devices.Cuda()
    monkeypatch.setattr(made, "flush", lambda: _Event.log.append("flush"))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: _Event.log.append("sleep"))
    assert made.seconds(lambda: _Event.log.append("call")) == 2.0
    assert _Event.log == ["flush", "sleep", "record", "call", "record", "synchronize"]


def test_the_peak_of_a_gpu_is_that_of_a_later_step(monkeypatch):
    log = []
    for name in ("reset_peak_memory_stats", "synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda name=name: log.append(name))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: (len(log), 3 << 20)[1])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: log.count("step") << 20)
    found = devices.Cuda().peak_mb(lambda: log.append("step"))
    assert found == {"peak_mb": 4.0, "reserved_mb": 3.0}
    last = len(log) - log[::-1].index("reset_peak_memory_stats")
    assert log[last:] == ["step", "synchronize"]


def test_a_gpu_has_what_a_cpu_has():
    assert set(dir(devices.Cuda)) == set(dir(devices.Cpu))
