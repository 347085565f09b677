import os
import signal
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
# Tests neither use nor fill the user's cache, nor that of the process that started this one.
if "BRAZE_CACHE_DIR" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["BRAZE_CACHE_DIR"] = tempfile.mkdtemp(prefix="braze-test-cache-")
sys.path.insert(0, os.path.dirname(__file__))

import pytest
import torch
from support import autocast_nesting

# A shell that starts the tests in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _inference():
    """Tests run without gradients, as the compiled code of this version does."""
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    # Left open it would keep casts of weights for the tests that follow.
    assert autocast_nesting() == 0, "the test left an autocast context open"
