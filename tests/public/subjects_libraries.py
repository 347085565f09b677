"""Libraries: their public functions and modules, with what their parameters take."""

import torch
import torchvision_operators  # noqa: F401
from recipes import const, tensor, unit
from subjects import walked
from subjects_distributions import simple


def einops():
    from einops import asnumpy, einsum, pack, parse_shape, rearrange, reduce, repeat, unpack  # noqa: F401
    from einops.layers.torch import EinMix, Rearrange, Reduce

    image = tensor("n", 3, 4, 6)
    table = {}
    for pattern, sizes in [
        ("b c h w -> b (c h) w", {}), ("b c h w -> b h w c", {}), ("b c (h a) (w b2) -> b (c a b2) h w", {"a": 2, "b2": 3}),
        ("b c h w -> (b h) (c w)", {}), ("b c h w -> w h c b", {}), ("b c ... -> ... b c", {}), ("b c h w -> b c h w 1", {}),
        ("(b k) c h w -> b k c h w", {"k": 1}), ("b c h -> b", {}), ("b c h w -> b c (h q) w", {}),
    ]:  # fmt: skip
        table[f"einops.rearrange({pattern})"] = lambda p=pattern, s=sizes: simple(
            lambda x: rearrange(x, p, **s), image
        )
        table[f"einops.layers.torch.Rearrange({pattern})"] = lambda p=pattern, s=sizes: simple(
            lambda x: Rearrange(p, **s)(x), image
        )
    for how in ("mean", "sum", "max", "min", "prod", "any", "all"):
        table[f"einops.reduce({how})"] = lambda how=how: simple(
            lambda x: reduce(x, "b c (h a) w -> b h", how, a=2), image
        )
        table[f"einops.layers.torch.Reduce({how})"] = lambda how=how: simple(
            lambda x: Reduce("b c (h a) w -> b c 1 w", how, a=2)(x), image
        )
    table["einops.repeat"] = lambda: simple(
        lambda x: repeat(x, "b c h w -> b (c k) h w", k=2), image
    )
    table["einops.repeat new axis"] = lambda: simple(
        lambda x: repeat(x, "b c h w -> k b c h w", k=x.size(0)), image
    )
    table["einops.einsum"] = lambda: simple(
        lambda x: einsum(x, x, "b c h w, b d h w -> b c d"), image
    )
    table["einops.parse_shape"] = lambda: simple(
        lambda x: (parse_shape(x, "b c _ w"), x + 1), image
    )
    table["einops.pack"] = lambda: simple(lambda x: pack([x, x[:, 0]], "b * w"), image)
    table["einops.unpack"] = lambda: simple(lambda x: unpack(x, [(1,), (2,)], "b * h w"), image)
    table["einops.layers.torch.EinMix"] = lambda: simple(
        lambda x: EinMix("b c h w -> b h k", weight_shape="c w k", bias_shape="k", c=3, w=6, k=5)(
            x
        ),
        image,
    )
    return table


def kornia():
    return walked(
        "kornia",
        skip=r"onnx|kornia\.(x|core\.external|io|metrics\.vibrant)|models|contrib|feature\.(lightglue|loftr|disk|dedode|sold2|keynet|xfeat|aliked)",
    )


def torchvision():
    given = {"num_output_channels": [const(3)], "brightness_factor": [const(0.7)], "contrast_factor": [const(0.7)],
             "saturation_factor": [const(0.7)], "hue_factor": [const(0.2)], "gamma": [const(0.7)], "kernel_size": [const(3)],
             "mean": [const([0.5, 0.4, 0.3])], "std": [const([0.2, 0.3, 0.4])], "bits": [const(4)], "sharpness_factor": [const(0.6)]}  # fmt: skip
    return walked(
        "torchvision", skip=r"\.(models|datasets|io|prototype|extension)\b|_utils", given=given
    )


def torchmetrics():
    given = {"num_classes": [const(5)], "num_labels": [const(8)]}
    return walked(
        "torchmetrics",
        only=r"^torchmetrics\.functional",
        skip=r"multimodal|text\.(bert|infolm)|audio",
        given=given,
    )


def e3nn():
    given = {
        "irreps_in": [const("2x0e + 1x1o")], "irreps_out": [const("1x0e + 1x1o")], "irreps": [const("2x0e + 1x1o")],
        "irreps_in1": [const("2x0e + 1x1o")], "irreps_in2": [const("1x0e + 1x1o")], "l": [const(1)], "lmax": [const(2)],
    }  # fmt: skip
    return walked(
        "e3nn", given=given, forward={"x": [tensor("n", 5)], "features": [tensor("n", 5)]}
    )


def torch_geometric():
    nodes = tensor(4, 8)
    given = {
        "in_channels": [const(8)],
        "out_channels": [const(8)],
        "hidden_channels": [const(8)],
        "num_layers": [const(2)],
    }
    forward = {
        "x": [nodes, tensor(4, 8, 8)],
        "batch": [lambda n: torch.tensor([0, 0, 1, 1])],
        "index": [lambda n: torch.tensor([0, 0, 1, 1])],
    }
    table = walked(
        "torch_geometric.nn",
        skip=r"nlp|llm|hub|summary|data_parallel|fx",
        given=given,
        forward=forward,
    )
    table.update(walked("torch_geometric.utils", given={"x": [nodes], "src": [nodes]}))
    return table


def timm():
    import timm

    given = {"in_chs": [const(8)], "out_chs": [const(8)], "dim": [const(8)], "num_heads": [const(2)], "channels": [const(8)],
             "in_features": [const(8)], "img_size": [const(8)], "patch_size": [const(4)], "feat_size": [const((8, 8))]}  # fmt: skip
    forward = {
        "x": [
            tensor("n", 8, 8, 8),
            tensor("n", 5, 8),
            tensor("n", 8, 8),
            unit("n", 3, 8, 8),
            tensor("n", 8),
        ]
    }
    table = walked(
        "timm", skip=r"timm\.(data|models\._|utils\.(agc|onnx))", given=given, forward=forward
    )
    # Whole models are large; their parts are what is tried.
    models = set(timm.list_models())
    return {name: build for name, build in table.items() if name.split(".")[-1] not in models}


def diffusers():
    from diffusers import ModelMixin

    given = {"in_channels": [const(8)], "out_channels": [const(8)], "channels": [const(8)], "dim": [const(8)], "temb_channels": [const(16)],
             "num_attention_heads": [const(2)], "attention_head_dim": [const(4)], "embedding_dim": [const(8)], "num_layers": [const(1)]}  # fmt: skip
    forward = {
        "hidden_states": [tensor("n", 8, 8, 8), tensor("n", 5, 8)],
        "temb": [tensor("n", 16)],
        "sample": [tensor("n", 8, 8, 8)],
    }
    return walked("diffusers", only=r"models|schedulers|image_processor|training_utils|utils\.torch", given=given, forward=forward,
                  skip=r"flax|controlnets|pipelines|quantiz", too_large=ModelMixin)  # fmt: skip


def transformers():
    from transformers import PreTrainedModel

    given = {"hidden_size": [const(8)], "dim": [const(8)], "n_rep": [const(2)]}
    return walked(
        "transformers",
        only=r"activations|pytorch_utils|loss\.|modeling_attn_mask|masking_utils|trainer_pt_utils|image_transforms|generation\.(logits|utils)|time_series",
        skip=r"hub|fsdp|distributed",
        given=given,
        too_large=PreTrainedModel,
    )
