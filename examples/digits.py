"""Trains a small convolutional network on handwritten digits, in eager and compiled, side by side.

    pip install scikit-learn                            # has the 1797 pictures of 8 x 8
    python examples/digits.py
    pip install matplotlib && python examples/digits.py --plot digits.png

Both networks start from the same parameters and see the same batches and the same dropout masks:
Braze draws the numbers that eager draws for a seed. What is compiled are the network, its backward
with it, and the step of the optimizer; the loop around them is as it was. The last batch of an
epoch is smaller than the others, and accuracies are measured in `eval` mode without gradients: each
is one more compile.

Expect two curves that cannot be told apart, over 97 % of the test pictures right for both, and a
second or two of compiling in the first epoch; another run finds its kernels in the cache on disk.
"""

import argparse
import statistics
import sys
import time

import braze
import torch
import torch.nn.functional as F
from torch import nn

BATCH = 64
TEST_PICTURES = 360  # a fifth


def load():
    """(training pictures, their digits, test pictures, their digits); pictures are 1 x 8 x 8."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("The digits are scikit-learn's: pip install scikit-learn")
    data = load_digits()
    pictures = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    digits = torch.tensor(data.target)
    order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(0))
    test, train = order[:TEST_PICTURES], order[TEST_PICTURES:]
    return pictures[train], digits[train], pictures[test], digits[test]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.GELU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.GELU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(64 * 4 * 4, 128),
            nn.GELU(),
            nn.Dropout(0.3),
            nn.Linear(128, 10),
        )

    def forward(self, pictures):
        return self.classifier(self.features(pictures))


class Training:
    """A network in training, and what has been measured of it."""

    def __init__(self, seed, compiled):
        torch.manual_seed(seed)
        self.network = Network()
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-3)
        self.forward, self.update = self.network, self.optimizer.step
        if compiled:
            self.forward = braze.compile(self.network)
            self.update = braze.compile(self.optimizer.step)
        self.losses, self.accuracies, self.seconds, self.first_step = [], [], [], None

    def epoch(self, pictures, digits, seed):
        """Trains on each picture once; adds the mean loss and the seconds."""
        torch.manual_seed(seed)  # of the order and of the masks
        self.network.train()
        total = 0.0
        begin = time.perf_counter()
        for batch in torch.randperm(len(digits)).split(BATCH):
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.forward(pictures[batch]), digits[batch])
            loss.backward()
            self.update()
            total += loss.item() * len(batch)
            if self.first_step is None:
                self.first_step = time.perf_counter() - begin
        self.seconds.append(time.perf_counter() - begin)
        self.losses.append(total / len(digits))

    @torch.no_grad()
    def test(self, pictures, digits):
        """Adds the part of the pictures that it knows."""
        self.network.eval()
        right = self.forward(pictures).argmax(1) == digits
        self.accuracies.append(right.float().mean().item())


def largest_difference(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def new_figure():
    try:
        from matplotlib.figure import Figure
    except ImportError:
        sys.exit("The plot needs matplotlib: pip install matplotlib")
    return Figure(figsize=(9, 4), layout="constrained")


def draw(figure, eager, compiled):
    epochs = range(1, len(eager.losses) + 1)
    for axes, title, curves in (
        (figure.add_subplot(1, 2, 1), "training loss", (eager.losses, compiled.losses)),
        (figure.add_subplot(1, 2, 2), "test accuracy", (eager.accuracies, compiled.accuracies)),
    ):
        axes.plot(epochs, curves[0], linewidth=4, alpha=0.4, label="eager")
        axes.plot(epochs, curves[1], linestyle="--", label="Braze")
        axes.set(title=title, xlabel="epoch")
        axes.legend()


def train(epochs, seed=0):
    """(eager, compiled), trained epoch by epoch."""
    train_pictures, train_digits, test_pictures, test_digits = load()
    both = Training(seed, compiled=False), Training(seed, compiled=True)
    print("           training loss        test accuracy           seconds")
    print("epoch     eager     Braze      eager    Braze       eager    Braze")
    for epoch in range(epochs):
        for training in both:
            training.epoch(train_pictures, train_digits, seed + epoch)
            training.test(test_pictures, test_digits)
        eager, compiled = both
        print(
            f"{epoch + 1:5}  {eager.losses[-1]:8.5f}  {compiled.losses[-1]:8.5f}"
            f"    {eager.accuracies[-1]:7.2%}  {compiled.accuracies[-1]:7.2%}"
            f"    {eager.seconds[-1]:8.3f} {compiled.seconds[-1]:8.3f}",
            flush=True,
        )
    return both


def main(words=None):
    parser = argparse.ArgumentParser(description="Digits: eager and compiled training compared.")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", metavar="FILE", help="draw both curves into this file")
    arguments = parser.parse_args(words)
    figure = new_figure() if arguments.plot else None

    eager, compiled = train(arguments.epochs, arguments.seed)
    print()
    for name, training in (("eager", eager), ("Braze", compiled)):
        print(
            f"{name}: first step {training.first_step:.2f} s, median epoch "
            f"{statistics.median(training.seconds):.2f} s, all {sum(training.seconds):.1f} s"
        )
    print(
        f"The curves differ by at most {largest_difference(eager.losses, compiled.losses):.1e} in "
        f"loss and {largest_difference(eager.accuracies, compiled.accuracies):.2%} in accuracy."
    )
    if figure is not None:
        draw(figure, eager, compiled)
        figure.savefig(arguments.plot, dpi=120)
        print(f"The curves are in {arguments.plot}.")


if __name__ == "__main__":
    main()
