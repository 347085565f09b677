"""Tests of CUDA tensors need a GPU."""

import pathlib

import pytest
import torch

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
