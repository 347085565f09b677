"""torch.tensor and its like read the data of tensors in lists past the dispatcher: each call anew."""

import braze
import pytest
import torch


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.tensor(0.3)


HOLDER = Holder()
MAKERS = {
    "tensor": lambda d: torch.tensor([d, 1.0]),
    "tensor of a tuple": lambda d: torch.tensor((d, d)),
    "tensor of lists": lambda d: torch.tensor([[d], [1.0]]),
    "tensor of a dtype": lambda d: torch.tensor([d, d], dtype=torch.float64),
    "tensor of an attribute": lambda d: torch.tensor([HOLDER.scale, d]),
    "tensor of a computed one": lambda d: torch.tensor([d * 2, 1.0]),
    "tensor of one": lambda d: torch.tensor(d),
    "as_tensor": lambda d: torch.as_tensor([d, d]),
    "asarray": lambda d: torch.asarray([d, d]),
    "new_tensor": lambda d: d.new_tensor([d, d]),
    "new": lambda d: d.new([d, d]),
    "FloatTensor": lambda d: torch.FloatTensor([d, d]),
    "Tensor": lambda d: torch.Tensor([d, d]),
    "LongTensor": lambda d: torch.LongTensor([(d * 10).long(), 2]),
    "parameter": lambda d: torch.nn.Parameter(torch.tensor([d])),
    "with others": lambda d: torch.cat([d[None], torch.tensor([d, torch.finfo(d.dtype).eps])]),
    "sparse": lambda d: torch.sparse_coo_tensor([[0, 1]], [d, d]).to_dense(),
    "full": lambda d: torch.full((2,), d),
    "sizes": lambda d: torch.zeros([(d * 10).long(), 2]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", MAKERS)
def test_data_of_tensors_in_lists(name, dynamic):
    fast = braze.compile(MAKERS[name], dynamic=dynamic)
    for value in (0.3, 0.5, 0.3, 0.7):
        HOLDER.scale = torch.tensor(value)
        expected, got = MAKERS[name](torch.tensor(value)), fast(torch.tensor(value))
        assert type(got) is type(expected) and got.dtype == expected.dtype
        assert got.tolist() == expected.tolist()
