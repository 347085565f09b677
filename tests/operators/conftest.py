"""A process of its own: importing the operator database changes switches of PyTorch's."""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("BRAZE_CACHE_DIR", tempfile.mkdtemp(prefix="braze-test-cache-"))
PYTHON = Path(__file__).resolve().parent.parent / "python"
sys.path[:0] = [str(PYTHON), str(PYTHON / "trace")]
