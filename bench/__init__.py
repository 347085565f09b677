"""Benchmarks: `python -m bench models|kernels|overhead|memory|...`.

Every figure stands beside eager PyTorch and torch.compile, each compiler in a process of its own,
and is a median of interleaved runs. docs/benchmarks.md is what the last full run gave.
"""
