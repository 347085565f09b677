"""Tests of CUDA tensors need a GPU. BRAZE_TEST_GPU_CODEGEN=triton runs all of them with kernels in
Triton where there are some.
"""

import os
import pathlib

import pytest
import torch
from braze import _api

HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(
        reason="needs an NVIDIA GPU that PyTorch can use; a machine with one lifts it"
    )
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def kernels_in_the_language_wanted(monkeypatch):
    wanted = os.environ.get("BRAZE_TEST_GPU_CODEGEN")
    if wanted:
        check = _api._check_settings

        def with_language(fullgraph, dynamic, backend, mode, options, limit):
            options = {"gpu_codegen": wanted, **(options or {})}
            return check(fullgraph, dynamic, backend, mode, options, limit)

        monkeypatch.setattr(_api, "_check_settings", with_language)
