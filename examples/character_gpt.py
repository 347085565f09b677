"""Trains a small GPT on the characters of Braze's own documentation, in eager and compiled.

    python examples/character_gpt.py
    python examples/character_gpt.py --steps 1500       # longer, for better text
    pip install matplotlib && python examples/character_gpt.py --plot losses.png

Both models start from the same parameters and see the same batches and the same dropout masks,
those within attention too: Braze draws the numbers that eager draws for a seed. What is compiled
are the model with its loss, their backward with them, and the step of the optimizer; the loop
around them is as it was. The two are trained by turns, so that what else runs on the machine slows
both.

Expect about a minute, two columns of losses that agree but for rounding, and a text that the
compiled model writes one character after the other: the length of its input grows, and is a symbol
after one more compile. The first step compiles; another run finds its kernels in the cache on disk.
In a long run, rounding grows from step to step and the columns part at last, as those of eager with
one thread and with two do.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import braze
import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md", "docs/roadmap.md"]
BATCH, CONTEXT = 16, 64
WIDTH, HEADS, BLOCKS, DROPOUT = 128, 4, 3, 0.1


def load():
    """(characters, text as their numbers)."""
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in TEXTS)
    characters = sorted(set(text))
    number = {character: i for i, character in enumerate(characters)}
    return characters, torch.tensor([number[character] for character in text])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_of_attention, self.norm_of_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(DROPOUT)
        )
        self.dropout = nn.Dropout(DROPOUT)

    def attention(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.queries_keys_values(x).split(WIDTH, dim=2)
        )
        dropout = DROPOUT if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.dropout(self.projection(y.transpose(1, 2).reshape(batch, length, WIDTH)))

    def forward(self, x):
        x = x + self.attention(self.norm_of_attention(x))
        return x + self.mlp(self.norm_of_mlp(x))


class GPT(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, characters, bias=False)

    def forward(self, tokens, targets=None):
        """The logits of what follows each token, or with `targets` the mean loss."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.characters(tokens) + self.places(places))
        logits = self.head(self.norm(self.blocks(x)))
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Training:
    """A model in training, and what has been measured of it."""

    def __init__(self, characters, seed, compiled):
        torch.manual_seed(seed)
        self.model = GPT(characters)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3, betas=(0.9, 0.99))
        self.forward, self.update = self.model, self.optimizer.step
        if compiled:
            self.forward = braze.compile(self.model)
            self.update = braze.compile(self.optimizer.step)
        self.losses, self.seconds = [], []  # of each step

    def step(self, text, seed):
        begin = time.perf_counter()
        torch.manual_seed(seed)  # of the batch and of the masks
        starts = torch.randint(len(text) - CONTEXT, (BATCH, 1))
        places = starts + torch.arange(CONTEXT)
        self.optimizer.zero_grad()
        loss = self.forward(text[places], text[places + 1])
        loss.backward()
        self.update()
        self.losses.append(loss.item())
        self.seconds.append(time.perf_counter() - begin)

    def tokens_per_second(self):
        """Of the median step."""
        return BATCH * CONTEXT / statistics.median(self.seconds)

    @torch.no_grad()
    def write(self, tokens, length, seed=0):
        """`tokens`, a list, and `length` more that the model draws."""
        torch.manual_seed(seed)
        self.model.eval()
        for _ in range(length):
            logits = self.forward(torch.tensor([tokens[-CONTEXT:]]))[0, -1]
            drawn = torch.multinomial(F.softmax(logits / 0.7, dim=0), 1)
            tokens = [*tokens, drawn.item()]
        return tokens


def largest_difference(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def new_figure():
    try:
        from matplotlib.figure import Figure
    except ImportError:
        sys.exit("The plot needs matplotlib: pip install matplotlib")
    return Figure(figsize=(7, 4), layout="constrained")


def draw(figure, eager, compiled):
    axes = figure.add_subplot()
    steps = range(1, len(eager.losses) + 1)
    axes.plot(steps, eager.losses, linewidth=4, alpha=0.4, label="eager")
    axes.plot(steps, compiled.losses, linewidth=1, label="Braze")
    axes.set(title="training loss of a character GPT", xlabel="step")
    axes.legend()


def train(steps, seed=0, lines=12):
    """(characters, eager, compiled), trained by turns of a line of the table."""
    characters, text = load()
    eager = Training(len(characters), seed, compiled=False)
    compiled = Training(len(characters), seed, compiled=True)
    print(f"{len(text)} characters, {sum(p.numel() for p in eager.model.parameters())} parameters")
    print(" step  loss in eager  with Braze")
    every = max(1, steps // lines)
    for first in range(0, steps, every):
        turn = range(first, min(first + every, steps))
        for training in (eager, compiled):
            for step in turn:
                training.step(text, seed + step)
        print(
            f"{turn[-1] + 1:5}  {eager.losses[-1]:13.5f}  {compiled.losses[-1]:10.5f}", flush=True
        )
    return characters, eager, compiled


def main(words=None):
    parser = argparse.ArgumentParser(description="A GPT of characters, in eager and compiled.")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", metavar="FILE", help="draw both curves into this file")
    arguments = parser.parse_args(words)
    figure = new_figure() if arguments.plot else None

    characters, eager, compiled = train(arguments.steps, arguments.seed)
    print(
        f"\nThe losses differ by at most {largest_difference(eager.losses, compiled.losses):.1e}."
    )
    for name, training in (("eager", eager), ("Braze", compiled)):
        print(
            f"{name}: first step {training.seconds[0]:.2f} s, then "
            f"{training.tokens_per_second():.0f} tokens per second"
        )
    begin = time.perf_counter()
    prompt = [characters.index(character) for character in "A compiler "]
    sample = "".join(characters[token] for token in compiled.write(prompt, 300))
    print(f"\nThe compiled model writes, in {time.perf_counter() - begin:.1f} s:\n\n{sample}")
    if figure is not None:
        draw(figure, eager, compiled)
        figure.savefig(arguments.plot, dpi=120)
        print(f"\nThe losses are in {arguments.plot}.")


if __name__ == "__main__":
    main()
