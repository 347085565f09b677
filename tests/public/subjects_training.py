"""torch.optim, its schedulers, torch.utils and torch.nn.utils."""

import inspect

import torch
from cases import SIZES, Case
from recipes import tensor
from torch import nn, optim
from torch.nn import utils as U
from torch.nn.utils import parametrizations, parametrize, prune, rnn, stateless
from torch.optim import lr_scheduler as S
from torch.utils import _pytree, checkpoint, data, weak

ROW = tensor("n", 4)


def on_rows(make, calls=None):
    return [Case(make, lambda number: ((ROW(SIZES[number]),), {}), calls)]


# --- optimizers: a step in the compiled function, with what it leaves in their state

OPTIONS = {
    "SGD": [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "nesterov": True}, {"lr": 0.1, "foreach": True}],
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}, {"foreach": True}, {"lr": torch.tensor(0.1), "capturable": False}],
    "AdamW": [{}, {"maximize": True}, {"fused": True}],
    "LBFGS": [{"max_iter": 3}],
    "RMSprop": [{}, {"centered": True, "momentum": 0.5}],
    "Rprop": [{}],
    "SparseAdam": [],
}  # fmt: skip


def stepping(cls, options):
    def make():
        model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2, bias=False))
        optimizer = cls(model.parameters(), **options)

        def loss_of(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        def call(x):
            with torch.enable_grad():
                loss = optimizer.step(lambda: loss_of(x))
            return loss.detach()

        return call, (dict(model.named_parameters()), optimizer.state, optimizer.param_groups)

    return on_rows(make)


def given_gradients(cls, options):
    """Gradients are set by hand; a step and a change of the groups."""

    def make():
        weight = nn.Parameter(torch.ones(4, 4))
        optimizer = cls([{"params": [weight], "lr": 0.05}], **options)

        def call(x):
            weight.grad = x.mT @ x
            optimizer.step()
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * 0.5
            return weight.detach() * 2, optimizer.state_dict()

        return call, (weight, optimizer.state, optimizer.param_groups)

    return on_rows(make)


def optimizers():
    table = {}
    for name, cls in sorted(vars(optim).items()):
        if (
            not inspect.isclass(cls)
            or not issubclass(cls, optim.Optimizer)
            or cls is optim.Optimizer
        ):
            continue
        for options in OPTIONS.get(name, [{}]):
            text = ", ".join(f"{k}={v}" for k, v in options.items())
            table[f"torch.optim.{name}({text}).step"] = lambda cls=cls, o=options: stepping(cls, o)
            if name not in ("LBFGS",):
                table[f"torch.optim.{name}({text}).state_dict"] = lambda cls=cls, o=options: (
                    given_gradients(cls, o)
                )

    def average(make_average):
        def make():
            model = nn.Linear(4, 2)
            averaged = make_average(model)

            def call(x):
                with torch.no_grad():
                    model.weight.add_(x.mean())
                averaged.update_parameters(model)
                return averaged(x)

            return call, averaged

        return on_rows(make)

    swa = optim.swa_utils
    table["torch.optim.swa_utils.AveragedModel"] = lambda: average(swa.AveragedModel)
    for kind in ("ema", "swa"):
        function = getattr(swa, f"get_{kind}_multi_avg_fn")
        table[f"torch.optim.swa_utils.get_{kind}_multi_avg_fn"] = lambda f=function: average(
            lambda m: swa.AveragedModel(m, multi_avg_fn=f())
        )
    return table


# --- schedulers

SCHEDULES = {
    "LambdaLR": lambda o: S.LambdaLR(o, lambda e: 0.9**e),
    "MultiplicativeLR": lambda o: S.MultiplicativeLR(o, lambda e: 0.95),
    "StepLR": lambda o: S.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: S.MultiStepLR(o, [1, 3], 0.5),
    "ConstantLR": lambda o: S.ConstantLR(o, 0.5, 2),
    "LinearLR": lambda o: S.LinearLR(o, 0.5, total_iters=3),
    "ExponentialLR": lambda o: S.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: S.CosineAnnealingLR(o, 4),
    "CosineAnnealingWarmRestarts": lambda o: S.CosineAnnealingWarmRestarts(o, 2),
    "CyclicLR": lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=2),
    "OneCycleLR": lambda o: S.OneCycleLR(o, 0.1, total_steps=8),
    "PolynomialLR": lambda o: S.PolynomialLR(o, 4, 2.0),
    "ReduceLROnPlateau": lambda o: S.ReduceLROnPlateau(o, patience=0),
    "SequentialLR": lambda o: S.SequentialLR(
        o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)], [2]
    ),
    "ChainedScheduler": lambda o: S.ChainedScheduler(
        [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)]
    ),
    "SWALR": lambda o: optim.swa_utils.SWALR(o, 0.05, 3),
}


def schedule_cases(make_scheduler, use):
    def make():
        optimizer = optim.SGD([nn.Parameter(torch.ones(3))], 0.1, momentum=0.9)
        scheduler = make_scheduler(optimizer)
        optimizer.step()

        def call(x):
            return use(scheduler, optimizer, x)

        state = {k: v for k, v in vars(scheduler).items() if isinstance(v, (int, float, list))}
        return call, (state, scheduler, optimizer.param_groups)

    return on_rows(make)


def step(scheduler, optimizer, x):
    if isinstance(scheduler, S.ReduceLROnPlateau):
        scheduler.step(2.0)
    else:
        scheduler.step()
    return x * optimizer.param_groups[0]["lr"]


def schedulers():
    uses = {
        "step": step,
        "step twice": lambda s, o, x: (step(s, o, x), step(s, o, x)),
        "get_last_lr": lambda s, o, x: (step(s, o, x), s.get_last_lr()),
        "state_dict": lambda s, o, x: (step(s, o, x), {k: v for k, v in s.state_dict().items() if "fn" not in k and "schedulers" not in k}),
    }  # fmt: skip
    table = {}
    for name, make in SCHEDULES.items():
        for what, use in uses.items():
            table[f"torch.optim.lr_scheduler.{name}.{what}"] = lambda m=make, u=use: schedule_cases(
                m, u
            )
    return table


# --- torch.utils and torch.nn.utils


def tree(x):
    return {"a": [x, (x + 1, None)], "b": {"c": x * 2}}


def plain(use):
    return lambda: on_rows(lambda: (lambda x: use(x), None))


def on_layer(use, make_layer=lambda: nn.Linear(4, 3)):
    """`use(layer, x)` on a layer that stays from call to call."""

    def make():
        layer = make_layer()
        return (lambda x: use(layer, x)), layer

    return lambda: on_rows(make)


def wrapped(wrap):
    """A layer that a utility has changed before."""
    return on_layer(lambda layer, x: layer(x), lambda: wrap(nn.Linear(4, 3)))


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2

    def right_inverse(self, weight):
        return weight / 2


def with_gradients(function):
    def use(layer, x):
        for i, p in enumerate(layer.parameters()):
            p.grad = torch.ones_like(p) * (i + x.mean())
        return function(layer), [p.grad for p in layer.parameters()]

    return on_layer(use)


def packed(x):
    return rnn.pack_padded_sequence(
        x[None].repeat(3, 1, 1), [3, 2][: x.size(0)] + [1] * (x.size(0) - 2), enforce_sorted=True
    )


def weak_tensor_dictionary():
    def make():
        known = weak.WeakTensorKeyDictionary()
        kept = [torch.ones(2) * i for i in range(3)]

        def call(x):
            key = kept[len(known) % 3]
            known[key] = known.get(key, 0) + 1
            return x * known[key], len(known), key in known

        return call, kept

    return on_rows(make)


def lazy_layer(use):
    def make():
        layer = nn.LazyLinear(3)
        return (lambda x: use(layer, x)), layer

    return lambda: on_rows(make)


def utilities():
    P = _pytree
    structured = [0.1, 0.5]
    table = {
        "_pytree.tree_map": plain(lambda x: P.tree_map(lambda v: None if v is None else v + 1, tree(x))),
        "_pytree.tree_flatten": plain(lambda x: P.tree_flatten(tree(x))[0]),
        "_pytree.tree_unflatten": plain(lambda x: P.tree_unflatten([x, x, x, x], P.tree_structure(tree(x)))),
        "_pytree.tree_leaves": plain(lambda x: P.tree_leaves(tree(x))),
        "_pytree.tree_structure": plain(lambda x: str(P.tree_structure(tree(x)))),
        "_pytree.tree_map_only": plain(lambda x: P.tree_map_only(torch.Tensor, torch.relu, tree(x))),
        "_pytree.tree_any": plain(lambda x: (P.tree_any(lambda v: v is None, tree(x)), x + 1)),
        "_pytree.tree_iter": plain(lambda x: list(P.tree_iter(tree(x)))),
        "_pytree.tree_map_": plain(lambda x: P.tree_map_(lambda v: v.add_(1), [x.clone(), x.clone()])),
        "_pytree.tree_map_with_path": plain(lambda x: P.tree_map_with_path(lambda p, v: (P.keystr(p), v), tree(x))),
        "_pytree.tree_flatten_with_path": plain(lambda x: P.tree_flatten_with_path(tree(x))[0]),
        "_pytree.treespec_dumps": plain(lambda x: (P.treespec_dumps(P.tree_structure(tree(x))), x + 1)),
        "checkpoint.checkpoint": on_layer(lambda m, x: checkpoint.checkpoint(m, x, use_reentrant=False)),
        "checkpoint.checkpoint(use_reentrant=True)": on_layer(lambda m, x: checkpoint.checkpoint(m, x, use_reentrant=True)),
        "checkpoint.checkpoint of dropout": on_layer(lambda m, x: checkpoint.checkpoint(lambda v: torch.dropout(m(v), 0.5, True), x, use_reentrant=False)),
        "checkpoint.checkpoint_sequential": on_layer(lambda m, x: checkpoint.checkpoint_sequential(m, 2, x, use_reentrant=False), lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))),
        "data.default_collate": plain(lambda x: data.default_collate([{"a": x, "b": 1}, {"a": x * 2, "b": 2}])),
        "data.default_convert": plain(lambda x: data.default_convert({"a": x, "b": [1, 2.0]})),
        "data.TensorDataset": plain(lambda x: [row for row in data.TensorDataset(x, x * 2)]),
        "data.StackDataset": plain(lambda x: data.StackDataset(a=x, b=x + 1)[0]),
        "data.ConcatDataset": plain(lambda x: data.ConcatDataset([data.TensorDataset(x), data.TensorDataset(x + 1)])[-1]),
        "data.Subset": plain(lambda x: data.Subset(data.TensorDataset(x), [1, 0])[0]),
        "data.random_split": plain(lambda x: [list(s.indices) for s in data.random_split(range(x.size(0) + 3), [0.5, 0.5])]),
        "data.DataLoader": plain(lambda x: list(data.DataLoader(data.TensorDataset(x), batch_size=2))),
        "data.DataLoader(shuffle=True)": plain(lambda x: list(data.DataLoader(data.TensorDataset(x), batch_size=2, shuffle=True))),
        "data.RandomSampler": plain(lambda x: (list(data.RandomSampler(range(5))), x + 1)),
        "data.SequentialSampler": plain(lambda x: (list(data.SequentialSampler(range(5))), x + 1)),
        "data.SubsetRandomSampler": plain(lambda x: (list(data.SubsetRandomSampler([3, 1, 2])), x + 1)),
        "data.WeightedRandomSampler": plain(lambda x: (list(data.WeightedRandomSampler(structured, 4)), x + 1)),
        "data.BatchSampler": plain(lambda x: (list(data.BatchSampler(data.SequentialSampler(range(5)), 2, False)), x + 1)),
        "dlpack.from_dlpack": plain(lambda x: torch.utils.dlpack.from_dlpack(x.clone()) + 1),
        "weak.WeakTensorKeyDictionary": weak_tensor_dictionary,
        "weak.WeakIdKeyDictionary": plain(lambda x: (len(weak.WeakIdKeyDictionary({x: 1})), x + 1)),
        "weak.TensorWeakRef": plain(lambda x: weak.TensorWeakRef(x)() + 1),
        "set_module": plain(lambda x: x + len(torch.utils.__name__)),
        "swap_tensors": plain(swapped),
        "nn.clip_grad_norm_": with_gradients(lambda m: U.clip_grad_norm_(m.parameters(), 0.5)),
        "nn.clip_grad_norm_(foreach=True)": with_gradients(lambda m: U.clip_grad_norm_(m.parameters(), 0.5, foreach=True)),
        "nn.clip_grad_norm_(inf)": with_gradients(lambda m: U.clip_grad_norm_(m.parameters(), 0.5, norm_type=float("inf"))),
        "nn.clip_grad_value_": with_gradients(lambda m: U.clip_grad_value_(m.parameters(), 0.2)),
        "nn.get_total_norm": with_gradients(lambda m: U.get_total_norm([p.grad for p in m.parameters()])),
        "nn.clip_grads_with_norm_": with_gradients(lambda m: U.clip_grads_with_norm_(m.parameters(), 0.5, torch.tensor(2.0))),
        "nn.parameters_to_vector": on_layer(lambda m, x: U.parameters_to_vector(m.parameters()) + x.sum()),
        "nn.vector_to_parameters": on_layer(lambda m, x: U.vector_to_parameters(torch.arange(15.0) * x.mean(), m.parameters())),
        "nn.weight_norm": wrapped(U.weight_norm),
        "nn.weight_norm in the function": plain(lambda x: U.weight_norm(nn.Linear(4, 3))(x)),
        "nn.remove_weight_norm": on_layer(lambda m, x: U.remove_weight_norm(U.weight_norm(m))(x)),
        "nn.spectral_norm": wrapped(U.spectral_norm),
        "nn.spectral_norm in the function": plain(lambda x: U.spectral_norm(nn.Linear(4, 3))(x)),
        "nn.remove_spectral_norm": on_layer(lambda m, x: U.remove_spectral_norm(U.spectral_norm(m))(x)),
        "nn.parametrizations.weight_norm": wrapped(parametrizations.weight_norm),
        "nn.parametrizations.spectral_norm": wrapped(parametrizations.spectral_norm),
        "nn.parametrizations.orthogonal": wrapped(parametrizations.orthogonal),
        "nn.parametrizations.orthogonal(cayley)": on_layer(lambda m, x: m(x), lambda: parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley")),
        "nn.parametrizations.weight_norm in the function": plain(lambda x: parametrizations.weight_norm(nn.Linear(4, 3))(x)),
        "nn.parametrize.register_parametrization": on_layer(lambda m, x: m(x), lambda: registered(nn.Linear(4, 3))),
        "nn.parametrize.register_parametrization in the function": plain(lambda x: registered(nn.Linear(4, 3))(x)),
        "nn.parametrize.cached": on_layer(lambda m, x: cached(m, x), lambda: registered(nn.Linear(4, 3))),
        "nn.parametrize.remove_parametrizations": plain(lambda x: parametrize.remove_parametrizations(registered(nn.Linear(4, 3)), "weight")(x)),
        "nn.parametrize.is_parametrized": on_layer(lambda m, x: (parametrize.is_parametrized(m), x + 1), lambda: registered(nn.Linear(4, 3))),
        "nn.prune.l1_unstructured": on_layer(lambda m, x: prune.l1_unstructured(m, "weight", 0.3)(x)),
        "nn.prune.random_unstructured": on_layer(lambda m, x: prune.random_unstructured(m, "weight", 0.3)(x)),
        "nn.prune.ln_structured": on_layer(lambda m, x: prune.ln_structured(m, "weight", 0.5, 2, 0)(x)),
        "nn.prune.random_structured": on_layer(lambda m, x: prune.random_structured(m, "weight", 0.5, 0)(x)),
        "nn.prune.identity": on_layer(lambda m, x: prune.identity(m, "weight")(x)),
        "nn.prune.custom_from_mask": on_layer(lambda m, x: prune.custom_from_mask(m, "weight", torch.ones(3, 4).tril())(x)),
        "nn.prune.global_unstructured": on_layer(lambda m, x: (prune.global_unstructured([(m, "weight")], prune.L1Unstructured, amount=0.4), m(x))),
        "nn.prune.remove": on_layer(lambda m, x: prune.remove(prune.l1_unstructured(m, "weight", 0.3), "weight")(x)),
        "nn.prune.is_pruned": on_layer(lambda m, x: (prune.is_pruned(m), x + 1)),
        "nn.prune pruned before": wrapped(lambda m: prune.l1_unstructured(m, "weight", 0.3)),
        "nn.rnn.pack_padded_sequence": plain(packed),
        "nn.rnn.pad_packed_sequence": plain(lambda x: rnn.pad_packed_sequence(packed(x))),
        "nn.rnn.pad_sequence": plain(lambda x: rnn.pad_sequence([x, x[:1]], padding_value=1.5)),
        "nn.rnn.unpad_sequence": plain(lambda x: rnn.unpad_sequence(x[:, None].repeat(1, 2, 1), torch.tensor([2, 1]))),
        "nn.rnn.pack_sequence": plain(lambda x: rnn.pack_sequence([x, x[:1]])),
        "nn.rnn.unpack_sequence": plain(lambda x: rnn.unpack_sequence(rnn.pack_sequence([x, x[:1]]))),
        "nn.rnn.invert_permutation": plain(lambda x: rnn.invert_permutation(x[:, 0].argsort())),
        "nn.rnn packed through LSTM": on_layer(lambda m, x: m(packed(x)), lambda: nn.LSTM(4, 3)),
        "nn.stateless.functional_call": on_layer(lambda m, x: stateless.functional_call(m, {"weight": torch.ones(3, 4)}, (x,))),
        "nn.skip_init": plain(lambda x: U.skip_init(nn.Linear, 4, 3).weight.shape),
        "nn.fuse_linear_bn_eval": plain(lambda x: U.fuse_linear_bn_eval(nn.Linear(4, 3).eval(), nn.BatchNorm1d(3).eval())(x)),
        "nn.fuse_conv_bn_weights": plain(lambda x: U.fuse_conv_bn_weights(torch.ones(3, 4, 1, 1), x[0, :3], x[0, :3], x[0, :3].abs(), 1e-5, x[0, :3], x[0, :3])),
        "nn.convert_conv2d_weight_memory_format": on_layer(lambda m, x: (U.convert_conv2d_weight_memory_format(m, torch.channels_last), m.weight.stride()), lambda: nn.Conv2d(3, 4, 3)),
        "nn.LazyLinear": lazy_layer(lambda m, x: m(x)),
        "nn.Module.state_dict": on_layer(lambda m, x: ({k: v + x.mean() for k, v in m.state_dict().items()})),
        "nn.Module.load_state_dict": on_layer(lambda m, x: (m.load_state_dict({"weight": torch.ones(3, 4) * x.mean(), "bias": torch.ones(3)}), m(x))),
        "nn.Module.to": on_layer(lambda m, x: m.to(torch.float64)(x.double())),
        "nn.Module.apply": on_layer(lambda m, x: (m.apply(reset), m(x))[1]),
        "nn.Module.requires_grad_": on_layer(lambda m, x: m.requires_grad_(False)(x)),
        "nn.Module.register_buffer": on_layer(lambda m, x: (m.register_buffer("seen", x.mean(0)), m(x) + m.seen.sum())[1]),
        "nn.Module.register_parameter": on_layer(lambda m, x: (m.register_parameter("extra", nn.Parameter(x.mean(0))), m(x) + m.extra.sum())[1]),
        "nn.Module.register_forward_hook": on_layer(lambda m, x: hooked(m, x)),
        "nn.Module.train": on_layer(lambda m, x: (m.train(not m.training)(x), m.training)),
        "nn.Module.zero_grad": with_gradients(lambda m: m.zero_grad(set_to_none=False)),
        "nn.Module.__repr__": on_layer(lambda m, x: (repr(m), m(x))),
    }  # fmt: skip
    return {
        f"torch.{'' if name.startswith('nn.M') else 'utils.'}{name}": build
        for name, build in table.items()
    }


def swapped(x):
    a, b = x.clone(), x * 2
    torch.utils.swap_tensors(a, b)
    return a, b


def registered(layer):
    parametrize.register_parametrization(layer, "weight", Doubled())
    return layer


def cached(layer, x):
    with parametrize.cached():
        return layer(x) + layer(x * 2)


def reset(layer):
    layer.reset_parameters()


def hooked(layer, x):
    seen = []
    handle = layer.register_forward_hook(lambda m, args, out: seen.append(out.sum()) or out * 2)
    out = layer(x)
    handle.remove()
    return out, seen
