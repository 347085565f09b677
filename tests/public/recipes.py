"""Values for parameters, by name, annotation and default: candidates that are tried in order.

A recipe is a function of `n`, the size that varies from call to call. Tensors are drawn from
PyTorch's generator, which the harness has seeded.
"""

import inspect
import re

import torch


def tensor(*shape):
    return lambda n: torch.randn(*(n if s == "n" else s for s in shape))


def unit(*shape):
    return lambda n: torch.rand(*(n if s == "n" else s for s in shape))


def below(most, *shape):
    return lambda n: torch.randint(0, most, tuple(n if s == "n" else s for s in shape))


def const(value):
    return lambda n: value


def of(kind, *parts):
    return lambda n: kind(part(n) for part in parts)


def positive_definite(*shape):
    def make(n):
        a = torch.randn(*(n if s == "n" else s for s in shape))
        return a @ a.mT + 3 * torch.eye(a.shape[-1])

    return make


def boxes(n):
    corner = torch.rand(n + 1, 2) * 5
    return torch.cat([corner, corner + 1 + torch.rand(n + 1, 2) * 5], 1)


def homography(n):
    return torch.eye(3).repeat(n, 1, 1) + 0.05 * torch.randn(n, 3, 3)


def rotation(n):
    return torch.linalg.qr(torch.randn(n, 3, 3))[0]


def pose(n):
    found = torch.eye(4).repeat(n, 1, 1)
    found[:, :3, :3], found[:, :3, 3] = rotation(n), torch.randn(n, 3)
    return found


def camera(n):
    found = torch.eye(3).repeat(n, 1, 1)
    found[:, 0, 0] = found[:, 1, 1] = 4 + torch.rand(n)
    found[:, :2, 2] = 4.0
    return found


def edges(n):
    return torch.randint(0, 4, (2, 5 + n))


def quaternion(n):
    return torch.nn.functional.normalize(torch.randn(n, 4), dim=-1)


IMAGE, GREY = unit("n", 3, 8, 8), unit("n", 1, 8, 8)
LARGE = unit("n", 3, 32, 32)
GENERIC = [
    IMAGE, tensor("n", 4), GREY, tensor("n", 5, 4), tensor(6), tensor("n", 5, 3), tensor("n", 5, 2),
    tensor("n", 3, 3), homography, pose, below(4, "n"), below(4, "n", 5), tensor("n", 3), tensor("n", 2),
    tensor(4, 4), const(2), const(0.5), lambda n: torch.rand(n, 8) > 0.5, tensor(), LARGE,
    of(list, tensor("n", 4), tensor("n", 4)), unit(3, 8, 8), tensor("n", 4, 4, 4, 4), const((4, 4)), const("mean"),
    tensor("n", 2, 8, 8), lambda n: n,
]  # fmt: skip

# The first pattern that is found in a parameter's name gives its candidates.
BY_NAME = [
    (r"edge_index$|^adj$|^index_pairs", [edges]),
    (r"edge_(attr|weight)", [lambda n: torch.rand(5 + n), lambda n: torch.rand(5 + n, 4)]),
    (r"^batch$|^batch_x$|^batch_y$", [lambda n: torch.tensor([0, 0, 1, 1])]),
    (r"^(num_nodes|N)$", [const(4), const(None)]),
    (r"^(boxes|bboxes|boxes1|boxes2|box|anchors|rois)$", [boxes, lambda n: boxes(n)[None], lambda n: torch.rand(n, 4, 2) * 5]),
    (r"^(scores|iou)$", [lambda n: torch.rand(n + 1), unit("n", 4)]),
    (r"^(masks?|mask_in|attn_mask|attention_mask|key_padding_mask|valid)$", [const(None), lambda n: torch.rand(n, 5) > 0.3, lambda n: torch.rand(n, 1, 8, 8) > 0.3, unit("n", 1, 8, 8)]),
    (r"quaternion|^q$|^quat", [quaternion, tensor("n", 2, 5, 4)]),
    (r"homograph|dst_pix_trans|^H$|dst_homo|trans_", [homography]),
    (r"rotation_matrix|^R$|^rot", [rotation]),
    (r"^(K|K1|K2|camera_matrix|camera_matrix_?\d?|intrinsics?)$", [camera]),
    (r"extrinsic|transform_|_trans_|^pose", [pose]),
    (r"^M$|affine_matrix|^theta$", [lambda n: homography(n)[:, :2], homography]),
    (r"^preds$", [unit("n", 8), tensor("n", 8), below(2, "n", 8), IMAGE, unit("n", 3, 16, 16), unit(8), lambda n: torch.rand(n, 5).softmax(-1), below(5, "n"), tensor("n", 2, 8)]),
    (r"^target$", [unit("n", 8), below(2, "n", 8), below(5, "n"), IMAGE, unit("n", 3, 16, 16), unit(8), tensor("n", 2, 8)]),
    (r"label|^targets$|^y$|^y_true$", [below(4, "n"), tensor("n", 4), below(2, "n", 4), below(3, "n", 8, 8)]),
    (r"^(input|x|image|img|images|tensor|data|inpt|hidden_states|features|feat|sample|inp|src|pic|z|h)\d?$", None),
    (r"image_?size|^(size|shape|dsize|output_size|out_size|crop_size|resolution|dst_size|grid_size|img_size|input_size|feat_size)$", [const((6, 6)), const(6), const(8), const((8, 8)), const((4, 2))]),
    (r"window_size|patch_size|kernel_size|ksize", [const(3), const((3, 3)), const(2), const((2, 2))]),
    (r"^(height|width|h|w|rows|cols|image_width|image_height)$", [const(8)]),
    (r"points|^pts|^xy|coord|keypoint|vertices|lafs?$", [tensor("n", 5, 2), tensor("n", 5, 3), lambda n: torch.rand(n, 5, 2, 3)]),
    (r"(log)?probs?$|probabilit", [lambda n: torch.rand(n, 5).softmax(-1), unit("n", 4)]),
    (r"logit", [tensor("n", 5), tensor("n", 4)]),
    (r"^(query|key|value|q|k|v)$", [tensor("n", 5, 8), tensor("n", 2, 5, 4)]),
    (r"index|indices|^idx", [below(2, "n"), const(0), below(2, 4)]),
    (r"timestep|^t$|^steps$|time_?step", [below(100, "n"), const(1), unit("n")]),
    (r"sigma", [const((1.5, 1.5)), const(1.5), unit("n")]),
    (r"angle", [unit("n"), const(30.0)]),
    (r"^(in|out)_(channels|features|chs|dim)$|^(dim|hidden_size|channels|embed_dim|d_model|hidden_dim|num_features|num_channels|hidden_channels|inner_dim|time_embed_dim|embedding_dim|planes|features|in_planes|input_dim|output_dim|width|hidden_features|in_dim|normalized_shape|dim_out|dims?|query_dim|cross_attention_dim|size|chs|emb_size)$", [const(4), const(8), const(3), const(-1), const(1), const((4,))]),
    (r"heads", [const(2), const(1)]),
    (r"^num_groups$|^groups?$", [const(2), const(1)]),
    (r"num_class|num_label|n_class", [const(5), const(4)]),
    (r"^task$", [const("multiclass"), const("binary")]),
    (r"max_norm|eps|alpha|beta|gamma|factor|ratio|threshold|rate|^p$|prob|temperature|scale|weight$|margin|lambd|std|mean|strength|momentum", [const(0.5), const(2.0), tensor("n"), lambda n: torch.rand(3) + 0.1, unit("n", 4), const((0.2, 0.8))]),
    (r"^(num|n|max|min|top|depth|len|stride|padding|dilation|order|degree|k)_?", [const(2), const(4), const(1), tensor("n", 4)]),
    (r"reduction", [const("mean")]),
    (r"^(axis|dim|order)$", [const(0), const(-1), const("xyz")]),
    (r"irreps", [const("2x0e + 1x1o"), const("3x1o")]),
    (r"^(fn|func|function|module|model|net|layer|op|callable|nn)$", [lambda n: torch.nn.Linear(4, 4), const(torch.relu)]),
    (r"dtype", [const(torch.float32), const(torch.float64)]),
    (r"device", [const(torch.device("cpu"))]),
    (r"^(mode|method|type|kind|name)$", [const("bilinear"), const("nearest"), const("mean")]),
    (r"color|fill", [const((0.1, 0.2, 0.3)), const(0.5)]),
]  # fmt: skip
BY_NAME = [(re.compile(pattern), found) for pattern, found in BY_NAME]

BY_TYPE = {
    "bool": [const(True), const(False)],
    "int": [const(2), const(4), const(1), const(3), const(8)],
    "float": [const(0.5), const(1.5), const(0.1)],
    "str": [const("mean"), const("relu"), const("bilinear")],
    "list[int]": [const([2, 2]), const([1])],
    "tuple[int, int]": [const((4, 4)), const((2, 2))],
    "tuple[float, float]": [const((0.5, 1.0))],
    "list[float]": [const([0.5, 0.5, 0.5]), const([0.5])],
    "list[tensor]": [of(list, tensor("n", 4), tensor("n", 4)), of(list, IMAGE, IMAGE)],
    "tuple[tensor, ...]": [of(tuple, tensor("n", 4), tensor("n", 4))],
    "callable": [const(torch.relu)],
    "dtype": [const(torch.float32)],
    "module": [lambda n: torch.nn.Linear(4, 4)],
    "irreps": [const("2x0e + 1x1o")],
}


def annotation_name(annotation):
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if not isinstance(annotation, str) and (not text or "[" in str(annotation)):
        text = str(annotation)
    text = text.replace("typing.", "").replace("torch.", "").replace("Optional[", "").lower()
    for alternative in text.replace("sequence", "list").split("|"):
        alternative = (
            alternative.strip().removesuffix("]") if "[" not in alternative else alternative.strip()
        )
        if alternative.startswith("callable"):
            alternative = "callable"
        if alternative in BY_TYPE:
            return alternative
    return "tensor" if "tensor" in text else ""


def candidates(parameter):
    """Recipes for a parameter of a signature, the likeliest first."""
    named = next((found for pattern, found in BY_NAME if pattern.search(parameter.name)), None)
    kind = (
        annotation_name(parameter.annotation) if parameter.annotation is not inspect._empty else ""
    )
    if kind == "tensor":
        tensors = [r for r in named or [] if not is_constant(r)]
        return tensors + GENERIC
    if kind:
        matching = [r for r in named or [] if fits(r, kind)]
        return matching + BY_TYPE[kind] + ([] if kind in ("bool", "str") else GENERIC[:4])
    return (named or []) + GENERIC


def is_constant(recipe):
    return recipe.__qualname__.startswith("const.")


KINDS = {"bool": bool, "int": int, "float": float, "str": str}


def fits(recipe, kind):
    if kind not in KINDS:
        return True
    return is_constant(recipe) and type(recipe(2)) is KINDS[kind]
