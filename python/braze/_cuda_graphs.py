"""Recording of CUDA graphs by PyTorch's class, for the run time (`src/runtime/graphed_function.h`).

Each graph has memory of its own: were it shared, one graph would compute in memory where another's
results lie, which the program may still have.
"""

import contextlib
import functools
import threading
import warnings

import torch

from . import _C

_recording = threading.Lock()  # one at a time


@functools.cache
def _recording_stream(device):
    return torch.cuda.Stream(device)


class _Recording:
    def __init__(self, device):
        self._device = device
        self._before = None
        try:
            self._pool = torch.cuda.graph_pool_handle()
            before = torch.cuda.current_stream(device)
            # What cuBLAS has for the recording's stream has to be of this graph's memory.
            torch._C._cuda_clearCublasWorkspaces()
            self._graph = torch.cuda.CUDAGraph(keep_graph=True)
            # The seed that graphs read is written there as well.
            self._stream = _recording_stream(device)
            self._stream.wait_stream(before)
        except BaseException:
            _recording.release()  # nothing has begun
            raise
        self._before = before
        torch.cuda.set_stream(self._stream)
        try:
            # Other threads may go on using the GPU.
            self._graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        except BaseException:
            self.abandon()
            raise

    def finish(self, has_numbers):
        """The address of the CUgraphExec if its nodes will be changed, else 0."""
        with warnings.catch_warnings():
            # That there is nothing in it, as of empty tensors.
            warnings.simplefilter("ignore")
            self._graph.capture_end()
        self._leave()
        self._graph.instantiate()
        self.replay = self._graph.replay
        if not has_numbers or not hasattr(self._graph, "raw_cuda_graph_exec"):
            return 0
        return self._graph.raw_cuda_graph_exec()

    def abandon(self):
        """Ends what cannot be finished: the stream, the allocator and the generator as before."""
        if self._before is None:
            return
        # Each of these refuses where there is nothing left to end.
        for end in (
            self._graph.capture_end,
            functools.partial(torch._C._cuda_endAllocateToPool, self._device, self._pool),
        ):
            with contextlib.suppress(RuntimeError):
                end()
        try:
            self._record_nothing()
        finally:
            self._leave()

    def _record_nothing(self):
        # A recording that fails leaves the generator in the belief that it goes on.
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph.capture_end()

    def _leave(self):
        torch.cuda.set_stream(self._before)
        self._before.wait_stream(self._stream)
        self._before = None
        torch._C._cuda_clearCublasWorkspaces()
        _recording.release()


def _begin(device):
    return _Recording(device) if _recording.acquire(blocking=False) else None


@functools.cache
def install():
    _C.record_cuda_graphs(_begin)
