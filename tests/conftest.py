import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _frozen():
    """What PyTorch, transformers and the tests' modules have made stays, and is not looked through
    again by each collection of garbage: a third of a second with all of it there."""
    gc.collect()
    gc.freeze()
