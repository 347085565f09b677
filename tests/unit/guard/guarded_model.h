// A program whose model, function and data are guarded in most of the ways that there are.
#pragma once

namespace braze::guard::testing {

// Model, function and helpers that the tests of GuardSet make their changes to; call() checks.
inline constexpr char kSetup[] = R"(
class Color(enum.Enum):
    RED = 1; BLUE = 2
class Config:
    def __init__(self): self.scale, self.unread, self.kind, self.big = 2.0, 1, Color.RED, 10 ** 20
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.norm = nn.BatchNorm1d(4)
        self.config = Config()
        self.sizes = [3, 4, 5]
        self.table = {'a': 1, 'b': 2.5}
        self.calls = 0
        self.names = {'x', 'y'}
        self.queue = collections.deque([1, 2])
        self.pair = (1, 'two')
        self.order = collections.OrderedDict(a=1, b=2)
        self.slots = Slots()
        self.nested = [[1, 2], {'k': torch.zeros(2)}, Config()]
    def forward(self, x): return helper(x)
    @property
    def doubled(self): return 2
class Slots:
    __slots__ = ('value',)
    def __init__(self): self.value = 7
SCALE = 3
def helper(x, factor=2, *, bias=1): return x * factor + bias + SCALE
def make():
    captured = 5
    def inner(model, x, flag=True, data=None):
        return model(x), captured, len(x)
    return inner
other = types.ModuleType('other_module'); other.limit = 10
model, function = Model(), make()
x = torch.randn(2, 3)
data = {'t': torch.ones(3), 'list': [torch.ones(2), 4]}

def capture(model, x, flag=True, data=None):
    c = Capture(function, model, x, flag, data)
    m = c.arg(0)
    c.module(m)
    c.arg(1).tensor()
    c.arg(2).same()
    config = m.attr('config').of_type()
    config.attr('scale').same(); config.attr('kind').same(); config.attr('big').same()
    sizes = m.attr('sizes').of_type().length()
    sizes.item(0).same(); sizes.item(1).same()
    table = m.attr('table').of_type()
    table.item('a').same(); table.item('b').same(); table.lacks('missing')
    m.attr('names').of_type().guard('SetValue', tuple(m.value.names))
    m.attr('queue').of_type().length().item(0).same()
    m.attr('pair').same()
    m.attr('order').of_type().guard('Keys', tuple(m.value.order))
    m.attr('slots').of_type().attr('value').same()
    nested = m.attr('nested').of_type().length()
    nested.item(0).of_type().length().item(1).same()
    nested.item(1).of_type().item('k').tensor()
    nested.item(2).of_type().attr('scale').same()
    m.type().on_type('doubled').is_()
    f = c.fn()
    f.code().is_(); f.cell(0).same(); f.no_glob('len'); f.builtin('len').is_()
    f.glob('other').is_(); c.pinned(other).attr('limit').same()
    h = c.pinned(Model.forward).glob('helper').is_()
    h.code().is_(); h.glob('SCALE').same(); h.default(0).same(); h.kwdefault('bias').same()
    c.native(torch.is_grad_enabled).same()
    if data is not None:
        d = c.arg(3).of_type()
        d.item('t').tensor(); d.item('list').length().item(0).tensor(); d.item('list').item(1).same()
        d.item('t').guard('NotSameObject', None, d.item('list').item(0))
        c.memories([d.item('t'), d.item('list').item(0)], [0, 1], 1)
    return c.build()
c = capture(model, x, True, data)
call = lambda: c.check(model, x, True, data)
why = lambda: c.why(model, x, True, data)
undo = lambda: None
)";

}  // namespace braze::guard::testing
