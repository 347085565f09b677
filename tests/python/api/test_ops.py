"""Operators by family over inputs of many layouts: compiled equals eager in dtype, shape, strides and
value. One compiled function holds all operators of a family that eager accepts for the input."""

import braze
import pytest
import torch
import torch.nn.functional as F
from support import same

FLOATS = {
    "matrix": lambda: torch.randn(5, 7),
    "transposed": lambda: torch.randn(7, 5).t(),
    "sliced": lambda: torch.randn(6, 20)[1:, 1:15:2],
    "expanded": lambda: torch.randn(7).expand(5, 7),
    "permuted": lambda: torch.randn(2, 3, 4, 5).permute(0, 2, 3, 1),
    "channels last": lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "vector": lambda: torch.randn(33),
    "number": lambda: torch.randn(()),
    "empty": lambda: torch.randn(0, 3),
    "empty inside": lambda: torch.randn(3, 0, 2),
    "one": lambda: torch.randn(1, 1),
}
INTEGERS = {
    "matrix": lambda: torch.randint(-9, 9, (5, 7)),
    "transposed": lambda: torch.randint(-9, 9, (7, 5)).t(),
    "number": lambda: torch.tensor(-3),
    "empty": lambda: torch.zeros(0, 3, dtype=torch.long),
    "bytes": lambda: torch.randint(0, 255, (4, 6), dtype=torch.uint8),
    "booleans": lambda: torch.rand(4, 6) > 0.5,
    "int32": lambda: torch.randint(-9, 9, (3, 4), dtype=torch.int32),
}

UNARY = """
abs acos acosh angle asin asinh atan atanh bitwise_not ceil cos cosh deg2rad digamma erf erfc erfinv
exp exp2 expm1 fix floor frac isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2
logical_not logit nan_to_num neg positive rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit
sin sinc sinh sqrt square tan tanh trunc i0 real conj_physical
""".split()
ACTIVATIONS = """
F.celu(x) F.elu(x) F.gelu(x) F.gelu(x,approximate="tanh") F.hardshrink(x) F.hardsigmoid(x)
F.hardswish(x) F.hardtanh(x) F.leaky_relu(x,0.2) F.logsigmoid(x) F.mish(x) F.relu6(x) F.selu(x)
F.silu(x) F.softplus(x) F.softshrink(x) F.softsign(x) F.tanhshrink(x) F.threshold(x,0.1,2.0)
F.softmax(x,-1) F.softmin(x,0) F.log_softmax(x,-1) F.glu(x[...,:x.shape[-1]//2*2],-1) F.normalize(x,dim=-1)
F.layer_norm(x,x.shape[-1:]) F.rms_norm(x,x.shape[-1:]) F.prelu(x,torch.tensor([0.3]))
""".split()
BINARY = """
x+y x-y x*y x/y x//(y*y+1) x%(y*y+1) x**2 2**x x>y x<=y x==y x!=y x&y x|y x^y
torch.maximum(x,y) torch.minimum(x,y) torch.fmax(x,y) torch.fmin(x,y) torch.atan2(x,y) torch.hypot(x,y)
torch.fmod(x,3) torch.remainder(x,-3) torch.floor_divide(x,2) torch.true_divide(x,4) torch.rsub(x,y)
torch.add(x,y,alpha=2) torch.logaddexp(x,y) torch.copysign(x,y) torch.heaviside(x,y) torch.xlogy(x,y*y)
torch.where(x>y,x,y) torch.where(x>0,x,1.5) torch.lerp(x,y,0.3) torch.addcmul(x,x,y) torch.addcdiv(x,x,y*y+1)
torch.logical_and(x,y) torch.logical_or(x,y) torch.logical_xor(x,y) torch.isclose(x,y) torch.dist(x,y)
torch.clamp(x,-1,1) torch.clamp(x,min=0) torch.clamp(x,max=y) torch.clip(x,y,y+1) x.masked_fill(y>0,2)
torch.div(x,y*y+1,rounding_mode="floor") torch.div(x,y*y+1,rounding_mode="trunc") x.float()@y.float().mT
F.mse_loss(x,y) F.l1_loss(x,y) F.smooth_l1_loss(x,y) F.huber_loss(x,y) F.cosine_similarity(x,y,dim=-1)
F.binary_cross_entropy_with_logits(x,y.sigmoid()) F.kl_div(x,y,reduction="batchmean") F.softplus(x)*y
torch.outer(x.flatten()[:5],y.flatten()[:4]) torch.cross(x[...,:3],y[...,:3]) torch.gcd(x,y) torch.lcm(x,y)
x<<1 x>>1 torch.bitwise_left_shift(x,2) torch.nextafter(x,y) torch.float_power(x,2) torch.ldexp(x,y)
""".split()
REDUCTIONS = """
x.sum() x.sum(-1) x.sum(0,keepdim=True) x.sum((0,-1)) x.mean() x.mean(-1) x.prod() x.prod(-1) x.amax(-1)
x.amin(0) x.max() x.min() x.max(-1) x.min(0) x.argmax() x.argmax(-1) x.argmin(0) x.all() x.any() x.all(-1)
x.any(0) x.var() x.var(-1) x.std(0) x.var(-1,unbiased=False) torch.var_mean(x,-1) torch.std_mean(x) x.norm()
x.norm(dim=-1) x.norm(1) torch.logsumexp(x,-1) x.cumsum(-1) x.cumsum(0) x.cumprod(-1) x.cummax(-1) x.cummin(0)
torch.logcumsumexp(x,-1) x.median() x.median(-1) x.nanmedian() x.kthvalue(1,-1) x.mode(-1) x.sort(-1)
x.sort(0,descending=True) x.argsort(-1,stable=True) x.topk(min(3,x.shape[-1]),-1) x.nansum() x.nanmean()
torch.aminmax(x) x.count_nonzero() x.count_nonzero(-1) torch.linalg.vector_norm(x,dim=-1) torch.quantile(x,0.3)
x.diff() torch.trapezoid(x) x.std(correction=0) torch.histc(x,4)
torch.linalg.matrix_norm(x) torch.cdist(x,x) torch.searchsorted(x.sort(-1)[0],x) torch.bucketize(x,x.flatten()[:1])
""".split()
SHAPES = """
x.reshape(-1) x.flatten(0) x.t() x.mT x.T x.transpose(0,-1) x.movedim(0,-1) x.swapaxes(0,-1) x.unsqueeze(0)
x.unsqueeze(-1) x.squeeze() x[None] x[...,0] x[0] x[-1] x[1:] x[...,::2] x[...,1:-1] x[...,None,:] x.flip(0) x.flip(-1)
x.flipud() x.roll(1) x.roll(2,-1) x.roll((1,-1),(0,-1)) x.rot90() x.repeat(2,*[1]*(x.dim()-1)) x.tile(2) x.tile(2,1)
x.repeat_interleave(2) x.repeat_interleave(3,-1) x.expand(2,*x.shape) x.broadcast_to(2,*x.shape) x.chunk(2,-1)
x.split(2,-1) x.split([1,x.shape[-1]-1],-1) x.tensor_split(3,-1) x.unbind(0) x.unbind(-1) x.unfold(-1,2,1)
x.contiguous() x.clone() x.diagonal() x.diag() torch.diag_embed(x) x.tril() x.triu(1) x.tril(-1) x.ravel() x.view(-1)
torch.cat([x,x]) torch.cat([x,x*2],-1) torch.stack([x,x],-1) torch.hstack([x,x]) torch.vstack([x,x]) torch.dstack([x,x])
torch.column_stack([x,x]) F.pad(x,(1,2)) F.pad(x,(-1,1),value=3) F.pad(x[None],(1,1),mode="reflect")
F.pad(x[None],(1,1),mode="replicate") F.pad(x[None],(1,1),mode="circular") torch.zeros_like(x) torch.ones_like(x)
torch.full_like(x,3) x.new_zeros(2,3) x.new_full((2,),4) torch.arange(x.shape[0]) torch.linspace(0,1,5) torch.eye(3)
x.double() x.half() x.bfloat16() x.int() x.bool() x.to(torch.uint8) x.long() x.type_as(x) x.view_as(x)
x.index_select(0,torch.tensor([0])) x.gather(-1,torch.zeros_like(x,dtype=torch.long)) x.take(torch.tensor([0]))
torch.take_along_dim(x,torch.zeros_like(x,dtype=torch.long),-1) x[torch.tensor([0,0])] x[...,torch.tensor([0,-1])]
x.scatter(0,torch.zeros_like(x,dtype=torch.long),2) x.scatter_add(0,torch.zeros_like(x,dtype=torch.long),x)
x.scatter_reduce(0,torch.zeros_like(x,dtype=torch.long),x,"amax") x.index_add(0,torch.tensor([0]),x[:1])
x.index_copy(0,torch.tensor([0]),x[:1]*2) x.index_fill(0,torch.tensor([0]),3) x.index_put((torch.tensor([0]),),x[:1]*2)
x.index_put((torch.tensor([0,0]),),x[:1],accumulate=True) x.masked_scatter(x>0,x*2) x.slice_scatter(x[:1]*2,0,0,1)
x.select_scatter(x[0]*2,0,0) x.diagonal_scatter(x.diagonal()*2) torch.meshgrid(x.flatten()[:3],x.flatten()[:2],indexing="ij")
torch.block_diag(x,x) torch.kron(x,x) torch.tensordot(x,x.mT,1) torch.einsum("ij,kj->ik",x,x) x.mm(x.t()) x.addmm(x,x.t()@x)
torch.tril_indices(3,4) torch.cartesian_prod(x.flatten()[:2],x.flatten()[:3])
torch.atleast_2d(x) torch.atleast_3d(x) x.unflatten(-1,(1,-1)) torch.vander(x.flatten()[:4])
F.one_hot((x*0).long(),4) F.one_hot(x.long().clamp(0,3),4) torch.special.entr(x) torch.polar(x,x) torch.complex(x,x)
torch.view_as_real(torch.complex(x,x)) torch.complex(x,x).abs() torch.fft.rfft(x) torch.fft.fft(x).real
torch.linalg.det(x[...,:2,:2]) torch.linalg.inv(x[...,:2,:2]) torch.linalg.qr(x) torch.linalg.solve(x[:2,:2],x[:2,:1])
torch.linalg.eigvalsh(x@x.mT) torch.linalg.cholesky(x@x.mT+9*torch.eye(x.shape[0])) torch.linalg.svdvals(x) torch.trace(x)
""".split()
IMAGES = """
F.max_pool2d(x,2) F.avg_pool2d(x,2) F.adaptive_avg_pool2d(x,2) F.adaptive_max_pool2d(x,2) F.max_pool2d(x,3,1,1)
F.interpolate(x,scale_factor=2) F.interpolate(x,size=(7,9),mode="bilinear") F.interpolate(x,size=3,mode="bicubic")
F.interpolate(x,scale_factor=2,mode="bilinear",align_corners=True) F.interpolate(x,size=(2,2),mode="area")
F.pixel_shuffle(x.repeat(1,4,1,1),2) F.pixel_unshuffle(F.pad(x,(0,x.shape[3]%2,0,x.shape[2]%2)),2) F.unfold(x,2)
F.instance_norm(x) F.group_norm(x,1) F.local_response_norm(x,2) F.channel_shuffle(x,1) F.grid_sample(x,torch.zeros(2,3,3,2))
F.conv2d(x,torch.ones(4,x.shape[1],2,2)) F.conv2d(x,torch.ones(x.shape[1],1,3,3),padding=1,groups=x.shape[1])
F.conv_transpose2d(x,torch.ones(x.shape[1],2,2,2),stride=2) F.pad(x,(1,1,2,2),mode="reflect") F.pad(x,(1,0),mode="circular")
F.pad(x,(1,1,1,1),mode="replicate") F.lp_pool2d(x,2,2) F.avg_pool2d(x,3,2,1,count_include_pad=False) F.dropout(x,0.5,False)
F.batch_norm(x,torch.zeros(x.shape[1]),torch.ones(x.shape[1])) F.affine_grid(torch.zeros(2,2,3),(2,1,4,4)) F.cosine_similarity(x,x)
""".split()


def run(expressions, x, y=None):
    """Compile the expressions that eager accepts as one function, and compare."""
    environment = {"torch": torch, "F": F}
    accepted = []
    for expression in expressions:
        try:
            eval(expression, environment, {"x": x, "y": y})
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            continue
        accepted.append(expression)
    source = "def f(x, y):\n    return [\n"
    source += "".join(f"        {expression},\n" for expression in accepted) + "    ]\n"
    exec(source, environment)
    f = environment["f"]
    fast = braze.compile(f, fullgraph=True)
    expected, got = f(x, y), fast(x, y)
    for expression, ours, theirs in zip(accepted, got, expected, strict=True):
        same(ours, theirs, expression, rtol=2e-5, atol=2e-6)
    return len(accepted)


INPUTS = [pytest.param(make, id=name) for name, make in FLOATS.items()] + [
    pytest.param(make, id=f"integer {name}") for name, make in INTEGERS.items()
]


@pytest.mark.parametrize("make", INPUTS)
def test_unary(make):
    assert run([f"torch.{name}(x)" for name in UNARY], make()) > 10


@pytest.mark.parametrize("make", [p for p in INPUTS if not p.id.startswith("integer")])
def test_activations(make):
    assert run(ACTIVATIONS, make()) > 15


@pytest.mark.parametrize("make", INPUTS)
def test_binary(make):
    x = make()
    assert run(BINARY, x, make()) > 10
    if x.dim() > 1:  # broadcast, and another layout
        assert run(BINARY, x, make()[..., :1]) > 10
        assert run(BINARY, x, make().contiguous()) > 10


@pytest.mark.parametrize("make", INPUTS)
def test_reductions(make):
    assert run(REDUCTIONS, make()) > 5


@pytest.mark.parametrize("make", INPUTS)
def test_shapes(make):
    assert run(SHAPES, make()) > 20


@pytest.mark.parametrize("name", ["permuted", "channels last"])
def test_images(name):
    assert run(IMAGES, FLOATS[name]()) > 15


def test_one_hot_out_of_range():
    """Eager's error, not a row of zeros."""
    fast = braze.compile(lambda x: F.one_hot(x, 4) * 2, fullgraph=True)
    assert torch.equal(fast(torch.tensor([0, 3])), F.one_hot(torch.tensor([0, 3]), 4) * 2)
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        fast(torch.tensor([0, 4]))


EXTREMES = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0, 7.5, 1e-38, 3e38, -3e38, 16777217.0, 1e10, -0.3]


@pytest.mark.parametrize("name", ["remainder", "fmod"])
def test_division_of_extremes(name):
    """Right by fp64 also where the quotient overflows and eager's vector kernel gives NaN."""
    x, y = (t.flatten() for t in torch.meshgrid(*[torch.tensor(EXTREMES)] * 2, indexing="ij"))
    f = getattr(torch, name)
    got = braze.compile(lambda x, y: f(x, y))(x, y)
    small = (x.double() / y.double()).abs() < 1e30
    torch.testing.assert_close(got[small], f(x, y)[small], equal_nan=True)
    assert torch.equal(got.isnan(), f(x.double(), y.double()).isnan())


def test_gelu_of_extremes():
    """x * Phi(x) without overflow: eager's vector kernel gives NaN for 3e38."""
    x = torch.tensor(EXTREMES * 4)
    got, exact = braze.compile(lambda x: F.gelu(x))(x), F.gelu(x.double())
    torch.testing.assert_close(got, exact.float(), rtol=1e-5, atol=1e-7)


def _merged_heads(x, r):
    n, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(n, length, heads * width) + r


def _joined(x, r):
    flat = x.flatten(1)
    return torch.cat((flat, r.flatten(1) * 2, flat * flat), -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [64, 48, 24, 7])
@pytest.mark.parametrize("function", [_merged_heads, _joined])
def test_pieces_of_long_rows(function, width, dtype):
    """Rows whose pieces lie apart, of whole vectors and of others: eager's bits."""
    x = torch.randn(2, 12, 5, width).to(dtype)
    r = torch.randn(2, 5, 12 * width).to(dtype)
    text = braze.explain(function)(x, r)
    assert not text.breaks and "aten." not in text.entries[0]["plan"], text
    same(braze.compile(function)(x, r), function(x, r), rtol=0, atol=0)
