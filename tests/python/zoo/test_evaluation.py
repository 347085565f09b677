"""A whole evaluation as one compiled function: batches, metrics, logging, early exit."""

import logging
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from support import compare

from bench.zoo import ZOO

log = logging.getLogger("evaluation")


@dataclass
class Metrics:
    seen: int = 0
    correct: torch.Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.long))
    loss: torch.Tensor = field(default_factory=lambda: torch.zeros(()))
    history: list = field(default_factory=list)

    def update(self, logits, labels):
        self.seen += labels.numel()
        self.correct = self.correct + (logits.argmax(-1) == labels).sum()
        loss = F.cross_entropy(logits, labels)
        self.loss += loss
        self.history.append(loss)

    def summary(self):
        return {
            "accuracy": self.correct / self.seen,
            "loss": self.loss / max(len(self.history), 1),
            "confusion": torch.stack(self.history).std() if len(self.history) > 1 else None,
        }


def batches(count, size=4):
    generator = torch.Generator().manual_seed(count)
    return [
        (
            torch.randn(size, 3, 32, 32, generator=generator),
            torch.randint(0, 2, (size,), generator=generator),
        )
        for _ in range(count)
    ]


def make_evaluation(patience, stop_above=None):
    model = ZOO["resnet"].build()

    def evaluate(loader):
        metrics, best, bad = Metrics(), None, 0
        for step, (images, labels) in enumerate(loader):
            logits = model(pixel_values=images).logits
            metrics.update(logits, labels)
            log.info("step %d of %d", step, len(loader))
            if stop_above is not None:
                loss = metrics.history[-1].item()  # the user looks at the data
                if best is None or loss < best:
                    best, bad = loss, 0
                else:
                    bad += 1
                if bad > patience or loss > stop_above:
                    print(f"stopped after {step + 1} batches")
                    break
        else:
            print("ran to the end")
        result = metrics.summary()
        for name, value in sorted(result.items()):
            log.debug("%s is there: %s", name, value is not None)
        return result, metrics

    return evaluate


def test_without_early_exit():
    compare(lambda: make_evaluation(0), [lambda: (batches(3),), lambda: (batches(1),)], rtol=1e-4)


def test_early_exit_by_data():
    calls = [lambda: (batches(5),), lambda: (batches(6),), lambda: (batches(2),)]
    compare(lambda: make_evaluation(0, stop_above=100.0), calls, rtol=1e-4)
    compare(lambda: make_evaluation(9, stop_above=0.0), calls, rtol=1e-4)


def test_log_records(caplog):
    """Each step logs once, in order, compiled as in eager."""
    import braze

    evaluate, loader = make_evaluation(0), batches(3)
    records = []
    for function in (evaluate, braze.compile(evaluate)):
        for _ in range(2):
            caplog.clear()
            with caplog.at_level(logging.DEBUG, logger="evaluation"):
                function(loader)
            records.append([r.getMessage() for r in caplog.records])
    assert records[0] and all(r == records[0] for r in records)
