"""torch.nn.init, torch.nn.functional, torch.nn.modules, torch.func."""

import inspect

import torch
from cases import SIZES, Case, function_case, module_case
from recipes import GENERIC, below, const, tensor, unit
from subjects_distributions import simple
from torch import nn
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from torch.nn import functional as F

# --- torch.nn.init

INITS = {
    "uniform_": {}, "normal_": {}, "trunc_normal_": {}, "constant_": {"val": 0.5}, "ones_": {}, "zeros_": {},
    "eye_": {}, "dirac_": {}, "xavier_uniform_": {}, "xavier_normal_": {}, "kaiming_uniform_": {},
    "kaiming_normal_": {}, "orthogonal_": {}, "sparse_": {"sparsity": 0.5},
}  # fmt: skip
VARIED = {"uniform_": {"a": -2.0, "b": 3.0}, "normal_": {"mean": 1.0, "std": 2.0}, "trunc_normal_": {"a": -0.5, "b": 0.1},
          "xavier_uniform_": {"gain": 2.0}, "xavier_normal_": {"gain": 0.5}, "kaiming_uniform_": {"nonlinearity": "relu"},
          "kaiming_normal_": {"mode": "fan_out"}, "orthogonal_": {"gain": 2.0}, "sparse_": {"sparsity": 0.2, "std": 1.0}}  # fmt: skip


def init_cases(name, kwargs):
    function = getattr(nn.init, name)
    shape = (4, "n", 3) if name == "dirac_" else (4, "n")

    def inputs(number):
        return (tensor(*shape)(SIZES[number]),), {}

    def given(options, generator):
        def make():
            source = torch.Generator().manual_seed(7)
            extra = {"generator": source} if generator else {}
            return lambda x: (function(x, **options, **extra), torch.rand(2)), source

        return make

    def created():
        return lambda x: function(torch.empty_like(x), **kwargs), None

    def parameter():
        layer = nn.Linear(3, 4)

        def call(x):
            function(layer.weight, **kwargs)
            return layer(torch.ones(2, 3))

        return call, layer

    makers = [given(kwargs, False), created]
    if name != "dirac_":
        makers.append(parameter)
    if name in VARIED:
        makers.append(given({**kwargs, **VARIED[name]}, False))
    if "generator" in inspect.signature(function).parameters:
        makers.append(given(kwargs, True))
    return [Case(make, inputs) for make in makers]


def inits():
    table = {
        f"torch.nn.init.{name}": lambda name=name, kwargs=kwargs: init_cases(name, kwargs)
        for name, kwargs in INITS.items()
    }
    for name in ("linear", "relu", "leaky_relu", "selu", "tanh", "sigmoid", "conv2d"):
        table[f"torch.nn.init.calculate_gain({name})"] = lambda name=name: simple(
            lambda x: x * nn.init.calculate_gain(name), tensor("n")
        )
    return table


# --- torch.nn.functional: those whose arguments must fit each other

LABELS, SIGNAL, ROW = below(4, "n"), tensor("n", 4, 9), tensor("n", 4)
IMAGE, VOLUME = tensor("n", 4, 6, 6), tensor("n", 4, 4, 4, 4)
LOG = lambda n: torch.randn(n, 4).log_softmax(-1)
FUNCTIONAL = {
    "conv1d": [SIGNAL, tensor(6, 4, 3), tensor(6)],
    "conv2d": [IMAGE, tensor(6, 4, 3, 3), tensor(6)],
    "conv3d": [VOLUME, tensor(6, 4, 3, 3, 3), tensor(6)],
    "conv_transpose1d": [SIGNAL, tensor(4, 6, 3)],
    "conv_transpose2d": [IMAGE, tensor(4, 6, 3, 3)],
    "conv_transpose3d": [VOLUME, tensor(4, 6, 3, 3, 3)],
    "conv_tbc": [tensor(5, "n", 4), tensor(3, 4, 6), tensor(6)],
    "linear": [ROW, tensor(6, 4), tensor(6)],
    "bilinear": [ROW, tensor("n", 3), tensor(5, 4, 3)],
    "embedding": [below(5, "n", 3), tensor(5, 4)],
    "embedding_bag": [below(5, "n", 3), tensor(5, 4)],
    "one_hot": [LABELS, const(4)],
    "cross_entropy": [ROW, LABELS],
    "nll_loss": [LOG, LABELS],
    "ctc_loss": [lambda n: torch.randn(6, n, 5).log_softmax(-1), lambda n: torch.randint(1, 5, (n, 3)), lambda n: torch.full((n,), 6), lambda n: torch.full((n,), 3)],
    "kl_div": [LOG, lambda n: torch.rand(n, 4).softmax(-1)],
    "binary_cross_entropy": [unit("n", 4), unit("n", 4)],
    "multi_margin_loss": [ROW, LABELS],
    "multilabel_margin_loss": [ROW, lambda n: torch.tensor([[1, 2, -1, 0]] * n)],
    "gaussian_nll_loss": [ROW, ROW, unit("n", 4)],
    "cosine_embedding_loss": [ROW, ROW, lambda n: torch.randint(0, 2, (n,)) * 2 - 1],
    "margin_ranking_loss": [tensor("n"), tensor("n"), lambda n: torch.randint(0, 2, (n,)) * 2 - 1],
    "triplet_margin_loss": [ROW, ROW, ROW],
    "triplet_margin_with_distance_loss": [ROW, ROW, ROW],
    "batch_norm": [ROW, tensor(4), unit(4), tensor(4), tensor(4), const(True)],
    "instance_norm": [IMAGE],
    "layer_norm": [ROW, const((4,)), tensor(4), tensor(4)],
    "rms_norm": [ROW, const((4,)), tensor(4)],
    "group_norm": [IMAGE, const(2), tensor(4), tensor(4)],
    "scaled_dot_product_attention": [tensor("n", 2, 5, 4), tensor("n", 2, 5, 4), tensor("n", 2, 5, 4)],
    "grid_sample": [IMAGE, lambda n: torch.rand(n, 3, 3, 2) * 2 - 1],
    "affine_grid": [tensor("n", 2, 3), lambda n: (n, 3, 4, 4)],
    "interpolate": [IMAGE, const((9, 7))],
    "upsample": [IMAGE, const((9, 7))],
    "fold": [tensor("n", 8, 9), const((4, 4)), const((2, 2))],
    "unfold": [IMAGE, const((2, 2))],
    "max_unpool2d": [tensor("n", 2, 2, 2), lambda n: torch.tensor([[0, 3], [8, 15]]).expand(n, 2, 2, 2).contiguous(), const(2)],
    "fractional_max_pool2d": [IMAGE, const(2), const((3, 3))],
    "fractional_max_pool3d": [VOLUME, const(2), const((2, 2, 2))],
    "max_unpool1d": [tensor("n", 2, 2), lambda n: torch.tensor([0, 3]).expand(n, 2, 2).contiguous(), const(2)],
    "max_unpool3d": [tensor("n", 1, 1, 1, 1), lambda n: torch.full((n, 1, 1, 1, 1), 3), const(2)],
    "cosine_similarity": [ROW, ROW],
    "pairwise_distance": [ROW, ROW],
    "upsample_bilinear": [IMAGE, const((9, 7))],
    "upsample_nearest": [IMAGE, const((9, 7))],
    "threshold_": [ROW, const(0.1), const(0.2)],
    "linear_cross_entropy": [ROW, tensor(5, 4), below(5, "n")],
    "native_channel_shuffle": [IMAGE, const(2)],
    "fractional_max_pool2d_with_indices": [IMAGE, const(2), const((3, 3))],
    "fractional_max_pool3d_with_indices": [VOLUME, const(2), const((2, 2, 2))],
    "lp_pool1d": [SIGNAL, const(2.0), const(3)],
    "lp_pool3d": [VOLUME, const(2.0), const(2)],
    "pad": [IMAGE, const((1, 2, 0, 1)), const("reflect")],
    "pixel_shuffle": [IMAGE, const(2)],
    "pixel_unshuffle": [IMAGE, const(2)],
    "channel_shuffle": [IMAGE, const(2)],
    "prelu": [IMAGE, tensor(4)],
    "gumbel_softmax": [ROW],
    "glu": [ROW],
    "softmax": [ROW, const(-1)],
    "log_softmax": [ROW, const(-1)],
    "softmin": [ROW, const(-1)],
    "grouped_mm": [tensor("n", 4, 8), tensor("n", 8, 4)],
    "multi_head_attention_forward": [tensor(3, "n", 4), tensor(3, "n", 4), tensor(3, "n", 4), const(4), const(2),
                                     tensor(12, 4), tensor(12), const(None), const(None), const(False), const(0.5), tensor(4, 4), tensor(4)],
    **{f"{kind}_pool1d": [SIGNAL, const(3)] for kind in ("avg", "max")},
    **{f"{kind}_pool2d": [IMAGE, const(2)] for kind in ("avg", "max")},
    **{f"{kind}_pool3d": [VOLUME, const(2)] for kind in ("avg", "max")},
    **{f"adaptive_{kind}_pool1d": [SIGNAL, const(3)] for kind in ("avg", "max")},
    **{f"adaptive_{kind}_pool2d": [IMAGE, const((3, 2))] for kind in ("avg", "max")},
    **{f"adaptive_{kind}_pool3d": [VOLUME, const(2)] for kind in ("avg", "max")},
}  # fmt: skip


def functional():
    table = {}
    for name, function in sorted(vars(F).items()):
        if name.startswith("_") or not callable(function) or inspect.isclass(function):
            continue
        home = getattr(function, "__module__", None) or "torch"
        if (
            not home.startswith("torch")
            or "torch.overrides" in home
            or name in ("boolean_dispatch", "assert_int_or_pair")
        ):
            continue

        def build(name=name, function=function):
            if name in FUNCTIONAL:
                return simple(function, *FUNCTIONAL[name])
            if inspect.isfunction(function):
                return [function_case(function)]
            return next((c for r in GENERIC[:6] for c in [simple(function, r)] if c), [])

        table[f"torch.nn.functional.{name}"] = build
    return table


# --- torch.nn.modules

SQUARE_LABELS = below(4, "n", 5)
CONSTRUCTED = {
    "in_channels": [const(4)], "out_channels": [const(6)], "kernel_size": [const(3)], "num_embeddings": [const(5)],
    "in1_features": [const(4)], "in2_features": [const(3)], "nhead": [const(2)], "d_model": [const(4)], "input_size": [const(4)],
    "hidden_size": [const(6)], "lower": [const(0.1)], "upper": [const(0.4)], "unflattened_size": [const((2, 2))],
    "output_size": [const(3), const((4, 4))], "cutoffs": [const([2])], "n_classes": [const(5)], "padding": [const(1), const(2)],
    "num_channels": [const(4)], "upscale_factor": [const(2)], "downscale_factor": [const(2)], "output_ratio": [const(0.5)],
    "scale_factor": [const(2)], "norm_type": [const(2)], "threshold": [const(0.1)], "value": [const(0.2)],
}  # fmt: skip
FORWARD = {
    "input": [ROW, IMAGE, SIGNAL, VOLUME, tensor("n", 5, 4), tensor("n", 8, 9), LOG, below(5, "n", 3), unit("n", 4), tensor("n", 3)],
    "target": [ROW, LABELS, unit("n", 4), below(2, "n", 4), lambda n: torch.randint(0, 2, (n,)) * 2 - 1],
    "src": [tensor(5, "n", 4)], "tgt": [tensor(3, "n", 4)], "memory": [tensor(5, "n", 4)],
    "query": [tensor(5, "n", 4)], "key": [tensor(5, "n", 4)], "value": [tensor(5, "n", 4)],
    "input1": [ROW], "input2": [ROW, tensor("n", 3)], "x1": [ROW], "x2": [ROW], "anchor": [ROW], "positive": [ROW], "negative": [ROW], "var": [unit("n", 4)],
}  # fmt: skip


def special_modules():
    """Modules whose arguments must fit each other: (maker, recipes of the call)."""
    return {
        "CTCLoss": (nn.CTCLoss, FUNCTIONAL["ctc_loss"]),
        "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2), [tensor(5, "n", 4)] * 3),
        "EmbeddingBag": (lambda: nn.EmbeddingBag(5, 4), [below(5, "n", 3)]),
        "MaxUnpool1d": (lambda: nn.MaxUnpool1d(2), [tensor("n", 2, 2), lambda n: torch.tensor([0, 3]).expand(n, 2, 2).contiguous()]),
        "MaxUnpool2d": (lambda: nn.MaxUnpool2d(2), FUNCTIONAL["max_unpool2d"][:2]),
        "Fold": (lambda: nn.Fold((4, 4), (2, 2)), [tensor("n", 8, 9)]),
        "CrossEntropyLoss": (nn.CrossEntropyLoss, [ROW, LABELS]),
        "NLLLoss": (nn.NLLLoss, [LOG, LABELS]),
        "AdaptiveLogSoftmaxWithLoss": (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2]), [ROW, below(5, "n")]),
        "MultiMarginLoss": (nn.MultiMarginLoss, [ROW, LABELS]),
        "MultiLabelMarginLoss": (nn.MultiLabelMarginLoss, FUNCTIONAL["multilabel_margin_loss"]),
        "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, FUNCTIONAL["cosine_embedding_loss"]),
        "MarginRankingLoss": (nn.MarginRankingLoss, FUNCTIONAL["margin_ranking_loss"]),
        "LSTM": (lambda: nn.LSTM(4, 6, 2, dropout=0.5), [tensor(5, "n", 4)]),
        "GRU": (lambda: nn.GRU(4, 6, batch_first=True), [tensor("n", 5, 4)]),
        "RNN": (lambda: nn.RNN(4, 6, bidirectional=True), [tensor(5, "n", 4)]),
        "LSTMCell": (lambda: nn.LSTMCell(4, 6), [ROW]),
        "GRUCell": (lambda: nn.GRUCell(4, 6), [ROW]),
        "RNNCell": (lambda: nn.RNNCell(4, 6), [ROW]),
        "Transformer": (lambda: nn.Transformer(4, 2, 1, 1, 8), [tensor(5, "n", 4), tensor(3, "n", 4)]),
        "TransformerEncoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2), [tensor(5, "n", 4)]),
        "TransformerDecoder": (lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2), [tensor(5, "n", 4), tensor(3, "n", 4)]),
        "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2, 8), [tensor(5, "n", 4)]),
        "TransformerEncoderLayer in eval": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), [tensor("n", 5, 4)]),
        "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(4, 2, 8), [tensor(5, "n", 4), tensor(3, "n", 4)]),
        "Sequential": (lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)), [ROW]),
        "BatchNorm1d": (lambda: nn.BatchNorm1d(4), [ROW]),
        "BatchNorm1d without momentum": (lambda: nn.BatchNorm1d(4, momentum=None), [ROW]),
        "BatchNorm3d": (lambda: nn.BatchNorm3d(4), [VOLUME]),
        "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), [IMAGE]),
        "Embedding with max_norm": (lambda: nn.Embedding(5, 4, max_norm=1.0), [below(5, "n", 3)]),
        "GaussianNLLLoss": (nn.GaussianNLLLoss, FUNCTIONAL["gaussian_nll_loss"]),
        "LinearCrossEntropyLoss": (lambda: nn.LinearCrossEntropyLoss(4, 5), [ROW, below(5, "n")]),
        "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), [ROW]),
    }  # fmt: skip


def whole_module(make, recipes):
    """Called as a module; made within the function; called with its state given."""

    def inputs(number):
        return tuple(recipe(SIZES[number]) for recipe in recipes), {}

    def outside():
        module = make()
        return module, module

    def inside():
        def call(*args):
            module = make()
            return module(*args), module.state_dict(), module

        return call, None

    def functional():
        module = make()
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return lambda *args: functional_call(
            module, {k: v * 2 for k, v in state.items()}, args
        ), module

    try:
        outside()[0](*inputs(0)[0])
    except Exception:
        return []
    return [Case(outside, inputs), Case(inside, inputs, 3), Case(functional, inputs, 3)]


def modules():
    special = special_modules()
    table = {}
    for name, cls in sorted(vars(nn).items()):
        if (
            not inspect.isclass(cls)
            or not issubclass(cls, nn.Module)
            or name in special
            or name in ("Module", "Container")
        ):
            continue

        def build(cls=cls):
            case = module_case(cls, CONSTRUCTED, FORWARD)
            if case is None:
                return []

            def inside():
                def call(*args, **kwargs):
                    module, state = case.make()
                    return module(*args, **kwargs), module

                return call, None

            return [case, Case(inside, case.inputs, 3)]

        table[f"torch.nn.{name}"] = build
    for name, (make, recipes) in special.items():
        table[f"torch.nn.{name}"] = lambda make=make, recipes=recipes: whole_module(make, recipes)
    return table


# --- torch.func


def square(x):
    return (x.sin() * x).sum()


def transforms_of_functions():
    layer = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    members = [nn.Linear(4, 2) for _ in range(3)]
    W = torch.randn(4, 4)

    def ensemble(x):
        parameters, buffers = stack_module_state(members)
        return vmap(lambda p, b, v: functional_call(members[0], (p, b), (v,)), (0, 0, None))(
            parameters, buffers, x
        )

    def per_sample(x):
        p = {k: v.detach() for k, v in layer.named_parameters()}
        loss = lambda p, v: functional_call(layer, p, (v[None],)).square().mean()
        return vmap(grad(loss), (None, 0))(p, x)

    uses = {
        "grad": lambda x: grad(square)(x),
        "grad with has_aux": lambda x: grad(lambda v: (square(v), v * 2), has_aux=True)(x),
        "grad of grad": lambda x: grad(lambda v: grad(square)(v).sum())(x),
        "grad_and_value": lambda x: grad_and_value(square)(x),
        "vjp": lambda x: vjp(lambda v: v @ W, x)[1](x),
        "jvp": lambda x: jvp(lambda v: (v @ W).tanh(), (x,), (torch.ones_like(x),)),
        "jacrev": lambda x: jacrev(lambda v: (v @ W).tanh().sum(0))(x),
        "jacfwd": lambda x: jacfwd(lambda v: (v @ W).tanh().sum(0))(x),
        "hessian": lambda x: hessian(square)(x[0]),
        "linearize": lambda x: linearize(torch.sin, x)[1](x),
        "functionalize": lambda x: functionalize(lambda v: v.clone().add_(1).mul_(v))(x),
        "vmap": lambda x: vmap(lambda v: v @ W + v.sum())(x),
        "vmap with in_dims": lambda x: vmap(torch.mul, in_dims=(0, None))(x, x[0]),
        "vmap with out_dims": lambda x: vmap(lambda v: v * 2, out_dims=1)(x),
        "vmap with chunk_size": lambda x: vmap(torch.sin, chunk_size=1)(x),
        "vmap with randomness": lambda x: vmap(lambda v: v + torch.rand(4), randomness="different")(
            x
        ),
        "vmap of vmap": lambda x: vmap(vmap(lambda v: v * v + 1))(x),
        "vmap of random without leave": lambda x: vmap(lambda v: v + torch.rand(4))(x),
        "vmap of item": lambda x: vmap(lambda v: v * v.sum().item())(x),
        "vmap of grad": lambda x: vmap(grad(square))(x),
        "functional_call": lambda x: functional_call(layer, {"0.weight": torch.ones(3, 4)}, (x,)),
        "functional_call strict": lambda x: functional_call(
            layer, {"0.weight": torch.ones(3, 4)}, (x,), strict=True
        ),
        "stack_module_state": ensemble,
        "gradients per sample": per_sample,
    }
    return {
        f"torch.func.{name}": lambda use=use: simple_or_raises(use) for name, use in uses.items()
    }


def simple_or_raises(use):
    return [
        Case(
            lambda: (lambda x: use(x), None), lambda number: ((tensor("n", 4)(SIZES[number]),), {})
        )
    ]
