"""Functions of rows of numbers (n, 5) that draw random numbers, by what they draw."""

import random

import numpy
import torch
from torch import nn
from torch.nn import functional as F

D = torch.distributions

FILLS = {
    "uniform_": (),
    "uniform_ between": (-1, 2),
    "normal_": (1, 2),
    "exponential_": (2.0,),
    "geometric_": (0.3,),
    "log_normal_": (),
    "cauchy_": (),
    "bernoulli_": (0.4,),
    "random_": (),
    "random_ below": (7,),
}
# What is filled: eager's kernels go other ways for 16 elements and more, and where memory has gaps.
PLACES = {
    "small": lambda x: x * 2,
    "large": lambda x: torch.cat([x] * 9),
    "transposed": lambda x: torch.cat([x] * 5).t(),
    "with gaps": lambda x: torch.cat([x] * 6)[::2],
    "part": lambda x: (x * 2)[:, 1:3],
    "double": lambda x: x.double() * 1,
    "half": lambda x: x.half() * 1,
    "integers": lambda x: (x * 2).long(),
    "nothing": lambda x: (x * 2)[:0],
    "argument": lambda x: x,
    "transposed argument": lambda x: x.t(),
}

INITIALISERS = {
    "uniform": lambda y: nn.init.uniform_(y, -2, 3),
    "normal": lambda y: nn.init.normal_(y, 1, 2),
    "truncated": nn.init.trunc_normal_,
    "truncated far off": lambda y: nn.init.trunc_normal_(y, 1, 0.5, -1, 0.5),
    "xavier uniform": nn.init.xavier_uniform_,
    "xavier normal": lambda y: nn.init.xavier_normal_(y, 2.0),
    "kaiming uniform": lambda y: nn.init.kaiming_uniform_(y, a=5**0.5),
    "kaiming normal": lambda y: nn.init.kaiming_normal_(y, mode="fan_out", nonlinearity="relu"),
    "orthogonal": nn.init.orthogonal_,
    "sparse": lambda y: nn.init.sparse_(y, 0.3),
}

SAMPLERS = {
    "rand": lambda x: torch.rand(x.shape),
    "rand of 16": lambda x: torch.rand(x.shape[0], 16),
    "rand double": lambda x: torch.rand(x.shape, dtype=torch.float64),
    "randn": lambda x: torch.randn(x.shape),
    "randn of 15": lambda x: torch.randn(5, 3) + x.sum(),
    "randn of 16": lambda x: torch.randn(16, x.shape[0]),
    "randn half": lambda x: torch.randn(x.shape, dtype=torch.float16),
    "randn complex": lambda x: torch.randn(x.shape, dtype=torch.complex64),
    "randint": lambda x: torch.randint(10, x.shape),
    "randint wide": lambda x: torch.randint(-5, 1 << 40, x.shape),
    "randint of bytes": lambda x: torch.randint(0, 100, (x.shape[0],), dtype=torch.int8),
    "randint of floats": lambda x: torch.randint(0, 100, (x.shape[0],), dtype=torch.float32),
    "randperm": lambda x: x[torch.randperm(x.shape[0])],
    "rand_like": torch.rand_like,
    "rand_like of other dtype": lambda x: torch.rand_like(x, dtype=torch.float64),
    "rand_like expanded": lambda x: torch.rand_like(x[:, :1].expand(-1, 4)),
    "randn_like transposed": lambda x: torch.randn_like((x * 2).t()),
    "randint_like": lambda x: torch.randint_like(x, -3, 9),
    "normal of two tensors": lambda x: torch.normal(x, x.abs()),
    "normal of a mean": lambda x: torch.normal(x, 2.0),
    "normal of a mean alone": lambda x: torch.normal(x),
    "normal of a deviation": lambda x: torch.normal(1.0, x.abs()),
    "normal of sizes": lambda x: torch.normal(0.0, 1.0, (3, 4)) + x.sum(),
    "normal, refused": lambda x: torch.normal(x, -x.abs()),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
    "bernoulli of a number": lambda x: torch.bernoulli(x, 0.3),
    "bernoulli_ of a tensor": lambda x: (x * 2).bernoulli_(x.sigmoid()),
    "bernoulli, refused": lambda x: torch.bernoulli(x + 5),
    "multinomial": lambda x: torch.multinomial(x.softmax(-1), 3),
    "multinomial again and again": lambda x: torch.multinomial(x.softmax(-1), 30, True),
    "multinomial, refused": lambda x: torch.multinomial(-x.abs(), 2),
    "poisson": lambda x: torch.poisson(x.abs()),
    "binomial": lambda x: torch.binomial(torch.full_like(x, 5), x.sigmoid()),
    "gamma": lambda x: torch._standard_gamma(x.abs() + 1),
    "dirichlet": lambda x: torch._sample_dirichlet(x.abs() + 1),
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout transposed": lambda x: F.dropout(x.t(), 0.3),
    "dropout in place": lambda x: F.dropout(x * 2, 0.3, inplace=True),
    "dropout of all": lambda x: F.dropout(x, 1.0),
    "dropout of nothing": lambda x: F.dropout(x, 0.0),
    "no dropout": lambda x: F.dropout(x, 0.5, False),
    "dropout of an empty tensor": lambda x: F.dropout(x[:0]),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.3, True),
    "feature alpha dropout": lambda x: F.feature_alpha_dropout(x[None], 0.3, True),
    "dropout1d": lambda x: F.dropout1d(x[None], 0.3),
    "dropout2d": lambda x: F.dropout2d(x[None, None], 0.3),
    "dropout3d": lambda x: F.dropout3d(x[None, :, None, None], 0.3),
    "native dropout": lambda x: torch.native_dropout(x, 0.5, True),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "gumbel softmax": lambda x: F.gumbel_softmax(x, hard=True),
    "fractional pool": lambda x: F.fractional_max_pool2d(
        torch.cat([x, x, x])[None, None, :8], 2, output_size=(3, 2)
    ),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5),
    "attention of heads": lambda x: F.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], dropout_p=0.3, is_causal=True
    ),
    "attention with a mask": lambda x: F.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], (x @ x.t()) > 0, dropout_p=0.3
    ),
    "unused": lambda x: (torch.rand(3), F.dropout(x), torch.randperm(3), x * 2)[-1],
    "two alike": lambda x: (torch.rand(3), torch.rand(3), torch.rand_like(x) - torch.rand_like(x)),
    "in order": lambda x: [torch.rand(3), torch.randn(20) + x.sum(), torch.rand(3)][::-1],
    "empty ones": lambda x: (torch.rand(0), torch.randn(0, 3), torch.randperm(0), x + 1),
    "in a loop": lambda x: sum(torch.rand(1) for _ in range(3)) + x,
    "a choice": lambda x: torch.rand(2) if torch.rand(1) > 0.5 else torch.randn(3) + x[0, 0],
    "behind a break": lambda x: (torch.rand(1), x.sum().item() > 9, torch.rand(1), torch.randn(20)),
    "Python's": lambda x: (random.random(), torch.rand(1), random.randint(0, 9), x * 2),
    "Python's choice": lambda x: x * random.choice([1, 2, 3]) + random.gauss(0, 1),
    "NumPy's": lambda x: (numpy.random.rand(), torch.rand(1), float(numpy.random.normal()), x * 2),
    "NumPy's array": lambda x: x + torch.from_numpy(numpy.random.rand(5).astype("float32")),
    "a seed": lambda x: (torch.manual_seed(3), torch.rand(2) + x[0, 0])[1],
    "the seed": lambda x: (torch.initial_seed(), torch.rand(1) + x[0, 0]),
    "a state": lambda x: (torch.rand(1), torch.get_rng_state(), torch.rand(1) + x[0, 0]),
    "a generator made inside": lambda x: torch.rand(3, generator=torch.Generator().manual_seed(3)),
    "the default generator": lambda x: torch.rand(3, generator=torch.default_generator) + x[0, 0],
    "a sum": lambda x: torch.rand(100).sum() + x,
    "of bools": lambda x: ((x > 0).random_(), (x > 0).bernoulli_(0.3)),
}

INDEX = torch.tensor([0, 5])


def case(function):
    PROGRAMS[function.__name__] = lambda: function
    return function


PROGRAMS = {}


@case
def an_index_out_of_range(x):
    return torch.rand(2), x[INDEX], torch.randn(20)


@case
def an_index_out_of_range_behind_a_fill(x):
    return torch.empty(20).normal_(), x[INDEX], torch.rand(2)


@case
def an_error_that_is_caught(x):
    try:
        torch.rand(2)
        torch.bernoulli(x + 9)
    except RuntimeError:
        return torch.rand(2)


@case
def an_error_that_is_caught_behind_a_fill(x):
    y = torch.empty(20).normal_()
    try:
        y = y + torch.bernoulli(x + 9).sum()
    except RuntimeError:
        y.uniform_()
    return y, torch.rand(2)


@case
def an_error_behind_a_break(x):
    first = torch.rand(2) if x.sum().item() < 1e9 else None
    torch.rand(3)
    return first, x[INDEX] + torch.rand(1)


@case
def a_fill_of_views(x):
    y = x * 2
    y[1:].uniform_()
    y.t()[0].normal_()
    return y


@case
def a_loop_on_what_is_drawn(x):
    count = 0
    while torch.rand(1).item() > 0.2:
        count += 1
    return count, x * count


@case
def a_forked_generator(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        inside = torch.rand(2) + x[0, 0]
    return inside, torch.rand(2)


@case
def a_state_set_back(x):
    state = torch.get_rng_state()
    first = torch.rand(2) + x[0, 0]
    torch.set_rng_state(state)
    return first, torch.rand(2)


@case
def layers_made_inside(x):
    linear = nn.Linear(x.shape[1], 3)
    return linear(x), linear.weight + 0, nn.Embedding(4, 2).weight + 0


@case
def several_readings_of_a_generator(x):
    generator = torch.Generator()
    generator.manual_seed(5)
    a = torch.rand(3, generator=generator)
    b = torch.empty(20).normal_(generator=generator)
    return a, b, torch.randperm(4, generator=generator), generator.initial_seed(), x * 2


@torch.library.custom_op("draws::noise", mutates_args=())
def noise(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(x.shape)


@noise.register_fake
def _(x):
    return torch.empty_like(x)


@case
def an_operator_of_the_users(x):
    """It has no tag that says that it draws."""
    noise(x)
    first = torch.rand(2)
    return noise(x) - noise(x), first, torch.randn(20)


@case
def an_operator_of_the_users_before_an_error(x):
    return noise(x)[0, 0], x[INDEX]


def program(make):
    PROGRAMS[make.__name__] = make
    return make


@program
def a_generator_from_outside():
    generator = torch.Generator().manual_seed(1)

    def f(x):
        return torch.rand(3, generator=generator), x + torch.rand(1), generator.get_state()

    return f


@program
def parameters_set_again():
    torch.manual_seed(0)
    linear = nn.Linear(5, 3)

    def f(x):
        linear.reset_parameters()
        return linear(x)

    return f


@program
def weights_that_apply_sets():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.Linear(4, 2))

    def init(module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight)

    return lambda x: net.apply(init)(x)


def trained(make):
    def build():
        torch.manual_seed(0)
        return make()

    return build


PROGRAMS.update(
    {
        "attention layer": trained(
            lambda: (lambda layer: lambda x: layer(x[:, None], x[:, None], x[:, None]))(
                nn.MultiheadAttention(5, 1, dropout=0.3)
            )
        ),
        "encoder layer": trained(
            lambda: (lambda layer: lambda x: layer(x[:, None]))(
                nn.TransformerEncoderLayer(5, 1, 8, dropout=0.4)
            )
        ),
        "recurrent layers": trained(
            lambda: (lambda layer: lambda x: layer(x[:, None])[0])(nn.LSTM(5, 4, 2, dropout=0.5))
        ),
    }
)

DISTRIBUTIONS = {
    "Normal": lambda x: D.Normal(x, x.exp()),
    "Uniform": lambda x: D.Uniform(x, x + 1),
    "Bernoulli": lambda x: D.Bernoulli(logits=x),
    "Categorical": lambda x: D.Categorical(logits=x),
    "OneHotCategorical": lambda x: D.OneHotCategorical(logits=x),
    "Beta": lambda x: D.Beta(x.exp(), x.exp()),
    "Gamma": lambda x: D.Gamma(x.exp(), x.exp()),
    "Dirichlet": lambda x: D.Dirichlet(x.exp()),
    "Exponential": lambda x: D.Exponential(x.exp()),
    "Laplace": lambda x: D.Laplace(x, x.exp()),
    "Gumbel": lambda x: D.Gumbel(x, x.exp()),
    "Geometric": lambda x: D.Geometric(logits=x),
    "Binomial": lambda x: D.Binomial(5, logits=x),
    "Multinomial": lambda x: D.Multinomial(5, logits=x),
    "Poisson": lambda x: D.Poisson(x.exp()),
    "StudentT": lambda x: D.StudentT(x.exp()),
    "VonMises": lambda x: D.VonMises(x, x.exp()),
    "RelaxedBernoulli": lambda x: D.RelaxedBernoulli(torch.tensor(0.5), logits=x),
    "MultivariateNormal": lambda x: D.MultivariateNormal(x, torch.eye(5)),
    "LKJCholesky": lambda x: D.LKJCholesky(3, 1.0),
    "mixture": lambda x: D.MixtureSameFamily(D.Categorical(logits=x), D.Normal(x, x.exp())),
    "independent": lambda x: D.Independent(D.Normal(x, x.exp()), 1),
}
