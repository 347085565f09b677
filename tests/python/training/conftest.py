import pytest
import torch


@pytest.fixture(autouse=True)
def _inference():
    """In place of the fixture for all other tests: autograd is on."""
    torch.manual_seed(0)
    with torch.enable_grad():
        yield
