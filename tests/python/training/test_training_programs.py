"""The training programs of `bench.programs` for many steps: what they call is compiled, or the step
as a whole, beside eager."""

import braze
import pytest
import torch
from same_training import (
    ROUNDINGS,
    assert_same_training,
    change_last_bits,
    layout,
    one_thread,
    wide,
)

from bench import programs

STEPS = 20


@pytest.fixture(autouse=True)
def _one_thread_and_no_internal_error(capfd):
    with one_thread(), torch.enable_grad():
        yield
    assert "internal error" not in capfd.readouterr().err


class Run:
    """A program for STEPS steps. `how`: "parts" or "whole", what is compiled; "exact": in fp64; one
    of ROUNDINGS; else in eager."""

    def __init__(self, name, dropout, how):
        self.program, self.batch = programs.build(name, dropout, small=True)
        if how in ROUNDINGS:
            change_last_bits(self.program, seed=ROUNDINGS.index(how))
        elif how == "exact":
            self.program, self.batch = self.program.double(), wide(self.batch)
        self.calls = self.program.calls(*([braze.compile] if how == "parts" else []))
        self.step = self.program.step
        if how == "whole":
            self.step = braze.compile(self.program.step, fullgraph=True)
        self.losses, self.draws, self.layouts, self.gradients = [], [], [], {}
        for number in range(STEPS):
            torch.manual_seed(number)
            self.note(number, self.step(self.calls, **self.batch))

    def note(self, number, losses):
        self.losses += [loss.item() for loss in losses.values()]
        self.draws.append(torch.rand(()).item())
        gradients = {name: p.grad for name, p in self.program.named_parameters()}
        self.layouts.append({name: layout(g) for name, g in gradients.items()})
        if number in (0, STEPS - 1):
            self.gradients |= {
                f"gradient of {name} at step {number}": g.clone()
                for name, g in gradients.items()
                if g is not None
            }

    def state(self):
        state = {**self.gradients, **self.program.state_dict()}
        for which, optimizer in enumerate(self.program.optimizers):
            for number, kept in optimizer.state_dict()["state"].items():
                state |= {f"{key} of {which}, {number}": t for key, t in kept.items()}
        return state


CASES = [
    (name, dropout)
    for name, made in programs.PROGRAMS.items()
    for dropout in ((0.0, 0.2) if made.has_dropout else (0.0,))
]


@pytest.mark.parametrize("name, dropout", CASES)
def test_program(name, dropout):
    others = ["eager", *ROUNDINGS, *([] if dropout else ["exact"])]
    runs = {how: Run(name, dropout, how) for how in others}
    for how in ("parts", "whole"):
        run = Run(name, dropout, how)
        assert_same_training({**runs, "compiled": run})
    # The first step makes the state of the optimizers.
    assert [entry["calls"] for entry in run.step._entries()] == [1, STEPS - 1]
