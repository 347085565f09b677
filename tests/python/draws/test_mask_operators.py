"""The operators of dropout's masks (`passes/dropout_masks.h`), where a graph runs without kernels."""

import braze
import pytest
import torch

LOW = 0xFFFFFFFF


def philox(key, offset, subsequence):
    """The four words of a counter, Philox 4x32-10 (Salmon et al., SC 2011)."""
    words = [offset & LOW, offset >> 32, subsequence & LOW, subsequence >> 32]
    keys = [key & LOW, key >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [
            (second >> 32) ^ words[1] ^ keys[0],
            second & LOW,
            (first >> 32) ^ words[3] ^ keys[1],
            first & LOW,
        ]
        keys = [(keys[0] + 0x9E3779B9) & LOW, (keys[1] + 0xBB67AE85) & LOW]
    return words


def drawn(key, offset, numel, threshold, threads, pack):
    """As a kernel whose threads take packs, one after the other."""
    mask = [False] * numel
    for thread in range(threads):
        counter = offset // 4
        for begin in range(thread * pack, numel, threads * pack):
            for four in range(begin, begin + pack, 4):
                for i, word in enumerate(philox(key, counter, thread)):
                    mask[four + i] = word < threshold
                counter += 1
    return mask


@pytest.mark.parametrize("pack", [4, 8])
@pytest.mark.parametrize("threads", [3, 64])
@pytest.mark.parametrize("threshold", [0, 3_000_000_000, 1 << 32])
def test_masks(pack, threads, threshold):
    assert braze  # registers the operators
    key, offset, first = 0x123456789ABCDEF, 1 << 34, 5
    state = torch.tensor([key, offset])
    mask = torch.ops.braze.philox_mask(state, first, [10, 16], threshold, threads, pack)
    expected = drawn(key, offset + 4 * first, 160, threshold, threads, pack)
    assert mask.dtype == torch.bool and mask.shape == (10, 16)
    assert mask.view(-1).tolist() == expected


def test_refused():
    state = torch.zeros(3, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="seed and offset"):
        torch.ops.braze.philox_mask(state, 0, [8], 1, 1, 4)
    with pytest.raises(RuntimeError, match="packs of 4 or 8"):
        torch.ops.braze.philox_mask(state[:2], 0, [8], 1, 1, 2)
    with pytest.raises(NotImplementedError, match="no generator of cpu"):
        torch.ops.braze.philox_state(4, torch.device("cpu"))


def test_tensors_that_begin_between_packs_are_refused():
    whole = torch.zeros(64)
    torch.ops.braze.refuse_unaligned([whole, whole[4:]])
    with pytest.raises(RuntimeError, match="multiple of 16 bytes"):
        torch.ops.braze.refuse_unaligned([whole, whole[1:]])
