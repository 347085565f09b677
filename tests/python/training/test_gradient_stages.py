"""Where hooks take gradients as they come, a backward gives them in stages."""

import copy
import subprocess
import sys
import textwrap

import braze
import pytest
import torch
from comparing import assert_same, assert_same_state

WIDTH = 32
LAYER = 4 * WIDTH * (WIDTH + 1)  # bytes of its gradients


class Layers(torch.nn.Module):
    def __init__(self, count=5, tied=False):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(count))
        if tied:
            self.layers[-1].weight = self.layers[0].weight

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x)) + x
        return x


def in_stages(model, **options):
    options = {"gradient_stage_bytes": LAYER, **options}
    return braze.compile(model, fullgraph=True, options=options)


def nodes_behind(result):
    """The nodes of Braze's among those that lead from it to leaves."""
    found, open_ = set(), [result.grad_fn]
    while open_:
        node = open_.pop()
        if node is None or node in found:
            continue
        found.add(node)
        open_ += [following for following, _ in node.next_functions]
    return [node for node in found if node.name() == "BrazeBackward"]


def hooked(model, hook):
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)


def batch(rows=8, seed=0):
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))


def pair(**settings):
    torch.manual_seed(0)
    model = Layers(**settings)
    return model, copy.deepcopy(model)


def test_there_is_one_stage_unless_somebody_takes_gradients():
    model, _ = pair()
    fast = in_stages(model)
    assert len(nodes_behind(fast(batch()))) == 1
    # A gradient is changed on its way, not taken.
    model.layers[0].weight.register_hook(lambda g: g * 2)
    assert len(nodes_behind(fast(batch()))) == 1
    model.layers[0].weight.register_post_accumulate_grad_hook(lambda p: None)
    assert len(nodes_behind(fast(batch()))) == 5


@pytest.mark.parametrize("bytes_", [0, 1, LAYER, 3 * LAYER, 100 * LAYER])
def test_hooks_are_called_as_in_eager(bytes_):
    model, twin = pair()
    fast = in_stages(twin, gradient_stage_bytes=bytes_)
    calls = []
    for which, module in (("eager", model), ("fast", twin)):
        names = {p: name for name, p in module.named_parameters()}
        hooked(module, lambda p, names=names, which=which: calls.append((which, names[p])))
    for step in range(3):
        calls.clear()
        for module, call in ((model, model), (twin, fast)):
            module.zero_grad()
            call(batch(seed=step)).square().mean().backward()
        assert_same_state(model, twin)
        in_eager = [name for which, name in calls if which == "eager"]
        compiled = [name for which, name in calls if which == "fast"]
        assert sorted(compiled) == sorted(in_eager) and len(compiled) == 10
        layers = [int(name.split(".")[1]) for name in compiled]
        if bytes_ in (1, LAYER):
            assert layers == sorted(layers, reverse=True)


@pytest.mark.parametrize("momentum", [0, 0.9])
def test_an_optimizer_in_hooks(momentum):
    """Whose steps write to parameters while the backward of others is still to run."""
    models = pair()
    calls = [models[0], in_stages(models[1])]
    for module in models:
        optimizers = {
            p: torch.optim.SGD([p], lr=0.1, momentum=momentum) for p in module.parameters()
        }

        def step(p, optimizers=optimizers):
            optimizers[p].step()
            optimizers[p].zero_grad()

        hooked(module, step)
    for seed in range(5):
        losses = []
        for call in calls:
            loss = call(batch(seed=seed)).square().mean()
            loss.backward()
            losses.append(loss.detach())
        assert_same(losses[1], losses[0])
        assert all(p.grad is None for p in models[1].parameters())
        assert_same_state(*models)


def test_a_tied_weight_is_given_when_all_of_it_is_there():
    model, twin = pair(tied=True)
    fast = in_stages(twin)

    def halve(p):
        p.data.mul_(0.5)

    for module in (model, twin):
        hooked(module, halve)
    for module, call in ((model, model), (twin, fast)):
        call(batch()).square().mean().backward()
    assert_same_state(model, twin)


@pytest.mark.parametrize("layer", [4, 2, 0])
def test_a_hook_that_raises(layer):
    model, twin = pair()
    fast = in_stages(twin)
    for module in (model, twin):
        raises = [True]

        def hook(p, raises=raises):
            if raises[0]:
                raise ValueError("no gradient, please")

        module.raises = raises
        module.layers[layer].weight.register_post_accumulate_grad_hook(hook)
    for module, call in ((model, model), (twin, fast)):
        loss = call(batch()).mean()
        with pytest.raises(ValueError, match="no gradient, please"):
            loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    # What comes behind the stage is not computed.
    for i in range(5):
        p, q = model.layers[i].weight, twin.layers[i].weight
        if i <= layer - 2 or i > layer:
            assert (p.grad is None) == (q.grad is None)
    for module, call in ((model, model), (twin, fast)):
        module.raises[0] = False
        module.zero_grad()
        call(batch()).mean().backward()
    assert_same_state(model, twin)


def test_ways_to_ask_for_gradients():
    model, twin = pair()
    fast = in_stages(twin)
    results = []
    for module, call in ((model, model), (twin, fast)):
        hooked(module, lambda p: None)
        x = batch().requires_grad_()
        weights = [layer.weight for layer in module.layers]
        loss = call(x).square().mean()
        found = list(torch.autograd.grad(loss, [weights[4], x], retain_graph=True))
        found += torch.autograd.grad(loss, weights[1:3], retain_graph=True)
        loss.backward(inputs=[weights[3]], retain_graph=True)
        found.append(weights[3].grad.clone())
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        results.append(found + [p.grad for p in module.parameters()])
    for got, wanted in zip(results[1], results[0], strict=True):
        assert_same(got, wanted)


def test_gradients_of_gradients():
    model, twin = pair(count=3)
    fast = in_stages(twin)
    for module, call in ((model, model), (twin, fast)):
        hooked(module, lambda p: None)
        x = batch().requires_grad_()
        (of_x,) = torch.autograd.grad(call(x).square().mean(), x, create_graph=True)
        of_x.square().sum().backward()
    assert_same_state(model, twin)


class WithLogits(Layers):
    def forward(self, x, labels):
        logits = super().forward(x)
        return torch.nn.functional.cross_entropy(logits, labels), logits


@pytest.mark.parametrize("asks", ["loss", "both", "logits"])
def test_stages_run_one_after_the_other(asks):
    """Whichever results gradients come from."""
    torch.manual_seed(0)
    model = WithLogits()
    fast = in_stages(model)
    given, taken = [], []
    hooked(model, lambda p: taken.append(len(given)))
    loss, logits = fast(batch(), torch.arange(8))
    result = {"loss": loss, "both": loss + logits.mean(), "logits": logits.mean()}[asks]
    stages = [node for node in nodes_behind(result) if node not in (loss.grad_fn, logits.grad_fn)]
    for node in stages:
        node.register_prehook(lambda grads: given.append(any(g is not None for g in grads)))
    result.backward()
    assert len(stages) == 4 and given == [True] * 4
    assert [taken.count(n) for n in range(5)] == [2] * 5


@pytest.mark.parametrize("asks", ["loss", "both", "logits", "hook"])
def test_results_that_others_are_computed_from(asks):
    torch.manual_seed(0)
    model = WithLogits()
    twin = copy.deepcopy(model)
    fast = in_stages(twin)
    labels = torch.arange(8)
    for module, call in ((model, model), (twin, fast)):
        hooked(module, lambda p: None)
        loss, logits = call(batch(), labels)
        if asks == "hook":
            logits.register_hook(lambda g: g * 2)
        if asks == "both":
            loss = loss + logits.sum()
        (logits.mean() if asks == "logits" else loss).backward()
    assert_same_state(model, twin)


def test_a_scalar_that_all_stages_take():
    """A penalty on each weight is the loss's tangent times that weight."""
    torch.manual_seed(0)
    models = Layers(), Layers()
    models[1].load_state_dict(models[0].state_dict())

    def loss(module, x):
        return module(x).square().mean() + sum(p.square().sum() for p in module.parameters()) / 100

    for module, call in zip(models, (loss, in_stages(loss)), strict=True):
        hooked(module, lambda p: None)
        call(module, batch()).backward()
    assert_same_state(*models)


@pytest.mark.parametrize("asks", ["one", "two", "both"])
def test_what_is_computed_again_where_a_gradient_is_absent(asks):
    """What a checkpoint makes again is handed on to later stages, whoever's gradients come."""
    from torch.utils.checkpoint import checkpoint

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.other = torch.nn.Linear(WIDTH, WIDTH)

        def block(self, x):
            hidden = torch.tanh(self.first(x))
            hidden = hidden @ hidden.T.softmax(-1) @ hidden
            one = self.second(hidden).sin()
            return one, self.other(one.exp() * hidden)

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=False)

    torch.manual_seed(0)
    model = Two()
    twin = copy.deepcopy(model)
    fast = in_stages(twin, gradient_stage_bytes=1)
    for module, call in ((model, model), (twin, fast)):
        hooked(module, lambda p: None)
        one, two = call(batch())
        results = {"one": [one], "two": [two], "both": [one, two]}[asks]
        sum(result.square().mean() for result in results).backward()
    assert_same_state(model, twin)


def test_sizes_that_vary():
    model, twin = pair()
    fast = in_stages(twin)
    for module in (model, twin):
        hooked(module, lambda p: None)
    for rows in (8, 8, 5, 3, 9):
        for module, call in ((model, model), (twin, fast)):
            module.zero_grad()
            call(batch(rows)).square().mean().backward()
        assert_same_state(model, twin)


@pytest.mark.parametrize("layer", [0, 4])
def test_a_parameter_that_is_written_to_before(layer):
    said = []
    model, twin = pair()
    for module, call in ((model, model), (twin, in_stages(twin))):
        hooked(module, lambda p: None)
        loss = call(batch().requires_grad_()).mean()
        with torch.no_grad():
            module.layers[layer].weight.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as info:
            loss.backward()
        said.append(str(info.value).split("]")[0])
    assert said[0].split("[")[0] == said[1].split("[")[0]


def test_dropout_and_checkpoints():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    model = Layers()
    twin = copy.deepcopy(model)

    def call(module, x):
        for layer in module.layers:
            x = checkpoint(
                lambda x, layer=layer: torch.dropout(layer(x).sin(), 0.3, True),
                x,
                use_reentrant=False,
            )
        return x

    fast = in_stages(call)
    for module, function in ((model, call), (twin, fast)):
        hooked(module, lambda p: None)
        torch.manual_seed(1)
        function(module, batch()).square().mean().backward()
    assert_same_state(model, twin)


PEAK = textwrap.dedent("""
    import sys, torch, braze
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(12)])
    x = torch.randn(64, 2048)

    def step(p):
        p.data.sub_(p.grad, alpha=1e-3)
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)

    def field(name):
        lines = open("/proc/self/status").read().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(name)))

    call = model if sys.argv[1] == "eager" else braze.compile(
        model, options={"gradient_stage_bytes": int(sys.argv[1])})
    before = field("VmRSS")
    for _ in range(3):
        call(x).square().mean().backward()
    print((field("VmHWM") - before) >> 10)
""")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status; Linux lifts it")
def test_gradients_that_are_taken_are_not_there_all_at_once():
    """Twelve of 16 MiB."""

    def peak(how):
        run = subprocess.run(
            [sys.executable, "-c", PEAK, how], capture_output=True, text=True, check=True
        )
        return int(run.stdout)

    assert peak("0") > 12 * 16
    assert peak(str(16 << 20)) < 6 * 16


def test_bytes_that_are_no_number():
    for given in (1.5, True, -1, "25 MB"):
        with pytest.raises(ValueError, match="gradient_stage_bytes must be a number of bytes"):
            braze.compile(Layers(), options={"gradient_stage_bytes": given})


def test_a_hook_that_writes_to_a_gradient_of_which_more_is_to_be_read():
    """The gradient of what is added as a view is a view of what flows on."""

    class Shifted(Layers):
        def __init__(self):
            super().__init__(count=3)
            self.shift = torch.nn.Parameter(torch.randn(8 * WIDTH))

        def forward(self, x):
            return super().forward(x) + self.shift.view(8, WIDTH)

    def clear(p):
        p.grad.zero_()

    torch.manual_seed(0)
    model = Shifted()
    twin = copy.deepcopy(model)
    twin.shift.register_post_accumulate_grad_hook(clear)
    fast = in_stages(twin, gradient_stage_bytes=1)
    for call in (model, fast):
        call(batch()).square().mean().backward()
    assert not twin.shift.grad.any()
    for p, q in zip(model.layers.parameters(), twin.layers.parameters(), strict=True):
        assert_same(q.grad, p.grad)
