"""What eager refuses for its dimensions, windows or words is refused where nobody uses the result too."""

import braze
import pytest
import torch
import torch.nn.functional as F

SOFT = torch.arange(6.0)
CUBE = torch.arange(60.0).reshape(3, 4, 5)
LINE, KERNEL = torch.ones(1, 4, 8), torch.ones(4, 2, 3)
IMAGE, WINDOW = torch.ones(2, 4, 8, 8), torch.ones(4, 4, 3, 3)
VOLUME, BLOCK = torch.ones(1, 2, 5, 5, 5), torch.ones(2, 2, 3, 3, 3)

CASES = {
    "softmax": (lambda x: x.softmax(1), SOFT),
    "log_softmax": (lambda x: x.log_softmax(-3), SOFT),
    "softmin": (lambda x: F.softmin(x, 4, dtype=torch.float64), SOFT),
    "cumsum": (lambda x: x.cumsum(3), CUBE),
    "cumprod": (lambda x: x.cumprod(-4), CUBE),
    "cummax": (lambda x: x.cummax(3), CUBE),
    "cummin": (lambda x: x.cummin(3), CUBE),
    "logcumsumexp": (lambda x: x.logcumsumexp(3), CUBE),
    "sort": (lambda x: x.sort(3), CUBE),
    "argsort": (lambda x: x.argsort(3, True), CUBE),
    "flip": (lambda x: x.flip(0, 3), CUBE),
    "flip twice": (lambda x: x.flip(0, -3), CUBE),
    "roll": (lambda x: x.roll(1, 3), CUBE),
    "roll without shifts": (lambda x: x.roll(()), SOFT),
    "roll of other dimensions": (lambda x: x.roll((1, 2), 0), CUBE),
    "renorm": (lambda x: x.renorm(2, 3, 0.5), CUBE),
    "sum twice": (lambda x: x.sum((0, 0)), CUBE),
    "mean twice": (lambda x: x.mean((1, -2)), CUBE),
    "amax twice": (lambda x: x.amax((0, 0)), CUBE),
    "logsumexp twice": (lambda x: x.logsumexp((1, 1)), CUBE),
    "var twice": (lambda x: x.var((1, 1)), CUBE),
    "std_mean twice": (lambda x: torch.std_mean(x, (1, 1)), CUBE),
    "norm twice": (lambda x: x.norm("fro", (0, 0)), CUBE),
    "tril": (lambda x: x.tril(), SOFT),
    "triu": (lambda x: x.triu_(), SOFT),
    "bucketize": (lambda x: torch.bucketize(x, x), CUBE),
    "gelu": (lambda x: F.gelu(x, approximate="sigmoid"), CUBE),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 3), IMAGE),
    "pixel_unshuffle of nothing": (lambda x: F.pixel_unshuffle(x[:, :0], 3), IMAGE),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2, divisor_override=0), IMAGE),
    "group_norm": (lambda x: torch.native_group_norm(x, None, None, 9, 4, 64, 2, 0.5), IMAGE),
    "groups": (lambda x: torch.native_group_norm(x, None, None, 2, 4, 64, 3, 0.5), IMAGE),
    "masked_fill": (lambda x: x.long().masked_fill(x > 0, x.sum() * 1e30), CUBE),
    "index_fill": (lambda x: x.half().index_fill(0, x[0, 0].long() * 0, x.sum() * 1e5), CUBE),
    "one_hot": (lambda x: F.one_hot(x, 9), SOFT),
    "one_hot of classes": (lambda x: F.one_hot(x.long(), -5), SOFT),
    "normal": (lambda x: torch.normal(x[:2], -x), CUBE),
    "conv stride": (lambda x: F.conv1d(x, KERNEL, stride=0, groups=2), LINE),
    "conv strides": (lambda x: F.conv1d(x, KERNEL, stride=(2, 2), groups=2), LINE),
    "conv dilation": (lambda x: F.conv2d(x, WINDOW, dilation=(-9, 4)), IMAGE),
    "conv padding": (lambda x: F.conv2d(x, WINDOW, padding=-1), IMAGE),
    "conv reach": (lambda x: F.conv2d(x, WINDOW, dilation=9), IMAGE),
    "conv groups": (lambda x: F.conv1d(x, KERNEL, groups=9), LINE),
    "conv no groups": (lambda x: F.conv1d(x, KERNEL, groups=0), LINE),
    "conv bias": (lambda x: F.conv2d(x, WINDOW, torch.ones(3)), IMAGE),
    "conv wide bias": (lambda x: F.conv2d(x, WINDOW, torch.ones(4, 1)), IMAGE),
    "conv dtype of bias": (lambda x: F.conv2d(x, WINDOW, torch.ones(4).double()), IMAGE),
    "conv3d strides": (lambda x: F.conv3d(x, BLOCK, stride=(-9, 2, 2)), VOLUME),
    "conv3d more strides": (lambda x: F.conv3d(x, BLOCK, stride=(1, 1, 1, 1)), VOLUME),
    "transposed output": (lambda x: F.conv_transpose2d(x, WINDOW, output_padding=1), IMAGE),
    "transposed less": (lambda x: F.conv_transpose1d(x, KERNEL, output_padding=-1), LINE),
    "transposed stride": (lambda x: F.conv_transpose3d(x, BLOCK, stride=(2, 2)), VOLUME),
    "transposed padding": (lambda x: F.conv_transpose2d(x, WINDOW, padding=-9), IMAGE),
    "transposed groups": (lambda x: F.conv_transpose2d(x, WINDOW, groups=9), IMAGE),
    "transposed channels": (lambda x: F.conv_transpose2d(x[:, :1], WINDOW), IMAGE),
    "conv rank": (lambda x: F.conv1d(x, WINDOW), LINE),
    "conv of nothing": (lambda x: F.conv2d(x[..., :0], WINDOW, padding=2), IMAGE),
    "pool of nothing": (lambda x: F.adaptive_avg_pool2d(x[..., :0], 5), IMAGE),
    "largest of nothing": (lambda x: F.max_pool2d(x[..., :0], 3, padding=1), IMAGE),
    "mean of nothing": (lambda x: F.avg_pool2d(x[..., :0], 4, padding=2), IMAGE),
    "batch_norm of a vector": (lambda x: F.batch_norm(x, None, None, training=True), SOFT),
    "batch_norm with a number": (lambda x: F.batch_norm(x, x[0, 0], x[0, 0]), CUBE[0, :2, :1]),
    "addmm": (lambda x: torch.addmm(x[:2], x.view(2, 3), torch.ones(3, 3)), SOFT),
    "addmm of a cube": (lambda x: torch.addmm(x, x[0], x[0].t()), CUBE),
    "floor_divide in place": (lambda x: x.clone().floor_divide_(torch.ones(4)), SOFT),
    "linear": (lambda x: F.linear(x, torch.ones(5, 6), torch.ones(4)), SOFT),
    "median of nothing": (lambda x: x[:0].median(0), SOFT),
    "mode of nothing": (lambda x: x[..., :0].mode(), CUBE),
    "max of nothing": (lambda x: x[:0].max(), CUBE),
    "min of nothing": (lambda x: x[:0].min(), CUBE),
    "renorm of nothing": (lambda x: x[:0].renorm(float("inf"), 2, 0.5), CUBE),
    "fft of nothing": (lambda x: torch.fft.fft(x[:0], dim=1), CUBE),
    "meshgrid, whose words hold elements": (lambda x: torch.meshgrid(x[0], indexing="ij"), CUBE),
}

# From PyTorch 2.15 on a transform of nothing is nothing.
SERVED = {"fft of nothing"} if torch.__version__ >= "2.15" else set()


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("case", CASES)
def test_refused(case, dynamic, capfd):
    call, x = CASES[case]

    def f(x, log):
        try:
            call(x)
        except Exception as error:
            log.append((type(error), str(error)))
        log.append(x.dim())
        return x + 1

    told = []
    for function in (f, braze.compile(f, dynamic=dynamic)):
        log = []
        told.append((function(x.clone(), log).tolist(), log))
    assert told[0] == told[1]
    assert len(told[0][1]) == (1 if case in SERVED else 2)  # with the error, where it was refused
    assert "Please report" not in capfd.readouterr().err
