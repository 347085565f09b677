"""Objects of PyTorch's own classes in compiled functions: their state, and what depends on it, is as
in eager over several calls, and no tensor of a trace stays in them."""

import copy
import gc
import math

import braze
import pytest
import torch
from support import same
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

D = torch.distributions
CASES = {}


def case(make):
    """`make()` gives the function, the arguments of its calls, and what of its state to look at."""
    CASES[make.__name__] = make
    return make


def R(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def each(make, count=3):
    return [(make(k),) for k in range(count)]


@case
def lazy_property_of_each_distribution():
    def f(x):
        a, b = D.Bernoulli(probs=x.sigmoid()), D.Categorical(logits=x)
        return a.logits, b.probs, D.Geometric(probs=x.sigmoid()).logits, a.logits

    return f, each(lambda k: R(3, 4, seed=k)), None


@case
def lazy_property_read_before_and_after():
    d = D.Bernoulli(logits=torch.zeros(3))

    def f(x):
        seen = "probs" in d.__dict__
        return x + d.probs, seen, "probs" in d.__dict__

    return f, each(lambda k: R(3, seed=k)), lambda: sorted(d.__dict__)


@case
def distribution_kept_in_a_list():
    kept = []

    def f(x):
        kept.append(D.MultivariateNormal(x, torch.eye(3)))
        return kept[-1].precision_matrix, kept[-1].log_prob(x + 1)

    return f, each(lambda k: R(3, seed=k)), lambda: [sorted(d.__dict__) for d in kept]


@case
def validation_switched_off_between_calls():
    def f(x, valid):
        return D.Normal(x, -torch.ones(3), validate_args=valid).mean

    return f, [(R(3), False), (R(3), True), (R(3), False)], None


@case
def default_validation():
    def f(x):
        return D.Poisson(x).log_prob(torch.tensor([1.0, 2.5, -1.0]))

    def arguments():
        for on in (True, False, True):
            D.Distribution.set_default_validate_args(on)
            yield (torch.ones(3),)

    return f, arguments(), lambda: D.Distribution.set_default_validate_args(True)


@case
def invalid_parameter():
    return (
        (lambda x: D.Normal(x, x).log_prob(x)),
        [(torch.ones(2),), (-torch.ones(2),), (torch.ones(2),)],
        None,
    )


@case
def kl_of_pairs():
    def f(x):
        a, b = D.Gamma(x.exp(), x.exp() + 1), D.Exponential(x.exp())
        return D.kl_divergence(a, b), D.kl_divergence(D.Normal(x, 1.0), D.Laplace(x, torch.ones(3)))

    return f, each(lambda k: R(3, seed=k)), lambda: len(D.kl._KL_MEMOIZE) > 0


@case
def transformed_distribution_with_a_cache():
    t = D.transforms.ExpTransform(cache_size=1)
    d = D.TransformedDistribution(D.Normal(torch.zeros(3), torch.ones(3)), [t])

    def f(x):
        y = d.rsample()
        return d.log_prob(y), d.log_prob(x.exp())

    return f, each(lambda k: R(3, seed=k)), lambda: [v + 0 for v in t._cached_x_y]


@case
def independent_and_mixture():
    def f(x):
        parts = D.Independent(D.Normal(x, torch.ones_like(x)), 1)
        m = D.MixtureSameFamily(D.Categorical(torch.ones(4)), parts)
        return m.mean, m.log_prob(x[0]), m.sample((2,)).shape

    return f, each(lambda k: R(4, 3, seed=k)), None


@case
def expanded_distribution():
    return (
        (lambda x: D.Beta(x.exp(), torch.ones(3)).expand((4, 3)).variance),
        each(lambda k: R(3, seed=k)),
        None,
    )


@case
def constraints_registry():
    def f(x):
        to = D.transform_to(D.constraints.greater_than(1.0))
        return to(x), D.biject_to(D.constraints.unit_interval)(x), to.inv(to(x))

    return f, each(lambda k: R(3, seed=k)), None


@case
def scheduler_stepped():
    o = torch.optim.SGD([nn.Parameter(torch.ones(2))], 0.5)
    s = torch.optim.lr_scheduler.ExponentialLR(o, 0.5)

    def f(x):
        o.step()
        s.step()
        return x * s.get_last_lr()[0]

    return f, each(lambda k: R(3, seed=k), 4), lambda: (o.param_groups[0]["lr"], s.last_epoch)


@case
def optimizer_state_read():
    p = nn.Parameter(torch.ones(2))
    o = torch.optim.Adam([p], 0.5)

    def f(x):
        p.grad = torch.ones(2)
        o.step()
        o.zero_grad()
        return x + o.state[p]["exp_avg"].sum(), p.grad is None

    return f, each(lambda k: R(3, seed=k)), lambda: [p.detach() + 0, o.state[p]["step"] + 0]


@case
def averaged_model():
    m = torch.optim.swa_utils.AveragedModel(nn.Linear(3, 2))
    nn.init.ones_(m.module.weight)
    nn.init.zeros_(m.module.bias)

    def f(x):
        return m(x), m.n_averaged + 1

    return f, each(lambda k: R(2, 3, seed=k)), lambda: m.n_averaged + 0


@case
def weak_identity_dictionary():
    c = torch.utils.weak.WeakIdKeyDictionary()
    xs = [R(3, seed=k) for k in range(3)]

    def f(x):
        c[x] = c.get(x, 0) + 1
        return x * c[x], len(c)

    return f, [(xs[k],) for k in (0, 1, 0, 2)], lambda: sorted(c.values())


@case
def weak_value_of_a_computed_tensor():
    def f(x):
        y = x + 1
        r = (
            torch.utils.weak.WeakTensorRefKey(y)
            if hasattr(torch.utils.weak, "WeakTensorRefKey")
            else torch.utils.weak.TensorWeakRef(y)
        )
        return y * 2, r() is y

    return f, each(lambda k: R(3, seed=k)), None


@case
def init_of_a_computed_tensor():
    def f(x):
        y = x * 2
        nn.init.kaiming_uniform_(y, a=0.5)
        nn.init.orthogonal_(y[:2])
        return y, nn.init.calculate_gain("leaky_relu", 0.2)

    return f, each(lambda k: R(4, 3, seed=k)), None


@case
def init_of_parameters():
    m = nn.Linear(4, 3)

    def f(x):
        nn.init.xavier_normal_(m.weight)
        nn.init.constant_(m.bias, 0.5)
        return m(x)

    return f, each(lambda k: R(2, 4, seed=k)), lambda: [p.detach() + 0 for p in m.parameters()]


@case
def init_that_fails():
    return (lambda x: nn.init.xavier_uniform_(x * 2)), [(R(4),), (R(4, 3),)], None


@case
def module_made_inside():
    def f(x):
        torch.manual_seed(0)
        m = nn.Linear(3, 2)
        return m(x), sorted(m.state_dict())

    return f, each(lambda k: R(2, 3, seed=k)), None


@case
def spectral_norm():
    torch.manual_seed(1)
    m = parametrizations.spectral_norm(nn.Linear(4, 3))

    def f(x):
        return m(x)

    return f, each(lambda k: R(2, 4, seed=k)), lambda: [b + 0 for b in m.buffers()]


@case
def weight_norm_old_and_new():
    torch.manual_seed(1)
    a, b = nn.utils.weight_norm(nn.Linear(4, 3)), parametrizations.weight_norm(nn.Linear(4, 3))
    return (
        (lambda x: (a(x), b(x))),
        each(lambda k: R(2, 4, seed=k)),
        lambda: sorted(dict(a.named_parameters())),
    )


@case
def parametrization_cached():
    torch.manual_seed(1)
    m = parametrizations.orthogonal(nn.Linear(3, 3))

    def f(x):
        with parametrize.cached():
            return m(x), m.weight is m.weight

    return f, each(lambda k: R(2, 3, seed=k)), lambda: parametrize._cache_enabled


@case
def pruned_module():
    torch.manual_seed(1)
    m = prune.l1_unstructured(nn.Linear(4, 3), "weight", 0.5)
    return (lambda x: m(x)), each(lambda k: R(2, 4, seed=k)), lambda: m.weight_mask + 0


@case
def packed_sequence():
    def f(x):
        p = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(p, batch_first=True)

    return f, each(lambda k: R(2, 3, 4, seed=k)), None


@case
def parameters_to_and_from_a_vector():
    m = nn.Linear(3, 2)

    def f(x):
        v = nn.utils.parameters_to_vector(m.parameters())
        nn.utils.vector_to_parameters(torch.arange(8.0), m.parameters())
        return m(x), v.shape

    return f, each(lambda k: R(2, 3, seed=k)), lambda: m.weight.detach() + 0


@case
def clipped_gradients():
    p = nn.Parameter(torch.ones(3))

    def f(x):
        p.grad = x * 3
        return nn.utils.clip_grad_norm_([p], 1.0)

    return f, each(lambda k: R(3, seed=k)), lambda: p.grad + 0


@case
def mha_fast_path():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True).eval()

    def f(x):
        return layer(x), torch.backends.mha.get_fastpath_enabled()

    def arguments():
        for on in (True, False, True):
            torch.backends.mha.set_fastpath_enabled(on)
            yield (R(2, 3, 8),)

    return f, arguments(), lambda: torch.backends.mha.set_fastpath_enabled(True)


@case
def scaler_used():
    s = torch.amp.GradScaler("cpu", 8.0, growth_interval=1)
    return (
        (lambda x: s.scale(x)),
        each(lambda k: R(3, seed=k)),
        lambda: (s.get_scale(), s.is_enabled()),
    )


@case
def switches_read():
    def f(x):
        return (
            x + 1,
            torch.are_deterministic_algorithms_enabled(),
            torch.is_warn_always_enabled(),
            torch.get_default_dtype(),
        )

    def arguments():
        for on in (True, False, True):
            torch.set_warn_always(on)
            yield (R(3),)

    return f, arguments(), lambda: torch.set_warn_always(False)


@case
def quantization_observer():
    o = torch.ao.quantization.MinMaxObserver()

    def f(x):
        o(x)
        return x + 1

    return f, each(lambda k: R(3, seed=k) * (k + 1)), lambda: [o.min_val + 0, o.max_val + 0]


@case
def fake_quantize():
    q = torch.ao.quantization.FakeQuantize()
    return (
        (lambda x: q(x)),
        each(lambda k: R(3, seed=k) * (k + 1)),
        lambda: [q.scale + 0, q.zero_point + 0],
    )


@case
def data_parallel():
    torch.manual_seed(0)
    m = nn.DataParallel(nn.Linear(3, 2))
    return (lambda x: m(x)), each(lambda k: R(2, 3, seed=k)), None


@case
def functional_call_with_other_parameters():
    m = nn.Linear(3, 2)
    return (
        (lambda x, w: torch.func.functional_call(m, {"weight": w, "bias": w[:, 0]}, (x,))),
        [(R(2, 3), R(2, 3, seed=k)) for k in range(3)],
        lambda: type(m.weight).__name__,
    )


@case
def einsum_of_several():
    return (lambda x: torch.einsum("ij,jk,kl->il", x, x, x)), each(lambda k: R(3, 3, seed=k)), None


@case
def tensors_swapped():
    kept = torch.full((3,), 5.0)

    def f(x):
        torch.utils.swap_tensors(x, kept)
        return x * 2, kept + 1

    return f, [(R(3, seed=k),) for k in range(3)], lambda: kept


@case
def use_count_asked():
    def f(x):
        return x + x._use_count()

    return f, [(R(3),), (R(3),)], None


@case
def warning_of_a_function_of_torch():
    def f(x):
        return nn.functional.softmax(x) if x.dim() == 1 else nn.functional.mse_loss(x, x[0])

    return f, [(R(3),), (R(2, 3),), (R(3),)], None


def run(f, calls, state):
    out = []
    for k, arguments in enumerate(calls):
        torch.manual_seed(k)
        try:
            value = f(*arguments)
        except Exception as error:
            value = type(error), str(error)
        out.append(copy.deepcopy((value, state() if state else None, torch.rand(1))))
    return out


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_object(name, dynamic):
    f, calls, state = CASES[name]()
    expected = run(f, calls, state)
    f, calls, state = CASES[name]()
    got = run(braze.compile(f, dynamic=dynamic), calls, state)
    same(got, expected)
    assert not [o for o in gc.get_objects() if type(o) is torch.Tensor and is_of_a_trace(o)]


def is_of_a_trace(tensor):
    """It has no memory, though it is a plain tensor on the CPU."""
    if tensor.layout != torch.strided or tensor.is_meta:
        return False
    try:
        tensor.data_ptr()
    except RuntimeError:
        return True
    return False


def test_what_is_written_into_an_object_is_real():
    d = D.Bernoulli(logits=torch.zeros(3))
    braze.compile(lambda x: x + d.probs)(torch.ones(3))
    assert math.isclose(d.__dict__["probs"][0].item(), 0.5)
