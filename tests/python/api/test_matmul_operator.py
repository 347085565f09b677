"""The operator that products of GPUs are compiled to: on a CPU it is ATen's product."""

import braze  # noqa: F401, which registers the operator
import pytest
import torch

matmul = torch.ops.braze.cublaslt_matmul


def test_products_of_matrices_and_batches():
    a, b, bias = torch.randn(6, 8), torch.randn(8, 5), torch.randn(5)
    assert torch.equal(matmul(a, b, None), a @ b)
    assert torch.equal(matmul(a, b, bias), torch.addmm(bias, a, b))
    assert torch.equal(matmul(a.t().contiguous().t(), b, None), a @ b)
    many, others = torch.randn(3, 6, 8), torch.randn(3, 8, 5)
    assert torch.equal(matmul(many, others, None), torch.bmm(many, others))


def test_rows_of_the_result_may_lie_apart():
    a, b, bias = torch.randn(6, 8), torch.randn(8, 5), torch.randn(5)
    whole = torch.full((6, 8), 7.0)
    out = whole[:, :5]
    assert matmul(a, b, bias, out=out) is out
    torch.testing.assert_close(out, torch.addmm(bias, a, b))
    assert (whole[:, 5:] == 7).all()


@pytest.mark.parametrize(
    "a, b, bias",
    [
        (torch.zeros(2, 3), torch.zeros(4, 5), None),
        (torch.zeros(2, 3), torch.zeros(3, 5), torch.zeros(4)),
        (torch.zeros(2, 3, 4), torch.zeros(3, 4, 5), None),
        (torch.zeros(2, 3), torch.zeros(3, 5, dtype=torch.float64), None),
        (torch.zeros(3), torch.zeros(3, 5), None),
    ],
)
def test_errors_are_atens(a, b, bias):
    with pytest.raises(RuntimeError):
        matmul(a, b, bias)
