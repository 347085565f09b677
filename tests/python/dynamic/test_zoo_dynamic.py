"""Every model of the zoo in four batch and sequence (or image) sizes: one compile for the first,
one for all others, correct by the fp64 rule."""

import braze
import pytest
from accuracy import assert_accurate, exact_result
from support import entries, reasons

from bench.models import tensors
from bench.zoo import ZOO

pytest.importorskip("transformers", reason="the models come from transformers")

TEXT = ((2, 16), (3, 24), (5, 9), (4, 40))
# The last feature maps have more than one element: sizes of 1 are compiled for themselves.
IMAGES = ((2, 64), (3, 96), (5, 128), (4, 160))
# The size of the image is part of the model (position embeddings).
FIXED_IMAGES = ((2, 32), (3, 32), (5, 32))
SHORT_TEXT = ((2, 8), (3, 12), (5, 5), (4, 20))
SIZES = {
    "vit": FIXED_IMAGES,
    "whisper": SHORT_TEXT,
    "whisper_cache": SHORT_TEXT,
    "resnet": IMAGES,
    "convnext": IMAGES,
    "mobilenet_v2": IMAGES,
    "segformer": IMAGES,
    "unet": IMAGES,
}
# What takes more compiles, and why.
MORE = {
    "mamba": "a scan over the length is unrolled",
    "transformer": "its fast path reads a mask's data",
    "cell_loop": "a loop over the length is unrolled",
}


@pytest.mark.parametrize("name", ZOO)
def test_two_compiles(name):
    zoo = ZOO[name]
    model = zoo.build()
    fast = braze.compile(model)
    for size in SIZES.get(name, TEXT):
        arguments = zoo.arguments(size)
        eager, out = model(**zoo.arguments(size)), fast(**arguments)
        exact = exact_result(model, zoo.arguments(size))
        assert_accurate(tensors(out), tensors(eager), exact)
    few = len(entries(fast)) <= 2 and not reasons(fast)
    assert few or name in MORE, "\n".join("\n".join(e["guards"]) for e in entries(fast)[-2:])
    assert not few or name not in MORE, "it takes two compiles now: say so in MORE"
