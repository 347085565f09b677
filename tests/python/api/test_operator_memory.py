"""Results of PyTorch's operators in compiled code live in its pool: they are tensors like others."""

import copy
import gc
import pickle
import threading

import braze
import numpy as np
import torch
import torch.nn.functional as F

X = torch.randn(4, 8, 64, 64)
WEIGHT = torch.randn(16, 8, 3, 3)


def convolved(x):
    return F.conv2d(x, WEIGHT, padding=1)


def test_results_outlive_the_function_and_others():
    fast = braze.compile(convolved)
    kept = [fast(X * i) for i in range(5)]
    del fast
    gc.collect()
    for i, result in enumerate(kept):
        torch.testing.assert_close(result, convolved(X * i))


def test_results_can_be_resized_shared_copied_and_sent():
    result, expected = braze.compile(convolved)(X), convolved(X)
    assert np.shares_memory(result.numpy(), result.numpy())
    for twin in (copy.deepcopy(result), pickle.loads(pickle.dumps(result)), result.clone()):
        assert torch.equal(twin, result)
    result.share_memory_()
    torch.testing.assert_close(result, expected)
    result = braze.compile(convolved)(X)
    result.resize_(8, 16, 64, 64)
    torch.testing.assert_close(result[:4], expected)
    storage = result.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0


def test_a_lazy_copy_of_a_result():
    result = braze.compile(convolved)(X)
    lazy = torch._lazy_clone(result)
    before = result.clone()
    result.add_(1)
    assert torch.equal(lazy, before)


def test_eager_operators_beside_and_behind():
    weights = torch.randn(32, 8, 3, 3, requires_grad=True)

    def eager():
        return F.conv2d(X, weights).square().mean()

    fast, results = braze.compile(convolved), []

    def work():
        for _ in range(10):
            loss = eager()
            loss.backward()
            results.append(loss.detach())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        torch.testing.assert_close(fast(X), convolved(X))
    for thread in threads:
        thread.join()
    for result in results:
        torch.testing.assert_close(result, eager().detach())
