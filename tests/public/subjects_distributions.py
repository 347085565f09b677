"""torch.distributions: each class with its methods and properties, divergences, transforms, constraints."""

import inspect

import torch
from cases import SIZES, Case
from recipes import positive_definite, tensor, unit
from torch import distributions as D
from torch.distributions import constraints as C
from torch.distributions import transforms as T
from torch.distributions.kl import _KL_REGISTRY
from torch.distributions.utils import lazy_property

LOC, POS, UNIT = tensor("n"), lambda n: torch.rand(n) + 0.5, lambda n: torch.rand(n) * 0.8 + 0.1
ROW, PROBS, LOGITS = tensor("n", 3), lambda n: torch.rand(n, 4).softmax(-1), tensor("n", 4)
COVARIANCE = positive_definite("n", 3, 3)

# For each class the ways to make it: (function of the parameters, recipes of the parameters).
MADE = {
    "Bernoulli": [(lambda p: D.Bernoulli(p), [UNIT]), (lambda v: D.Bernoulli(logits=v), [LOC])],
    "Beta": [(lambda a, b: D.Beta(a, b), [POS, POS])],
    "Binomial": [(lambda p: D.Binomial(5, p), [UNIT]), (lambda v: D.Binomial(4, logits=v), [LOC])],
    "Categorical": [(lambda p: D.Categorical(p), [PROBS]), (lambda v: D.Categorical(logits=v), [LOGITS])],
    "Cauchy": [(lambda m, s: D.Cauchy(m, s), [LOC, POS])],
    "Chi2": [(lambda v: D.Chi2(v), [POS])],
    "ContinuousBernoulli": [(lambda p: D.ContinuousBernoulli(p), [UNIT]), (lambda v: D.ContinuousBernoulli(logits=v), [LOC])],
    "Dirichlet": [(lambda a: D.Dirichlet(a), [lambda n: torch.rand(n, 3) + 0.5])],
    "Exponential": [(lambda r: D.Exponential(r), [POS])],
    "FisherSnedecor": [(lambda a, b: D.FisherSnedecor(a + 4, b + 4), [POS, POS])],
    "Gamma": [(lambda a, b: D.Gamma(a, b), [POS, POS])],
    "GeneralizedPareto": [(lambda m, s: D.GeneralizedPareto(m, s, 0.2), [LOC, POS])],
    "Geometric": [(lambda p: D.Geometric(p), [UNIT]), (lambda v: D.Geometric(logits=v), [LOC])],
    "Gumbel": [(lambda m, s: D.Gumbel(m, s), [LOC, POS])],
    "HalfCauchy": [(lambda s: D.HalfCauchy(s), [POS])],
    "HalfNormal": [(lambda s: D.HalfNormal(s), [POS])],
    "Independent": [(lambda m, s: D.Independent(D.Normal(m, s), 1), [ROW, lambda n: torch.rand(n, 3) + 0.5])],
    "InverseGamma": [(lambda a, b: D.InverseGamma(a + 2, b), [POS, POS])],
    "Kumaraswamy": [(lambda a, b: D.Kumaraswamy(a, b), [POS, POS])],
    "LKJCholesky": [(lambda c: D.LKJCholesky(3, c), [POS])],
    "Laplace": [(lambda m, s: D.Laplace(m, s), [LOC, POS])],
    "LogNormal": [(lambda m, s: D.LogNormal(m, s), [LOC, POS])],
    "LogisticNormal": [(lambda m, s: D.LogisticNormal(m, s), [ROW, lambda n: torch.rand(n, 3) + 0.5])],
    "LowRankMultivariateNormal": [(lambda m, f, d: D.LowRankMultivariateNormal(m, f, d), [ROW, tensor("n", 3, 2), lambda n: torch.rand(n, 3) + 0.5])],
    "MixtureSameFamily": [(lambda p, m, s: D.MixtureSameFamily(D.Categorical(p), D.Normal(m, s)), [PROBS, LOGITS, lambda n: torch.rand(n, 4) + 0.5])],
    "Multinomial": [(lambda p: D.Multinomial(5, p), [PROBS]), (lambda v: D.Multinomial(3, logits=v), [LOGITS])],
    "MultivariateNormal": [(lambda m, c: D.MultivariateNormal(m, c), [ROW, COVARIANCE]),
                           (lambda m, c: D.MultivariateNormal(m, precision_matrix=c), [ROW, COVARIANCE]),
                           (lambda m, c: D.MultivariateNormal(m, scale_tril=torch.linalg.cholesky(c)), [ROW, COVARIANCE])],
    "NegativeBinomial": [(lambda p: D.NegativeBinomial(5, p), [UNIT]), (lambda v: D.NegativeBinomial(4, logits=v), [LOC])],
    "Normal": [(lambda m, s: D.Normal(m, s), [LOC, POS]), (lambda m: D.Normal(m, 2.0), [LOC]), (lambda m, s: D.Normal(m, s), [ROW, unit(1, 3)])],
    "OneHotCategorical": [(lambda p: D.OneHotCategorical(p), [PROBS]), (lambda v: D.OneHotCategorical(logits=v), [LOGITS])],
    "OneHotCategoricalStraightThrough": [(lambda p: D.OneHotCategoricalStraightThrough(p), [PROBS]), (lambda v: D.OneHotCategoricalStraightThrough(logits=v), [LOGITS])],
    "Pareto": [(lambda s, a: D.Pareto(s, a + 2), [POS, POS])],
    "Poisson": [(lambda r: D.Poisson(r), [POS])],
    "RelaxedBernoulli": [(lambda p: D.RelaxedBernoulli(torch.tensor(0.7), p), [UNIT]), (lambda v: D.RelaxedBernoulli(torch.tensor(0.5), logits=v), [LOC])],
    "RelaxedOneHotCategorical": [(lambda p: D.RelaxedOneHotCategorical(torch.tensor(0.7), p), [PROBS]), (lambda v: D.RelaxedOneHotCategorical(torch.tensor(0.5), logits=v), [LOGITS])],
    "StudentT": [(lambda d, m, s: D.StudentT(d + 3, m, s), [POS, LOC, POS])],
    "TransformedDistribution": [(lambda m, s: D.TransformedDistribution(D.Normal(m, s), [D.SigmoidTransform(), D.AffineTransform(1.0, 3.0)]), [LOC, POS])],
    "Uniform": [(lambda a, w: D.Uniform(a, a + w), [LOC, POS])],
    "VonMises": [(lambda m, c: D.VonMises(m, c), [LOC, POS])],
    "Weibull": [(lambda s, k: D.Weibull(s, k), [POS, POS])],
    "Wishart": [(lambda c, d: D.Wishart(d + 4, c), [COVARIANCE, POS])],
}  # fmt: skip
METHODS = {
    "sample": lambda d, v: d.sample(),
    "sample(shape)": lambda d, v: d.sample((2,)),
    "sample_n": lambda d, v: d.sample_n(2),
    "rsample": lambda d, v: d.rsample(torch.Size([3])),
    "log_prob": lambda d, v: d.log_prob(v),
    "log_prob of its sample": lambda d, v: d.log_prob(d.sample()),
    "cdf": lambda d, v: d.cdf(v),
    "icdf": lambda d, v: d.icdf(torch.linspace(0.1, 0.9, v.size(-1))),
    "entropy": lambda d, v: d.entropy(),
    "perplexity": lambda d, v: d.perplexity(),
    "expand": lambda d, v: expanded(d),
    "enumerate_support": lambda d, v: d.enumerate_support(),
    "enumerate_support(expand=False)": lambda d, v: d.enumerate_support(expand=False),
    "support.check": lambda d, v: d.support.check(v),
    "kl_divergence of itself": lambda d, v: D.kl_divergence(d, d),
    "__repr__": lambda d, v: (repr(d), v + 1),
    "itself": lambda d, v: d,
}  # fmt: skip


def expanded(d):
    wide = d.expand((3, *d.batch_shape))
    return wide, wide.batch_shape, wide.event_shape, wide.mean


def value_of(d, number):
    """A value to ask about; one outside of the support in the last call."""
    value = d.sample()
    return value - 7.5 if number == 4 else value


def attribute(name):
    return lambda d, v: getattr(d, name)


def accepted(make, recipes, use):
    """Whether the class has it: what it does not implement, it refuses with an exception, alike."""
    try:
        d = make(*[recipe(2) for recipe in recipes])
        use(d, value_of(d, 0))
    except AttributeError:
        return False
    except (NotImplementedError, RuntimeError):  # without gradients some divergences are refused
        return True
    return True


def cases_of(name, use):
    """The distribution given as an argument, and made in the function."""
    found = []
    for make, recipes in MADE[name]:
        if not accepted(make, recipes, use):
            continue

        def given(number, make=make, recipes=recipes):
            d = make(*[recipe(SIZES[number]) for recipe in recipes])
            return (d, value_of(d, number)), {}

        def parts(number, make=make, recipes=recipes):
            values = [recipe(SIZES[number]) for recipe in recipes]
            return (value_of(make(*values), number), *values), {}

        def function(make=make):
            return lambda v, *values: use(make(*values), v), None

        def outside():
            return lambda d, v: use(d, v), None

        found += [Case(outside, given), Case(function, parts)]
    return found


def distributions():
    table = {}
    for name in MADE:
        cls = getattr(D, name)
        uses = dict(METHODS)
        for attr in dir(cls):
            kind = inspect.getattr_static(cls, attr)
            if not attr.startswith("_") and isinstance(kind, property | lazy_property):
                uses[attr] = attribute(attr)
        for parameter in inspect.signature(cls).parameters:
            if parameter not in ("validate_args", "args", "kwargs"):
                uses.setdefault(parameter, attribute(parameter))
        for method, use in uses.items():
            table[f"torch.distributions.{name}.{method}"] = lambda name=name, use=use: cases_of(
                name, use
            )
    return table


def divergences():
    """Each registered pair; the kinds that a pair names are those of `MADE`."""
    table = {}
    for p, q in _KL_REGISTRY:
        if p.__name__ in MADE and q.__name__ in MADE:
            name = f"torch.distributions.kl_divergence({p.__name__}, {q.__name__})"
            table[name] = lambda p=p, q=q: divergence_cases(p.__name__, q.__name__)
    return table


def divergence_cases(p, q):
    (make_p, recipes_p), (make_q, recipes_q) = MADE[p][0], MADE[q][0]

    def values(recipes, number):
        return [recipe(SIZES[number]) for recipe in recipes]

    def given(number):
        return (make_p(*values(recipes_p, number)), make_q(*values(recipes_q, number))), {}

    def parts(number):
        return (values(recipes_p, number), values(recipes_q, number)), {}

    def outside():
        return lambda a, b: D.kl_divergence(a, b), None

    def inside():
        return lambda a, b: D.kl_divergence(make_p(*a), make_q(*b)), None

    try:
        D.kl_divergence(*given(0)[0])
    except NotImplementedError:
        return []
    return [Case(outside, given), Case(inside, parts)]


TRANSFORMS = {
    "AbsTransform": (lambda: T.AbsTransform(), ROW),
    "AffineTransform": (lambda: T.AffineTransform(0.5, 2.0), ROW),
    "AffineTransform(event_dim=1)": (lambda: T.AffineTransform(torch.ones(3), -2.0, event_dim=1), ROW),
    "CatTransform": (lambda: T.CatTransform([T.ExpTransform(), T.AffineTransform(1.0, 2.0)], dim=1, lengths=[1, 2]), ROW),
    "ComposeTransform": (lambda: T.ComposeTransform([T.TanhTransform(), T.AffineTransform(1.0, 2.0)]), ROW),
    "CorrCholeskyTransform": (lambda: T.CorrCholeskyTransform(), ROW),
    "CumulativeDistributionTransform": (lambda: T.CumulativeDistributionTransform(D.Normal(0.0, 1.0)), ROW),
    "ExpTransform": (lambda: T.ExpTransform(), ROW),
    "IndependentTransform": (lambda: T.IndependentTransform(T.ExpTransform(), 1), ROW),
    "LowerCholeskyTransform": (lambda: T.LowerCholeskyTransform(), tensor("n", 3, 3)),
    "PositiveDefiniteTransform": (lambda: T.PositiveDefiniteTransform(), tensor("n", 3, 3)),
    "PowerTransform": (lambda: T.PowerTransform(torch.tensor(2.0)), lambda n: torch.rand(n, 3) + 0.5),
    "ReshapeTransform": (lambda: T.ReshapeTransform((2, 2), (4,)), tensor("n", 2, 2)),
    "SigmoidTransform": (lambda: T.SigmoidTransform(), ROW),
    "SoftmaxTransform": (lambda: T.SoftmaxTransform(), ROW),
    "SoftplusTransform": (lambda: T.SoftplusTransform(), ROW),
    "StackTransform": (lambda: T.StackTransform([T.ExpTransform(), T.SigmoidTransform(), T.TanhTransform()], dim=1), ROW),
    "StickBreakingTransform": (lambda: T.StickBreakingTransform(), ROW),
    "TanhTransform": (lambda: T.TanhTransform(), ROW),
}  # fmt: skip
TRANSFORM_METHODS = {
    "__call__": lambda t, x: t(x),
    "inv": lambda t, x: t.inv(t(x).clone()),
    "inv of itself": lambda t, x: t.inv(t(x)),
    "log_abs_det_jacobian": lambda t, x: t.log_abs_det_jacobian(x, t(x)),
    "inv.log_abs_det_jacobian": lambda t, x: t.inv.log_abs_det_jacobian(t(x), x),
    "forward_shape": lambda t, x: (t.forward_shape(x.shape), x * 2),
    "inverse_shape": lambda t, x: (t.inverse_shape(t(x).shape), x * 2),
    "with_cache": lambda t, x: t.with_cache(1)(x),
    "domain.check": lambda t, x: (t.domain.check(x), t.codomain.check(t(x))),
    "bijective": lambda t, x: (t.bijective, t.domain.event_dim, x + 1),
}
CONSTRAINTS = {
    "boolean": C.boolean, "cat": C.cat([C.real, C.positive, C.real], dim=-1), "corr_cholesky": C.corr_cholesky,
    "dependent": C.dependent, "greater_than": C.greater_than(0.5), "greater_than_eq": C.greater_than_eq(0.5),
    "half_open_interval": C.half_open_interval(0.0, 0.5), "independent": C.independent(C.real, 1),
    "integer_interval": C.integer_interval(0, 3), "interval": C.interval(-1.0, 2.0), "less_than": C.less_than(0.5),
    "lower_cholesky": C.lower_cholesky, "lower_triangular": C.lower_triangular, "multinomial": C.multinomial(3),
    "nonnegative": C.nonnegative, "nonnegative_integer": C.nonnegative_integer, "one_hot": C.one_hot,
    "positive": C.positive, "positive_definite": C.positive_definite, "positive_integer": C.positive_integer,
    "positive_semidefinite": C.positive_semidefinite, "real": C.real, "real_vector": C.real_vector,
    "simplex": C.simplex, "square": C.square, "stack": C.stack([C.real, C.positive, C.unit_interval], dim=-1),
    "symmetric": C.symmetric, "unit_interval": C.unit_interval,
}  # fmt: skip


def simple(function, *recipes):
    """A case of a function whose recipes are known; none where eager refuses."""

    def inputs(number):
        return tuple(recipe(SIZES[number]) for recipe in recipes), {}

    try:
        function(*inputs(0)[0])
    except Exception:
        return []
    return [Case(lambda: (lambda *args: function(*args), None), inputs)]


def transforms():
    table = {}
    for name, (make, recipe) in TRANSFORMS.items():
        for method, use in TRANSFORM_METHODS.items():

            def both(make=make, recipe=recipe, use=use):
                t = make()
                return simple(lambda x: use(make(), x), recipe) + simple(
                    lambda x: use(t, x), recipe
                )

            table[f"torch.distributions.{name}.{method}"] = both
    for name, c in CONSTRAINTS.items():
        table[f"torch.distributions.constraints.{name}.check"] = lambda c=c: (
            simple(lambda x: c.check(x), tensor("n", 3, 3))
            + simple(lambda x: c.check(x.round()), unit("n", 3))
        )
        for registry in ("transform_to", "biject_to"):

            def use(x, c=c, registry=registry):
                y = getattr(D, registry)(c)(x)
                return y, c.check(y)

            table[f"torch.distributions.{registry}({name})"] = lambda use=use: (
                simple(use, tensor("n", 3)) or simple(use, tensor("n", 3, 3))
            )
    return table
