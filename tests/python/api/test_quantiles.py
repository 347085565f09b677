"""`quantile` and `nanquantile`: on the CPU some versions of PyTorch look for the elements of the
asked ranks instead of sorting."""

import braze
import pytest
import showing
import torch

NAN = float("nan")
TIED = torch.tensor([[0.0, -0.0, 3.0, NAN], [2.0, 2.0, -1.0, 2.0], [-0.0, 0.0, 0.0, -0.0]])
RANKS = [0.3, 0.0, 1.0, 1.5, torch.tensor(0.25), torch.tensor([0.1, 0.9]), torch.tensor([2.0]), torch.ones(1, 1)]  # fmt: skip


@pytest.mark.parametrize("function", (torch.quantile, torch.nanquantile))
@pytest.mark.parametrize("interpolation", ("linear", "lower", "nearest"))
def test_quantiles(function, interpolation):
    for x in (TIED, TIED.mT, TIED[:, :0], TIED[1, 2], TIED.double().view(3, 2, 2)):
        for dim, keepdim in ((None, False), (0, True), (-1, False), (1, True), (5, False)):
            for q in RANKS:
                q = q.to(x.dtype) if isinstance(q, torch.Tensor) else q

                def f(x):
                    return function(x * 1, q, dim, keepdim, interpolation=interpolation) + 0

                fast = braze.compile(f)
                expected = showing.outcome(f, x)
                for _ in range(2):
                    got = showing.outcome(fast, x)
                    assert showing.same(expected, got), (x, dim, keepdim, q, expected, got)
                if expected[0][0] == "returned":
                    assert torch.equal(fast(x).signbit(), f(x).signbit())


# Before PyTorch 2.14 it is traced, and what it asks of a tensor of ranks is a break.
SERVED = (0.3, torch.tensor([0.1, 0.75])) if torch.__version__ >= "2.14" else (0.3,)


@pytest.mark.parametrize("mode", (torch.no_grad, torch.inference_mode))
@pytest.mark.parametrize("q", SERVED)
def test_it_is_part_of_the_graph(q, mode):
    def f(x):
        return torch.quantile(x * 2, q, 1) + 1

    fast = braze.compile(f, fullgraph=True)
    with mode():
        for x in (torch.randn(4, 6), torch.randn(7, 5)):
            # What is between two ranks is rounded as the kernel of its own rounds.
            torch.testing.assert_close(fast(x), f(x), rtol=1e-6, atol=1e-6)
    assert not braze.explain(f)(torch.randn(4, 6)).breaks


@pytest.mark.parametrize("dynamic", (None, True))
def test_gradients_flow_to_the_same_of_equal_elements(dynamic):
    def f(x):
        return torch.quantile(x * 2, 0.4, 1) * 3

    fast = braze.compile(f, dynamic=dynamic)
    x = torch.tensor([[1.0, 1.0, 1.0, 2.0], [0.0, -0.0, 0.0, 0.0], [3.0, 1.0, 2.0, 1.0]])
    gradients = []
    with torch.enable_grad():
        for function in (f, fast, fast):
            given = x.clone().requires_grad_()
            function(given).sum().backward()
            gradients.append(given.grad)
    assert torch.equal(gradients[0], gradients[1]) and torch.equal(gradients[0], gradients[2])
