// Every kind of change that compiled code relies on not happening: one setup, one change each.
#include <gtest/gtest.h>

#include <string>

#include "cpython/python.h"
#include "guard_module.h"

namespace braze::guard::testing {
namespace {

using cpython::testing::Program;
using cpython::testing::repr;

// Model, function and helpers that the changes are made to.
constexpr char kSetup[] = R"(
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
    m.attr('names').of_type().guard('SetValue', frozenset(m.value.names))
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
        d.item('t').guard('DisjointStorage', False, d.item('list').item(0))
    return c.build()
c = capture(model, x, True, data)
call = lambda: c.check(model, x, True, data)
why = lambda: c.why(model, x, True, data)
undo = lambda: None
)";

struct Change {
  const char* name;
  const char* code;
  bool holds;       // afterwards
  const char* why;  // part of the reason
};

void PrintTo(const Change& change, std::ostream* out) { *out << change.name; }

class GuardSetChange : public ::testing::TestWithParam<Change> {};

TEST_P(GuardSetChange, IsJudgedRight) {
  const Change& change = GetParam();
  // The guards have been checked never, once, or often enough to have their records.
  for (const char* before : {"pass", "call()", "call(); call(); call()"}) {
    Program program(kPrelude);
    program.run(kSetup);
    program.run(before);
    EXPECT_TRUE(std::string(before) == "pass" || program.holds("call()"))
        << repr(program.eval("why()"));
    program.run(change.code);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(repr(program.eval("call()")), change.holds ? "True" : "False")
          << change.code << " after " << before << ": " << repr(program.eval("why()"));
    }
    const std::string why = repr(program.eval("why()"));
    program.run("undo()");
    if (change.holds)
      EXPECT_EQ(why, "''");
    else
      EXPECT_NE(why.find(change.why), std::string::npos) << why;
  }
}

constexpr Change kChanges[] = {
    {"attribute", "model.config.scale = 3.0", false, "model.config.scale: 2.0 -> 3.0"},
    {"attribute_of_other_type", "model.config.scale = 2", false, "2.0 -> 2"},
    {"big_int", "model.config.big += 1", false, "model.config.big: 100000000000000000000"},
    {"enum", "model.config.kind = Color.BLUE", false, "model.config.kind: a Color"},
    {"attribute_deleted", "del model.config.scale", false, "2.0 -> absent"},
    {"attribute_by_dict", "model.config.__dict__['scale'] = 9.0", false, "2.0 -> 9.0"},
    {"submodule_swapped", "model.first = nn.Identity()", false,
     "type(model.first): class torch.nn.modules.linear.Linear"},
    {"submodule_of_same_kind_other_size", "model.first = nn.Linear(3, 5)", false,
     "model.first.weight.size(0): 4 -> 5"},
    {"layer_swapped", "model.layers[1] = nn.ReLU()", false, "type(model.layers[1]): class"},
    {"method_on_class", "Model.forward = lambda self, x: x", false, "type(model).forward"},
    {"method_on_library_class",
     "old = nn.Linear.forward; nn.Linear.forward = lambda self, x: x\n"
     "undo = lambda: setattr(nn.Linear, 'forward', old)",
     false, "forward"},
    {"method_on_instance", "model.forward = lambda x: x", false, "model.forward: absent -> "},
    {"method_on_child", "model.first.forward = lambda x: x", false,
     "model.first.forward: absent -> "},
    {"property_patched", "Model.doubled = property(lambda self: 3)", false, "type(model).doubled"},
    {"attribute_hidden_by_property", "Config.scale = property(lambda self: 3.0)", false,
     "model.config.scale: 2.0 -> absent"},
    {"base_patched",
     "nn.Module.__call__, old = (lambda self, *a: 1), nn.Module.__call__\n"
     "undo = lambda: setattr(nn.Module, '__call__', old)",
     false, "__call__"},
    {"eval", "model.eval()", false, "model.training: True -> False"},
    {"train_of_child", "model.layers[2].train(False)", false,
     "model.layers[2].training: True -> False"},
    {"to_dtype", "model.to(torch.float64)", false, "dtype: float32 -> float64"},
    {"requires_grad", "model.layers[0].weight.requires_grad_(False)", false,
     "model.layers[0].weight.requires_grad: True -> False"},
    {"parameter_data_of_other_shape", "model.first.weight.data = torch.zeros(4, 7)", false,
     "model.first.weight.size(1): 3 -> 7"},
    {"parameter_data_of_other_strides", "model.first.weight.data = torch.zeros(3, 4).t()", false,
     "stride(0): 3 -> 1"},
    {"parameter_removed", "model.first.bias = None", false, "NoneType"},
    {"parameter_becomes_tensor",
     "del model.first.weight; model.first._parameters['weight'] = torch.zeros(4, 3)", false,
     "Parameter -> Tensor"},
    {"buffer_of_other_dtype", "model.norm.running_mean = torch.zeros(4, dtype=torch.float16)",
     false, "model.norm.running_mean.dtype: float32 -> float16"},
    {"forward_hook", "model.layers[1].register_forward_hook(lambda *a: None)", false,
     "len(model.layers[1]._forward_hooks): 0 -> 1"},
    {"pre_hook", "model.register_forward_pre_hook(lambda *a: None)", false, "0 -> 1"},
    {"global", "SCALE = 4", false, "SCALE: 3 -> 4"},
    {"global_deleted", "del SCALE", false, "SCALE: 3 -> absent"},
    {"global_function", "def helper(x): return x", false, "helper: function"},
    {"builtin_shadowed", "len = max", false, "len: absent -> "},
    {"module_global", "other.limit = 11", false, "other_module.limit: 10 -> 11"},
    {"cell", "function.__closure__[0].cell_contents = 6", false, "captured: 5 -> 6"},
    {"cell_emptied", "del function.__closure__[0].cell_contents", false, "5 -> absent"},
    {"default", "helper.__defaults__ = (5,)", false, "helper.__defaults__[0]: 2 -> 5"},
    {"kwdefault", "helper.__kwdefaults__['bias'] = 9", false,
     "helper.__kwdefaults__['bias']: 1 -> 9"},
    {"kwdefaults_replaced", "helper.__kwdefaults__ = {'bias': 8}", false, "1 -> 8"},
    {"code", "helper.__code__ = (lambda x, factor=2, *, bias=1: x).__code__", false,
     "helper.__code__: a code object"},
    {"code_of_method", "Model.forward.__code__ = (lambda self, x: x).__code__", false, "__code__"},
    {"code_of_function", "function.__code__ = (lambda c: lambda m, x, f=1, d=2: c)(1).__code__",
     false, "inner.__code__"},
    {"list_item", "model.sizes[1] = 9", false, "model.sizes[1]: 4 -> 9"},
    {"list_item_of_other_type", "model.sizes[0] = True", false, "3 -> True"},
    {"list_length", "model.sizes.append(1)", false, "len(model.sizes): 3 -> 4"},
    {"list_replaced", "model.sizes = [3, 0, 5]", false, "model.sizes[1]: 4 -> 0"},
    {"list_cleared", "model.sizes.clear()", false, "len(model.sizes): 3 -> 0"},
    {"nested_list", "model.nested[0][1] = 5", false, "model.nested[0][1]: 2 -> 5"},
    {"object_in_list", "model.nested[2].scale = 1.0", false, "model.nested[2].scale: 2.0 -> 1.0"},
    {"tensor_in_list", "model.nested[1]['k'] = torch.zeros(3)", false,
     "model.nested[1]['k'].size(0): 2 -> 3"},
    {"dict_item", "model.table['b'] = -2.5", false, "model.table['b']: 2.5 -> -2.5"},
    {"dict_key_appears", "model.table['missing'] = 1", false, "absent -> 1"},
    {"dict_key_removed", "del model.table['a']", false, "model.table['a']: 1 -> absent"},
    {"dict_replaced", "model.table = {'a': 1, 'b': 2.0}", false, "2.5 -> 2.0"},
    {"set", "model.names.add('z')", false, "model.names: its members have changed"},
    {"set_same_size", "model.names.remove('x'); model.names.add('z')", false, "members"},
    {"deque_rotated", "model.queue.rotate()", false, "model.queue[0]: 1 -> 2"},
    {"deque_length", "model.queue.append(3)", false, "len(model.queue): 2 -> 3"},
    {"tuple", "model.pair = (1, 'three')", false, "model.pair: (1, 'two') -> (1, 'three')"},
    {"order", "model.order.move_to_end('a')", false, "keys of model.order"},
    {"slot", "model.slots.value = 8", false, "model.slots.value: 7 -> 8"},
    {"class_replaced", "model.first.__class__ = type('Other', (nn.Linear,), {})", false,
     "type(model.first): class torch.nn.modules.linear.Linear -> class"},
    {"class_of_config", "model.config.__class__ = type('Other', (Config,), {})", false,
     "type(model.config)"},
    {"dict_swapped", "model.config.__dict__ = dict(scale=4.0, kind=Color.RED, big=10**20)", false,
     "model.config.scale: 2.0 -> 4.0"},
    {"grad_mode", "torch.set_grad_enabled(False); undo = lambda: torch.set_grad_enabled(True)",
     false, "grad mode: on -> off"},
    {"argument_scalar",
     "call = lambda: c.check(model, x, False, data)\n"
     "why = lambda: c.why(model, x, False, data)",
     false, "flag: True -> False"},
    {"argument_shape", "x = torch.randn(4, 3)", false, "x.size(0): 2 -> 4"},
    {"argument_dtype", "x = x.double()", false, "x.dtype: float32 -> float64"},
    {"argument_strides", "x = torch.randn(3, 2).t()", false, "x.stride(0): 3 -> "},
    {"argument_requires_grad", "x.requires_grad_()", false, "x.requires_grad: False"},
    {"argument_type", "x = nn.Parameter(x, requires_grad=False)", false,
     "type(x): Tensor -> Parameter"},
    {"argument_no_tensor", "x = 3", false, "type(x): Tensor -> int"},
    {"argument_in_dict", "data['t'] = torch.ones(4)", false, "data['t'].size(0): 3 -> 4"},
    {"argument_list_in_dict", "data['list'][1] = 5", false, "data['list'][1]: 4 -> 5"},
    {"argument_aliased", "data['t'] = torch.ones(5)[:3]; data['list'][0] = data['t'][:2]", false,
     "expected to share no memory with"},
    {"argument_model", "model = nn.Linear(3, 4)", false, "type(model): class"},
    {"argument_model_copy_changed",
     "import copy; model = copy.deepcopy(model)\n"
     "model.config.scale = 0.5",
     false, "model.config.scale: 2.0 -> 0.5"},

    {"nothing", "pass", true, ""},
    {"unread_attribute", "model.config.unread = 2; model.calls += 1; model.fresh = 1", true, ""},
    {"unread_attribute_every_time",
     "old = call\ndef call():\n  model.calls += 1; model.config.unread += 1\n  return old()", true,
     ""},
    {"read_attribute_set_to_equal",
     "model.config.scale = float('2.0'); model.config.big = 10 ** 20", true, ""},
    {"optimizer_step",
     "for p in model.parameters(): p.grad = torch.ones_like(p)\n"
     "torch.optim.SGD(model.parameters(), lr=0.1).step()",
     true, ""},
    {"copy_into_data", "model.first.weight.data.copy_(torch.ones(4, 3))", true, ""},
    {"data_of_same_kind", "model.first.weight.data = torch.zeros(4, 3)", true, ""},
    {"parameter_of_same_kind", "model.first.weight = nn.Parameter(torch.zeros(4, 3))", true, ""},
    {"buffer_replaced", "model.norm.running_mean = torch.ones(4)", true, ""},
    {"load_state_dict", "model.load_state_dict(Model().state_dict())", true, ""},
    {"submodule_of_same_kind", "model.first = nn.Linear(3, 4)", true, ""},
    {"hook_removed", "model.register_forward_hook(lambda *a: None).remove()", true, ""},
    {"unread_global", "unread_global = 1; other.unread = 3", true, ""},
    {"unread_global_every_time",
     "old = call\ncount = 0\ndef call():\n  global count; count += 1\n  return old()", true, ""},
    {"class_gets_unread_attribute", "Model.unread = 1; Config.unread_too = 2", true, ""},
    {"equal_list", "model.sizes = [3, 4, 5]", true, ""},
    {"unread_list_item", "model.sizes[2] = 100", true, ""},
    {"equal_dict", "model.table = dict(model.table); model.table['unread'] = 1", true, ""},
    {"dict_swapped_for_equal", "model.config.__dict__ = dict(model.config.__dict__)", true, ""},
    {"equal_cell", "function.__closure__[0].cell_contents = int('5')", true, ""},
    {"equal_defaults", "helper.__defaults__ = (int('2'),)", true, ""},
    {"equal_deque", "model.queue = collections.deque([1, 5])", true, ""},
    {"other_tensor_argument", "x = torch.ones(2, 3)", true, ""},
    {"other_data_argument", "data = {'t': torch.zeros(3), 'list': [torch.zeros(2), 4], 'more': 1}",
     true, ""},
    {"fresh_data_every_time",
     "call = lambda: c.check(model, x, True, {'t': torch.zeros(3), 'list': [torch.zeros(2), 4]})",
     true, ""},
    {"argument_model_copy", "import copy; model = copy.deepcopy(model)", true, ""},
    {"changed_and_back", "model.eval(); call(); model.train()", true, ""},
    {"class_changed_and_back",
     "old = Model.forward; Model.forward = None; call(); Model.forward = old", true, ""},
};

INSTANTIATE_TEST_SUITE_P(Changes, GuardSetChange, ::testing::ValuesIn(kChanges),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GuardSet, KeepsNoArgumentAlive) {
  Program program(kPrelude);
  program.run(kSetup);
  program.run(
      "call(); call(); call()\n"
      "seen = [weakref.ref(o) for o in (model, model.first, model.config, model.first.weight,\n"
      "        model.nested[2], data['t'])]\n"
      "del model, data; gc.collect()\n");
  EXPECT_EQ(repr(program.eval("all(r() is None for r in seen)")), "True");
}

TEST(GuardSet, LetsObjectsDie) {
  Program program(kPrelude);
  program.run(kSetup);
  program.run(R"(
class Holder:
    def __init__(self):
        self.number, self.own, self.items = 1, Config(), [Config()]
        self.own.back = self
        self.method = lambda: self
def f(h): pass
h = Holder()
c = Capture(f, h)
p = c.arg(0).of_type()
p.attr('number').same()
p.attr('own').of_type().attr('scale').same()
p.attr('items').of_type().item(0).of_type().attr('scale').same()
c.build()
del p
results = [c.check(h) for _ in range(3)]
seen = [weakref.ref(h), weakref.ref(h.own), weakref.ref(h.items[0])]
del h
gc.collect()
dead = [r() is None for r in seen]
# Other objects may now be where these were.
fresh = [Holder() for _ in range(200)]
again = [c.check(h) for h in fresh]
for h in fresh: h.own.scale = 7.0
changed = [c.check(h) for h in fresh]
)");
  EXPECT_EQ(repr(program.eval("results, dead, all(again), any(changed)")),
            "([True, True, True], [True, True, True], True, False)");
}

// Addresses are used again at once by numbers and tuples: equal pointers prove nothing.
TEST(GuardSet, AddressesUsedAgain) {
  Program program(kPrelude);
  program.run(kSetup);
  program.run(R"(
class State: pass
def f(s, t): pass
s = State(); s.number = 1000.5; s.items = [2000.5]; s.pair = [(1000.25, [1])]
t = (3000.5, 1)
c = Capture(f, s, t)
p = c.arg(0)
p.attr('number').same(); p.attr('items').item(0).same()
p.attr('pair').item(0).of_type().item(0).same()
c.arg(1).of_type().item(0).same()
c.build()
good = [c.check(s, (3000.5, 1)) for _ in range(3)]
bad = 0
def step(v):
    global bad
    s.number = v; bad += c.check(s, (3000.5, 1)); s.number = 1000.5
    s.items[0] = v; bad += c.check(s, (3000.5, 1)); s.items[0] = 2000.5
    s.pair[0] = (v, [1]); bad += c.check(s, (3000.5, 1)); s.pair[0] = (1000.25, [1])
    bad += c.check(s, (v, 1))
    good.append(c.check(s, (3000.5, 1)))
for i in range(3000): step(i + 0.125)
)");
  EXPECT_EQ(repr(program.eval("all(good), bad")), "(True, 0)");
}

TEST(GuardSet, RunsNoUserCode) {
  Program program(kPrelude);
  program.run(R"(
ran = []
class Odd:
    def __eq__(self, other): ran.append('eq'); return True
    __hash__ = object.__hash__
    def __len__(self): ran.append('len'); return 1
    def __getattr__(self, name): ran.append(name); raise AttributeError(name)
    @property
    def p(self): ran.append('p'); return 1
class Number(float):
    def __eq__(self, other): ran.append('eq'); return True
    __hash__ = float.__hash__
class Meta(type):
    def __eq__(cls, other): ran.append('meta'); return True
    __hash__ = type.__hash__
class WithMeta(metaclass=Meta): pass
def f(o, n): pass
o, n = Odd(), Number(1.5)
o.value, o.number, o.cls = 3, n, WithMeta
c = Capture(f, o, n)
p = c.arg(0).of_type(); p.attr('value').same(); p.attr('number').same(); p.absent('missing')
p.attr('cls').is_()
p.absent('p')
c.arg(1).same()
c.build()
results = [c.check(o, n) for _ in range(4)]
o.value = 4
results.append(c.check(o, n)); results.append(c.why(o, n))
o.value = 3; o.number = Number(1.5)
results.append(c.check(o, n))
)");
  EXPECT_EQ(repr(program.eval("ran")), "[]");
  EXPECT_EQ(repr(program.eval("results")),
            "[True, True, True, True, False, 'o.value: 3 -> 4', False]");
}

TEST(GuardSet, ReentrantCallsAreRefused) {
  Program program(kPrelude);
  program.run(R"(
def f(x): pass
inner = []
def native(): inner.append(c.check(1)) if c.args is None else None; return 5
c = Capture(f, 1)
c.native(native).same()
c.arg(0).same()
c.build()
results = [c.check(1) for _ in range(2)]
)");
  EXPECT_EQ(repr(program.eval("results, inner")), "([True, True], [False, False])");
}

TEST(GuardSet, WithoutGuardsOnlyTheThreadCounts) {
  Program program(kPrelude);
  program.run(R"(
def f(): pass
c = Capture(f).build()
results = [c.check(), c.why(), c.describe()]
with torch.no_grad(): results += [c.check(), c.why()]
)");
  EXPECT_EQ(repr(program.eval("results")), "[True, '', [], False, 'grad mode: on -> off']");
}

TEST(GuardSet, ManyThreads) {
  Program program(kPrelude);
  program.run(kSetup);
  program.run(R"(
import sys, threading
sys.setswitchinterval(1e-6)
errors = []
def work(i):
    mine = Model()
    for n in range(300):
        scale = 2.0 + (n % 3 == i % 3)
        mine.config.scale = scale
        mine.calls = n
        if c.check(mine, x, True, data) and scale != 2.0: errors.append((i, n))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
sys.setswitchinterval(0.005)
)");
  EXPECT_EQ(repr(program.eval("errors, call()")), "([], True)");
}

TEST(GuardSet, InputsNeedTensorGuards) {
  Program program(kPrelude);
  program.run(R"(
def f(x): pass
c = Capture(f, 1)
c.inputs.append(c.arg(0).same().id)
try: c.build()
except RuntimeError as e: error = str(e)
)");
  EXPECT_NE(repr(program.eval("error")).find("graph input argument 0 has no tensor guard"),
            std::string::npos);
}

TEST(GuardSet, PairsOfArguments) {
  Program program(kPrelude);
  program.run(R"(
def f(a, b): pass
t, u = torch.ones(3), torch.ones(3)
c = Capture(f, t, t)
a, b = c.arg(0).tensor(), c.arg(1).tensor()
b.guard('SameObject', None, a)
c.build()
same = [c.check(t, t), c.check(t, u), c.why(t, u)]
base = torch.ones(8)
c = Capture(f, base[:4], base[4:])
a, b = c.arg(0).tensor(), c.arg(1).tensor()
a.guard('DisjointStorage', (0, 4), b)
c.build()
views = [c.check(base[:4], base[4:]), c.check(base[:4], base[2:6]),
         c.why(base[:4], torch.ones(4))]
)");
  EXPECT_EQ(repr(program.eval("same")), "[True, False, 'b: expected the same object as a']");
  EXPECT_EQ(repr(program.eval("views")),
            "[True, False, 'a: expected to share memory, at the same offset, with b']");
}

TEST(GuardSet, DescribesItself) {
  Program program(kPrelude);
  program.run(kSetup);
  const std::string lines = repr(program.eval("'\\n'.join(c.describe())"));
  for (const char* line :
       {"model.training == True", "type(model.first) is class torch.nn.modules.linear.Linear",
        "model.layers[2].weight is like float32[4, 4] with requires_grad", "captured == 5",
        "len(model.sizes) == 3", "model.forward does not exist", "SCALE == 3",
        "other_module.limit == 10", "data['t'] is not data['list'][0]",
        "keys of model.order == ('a', 'b')", "torch.is_grad_enabled() == True"})
    EXPECT_NE(lines.find(line), std::string::npos) << line << " in " << lines;
}

TEST(GuardSet, LeaksNothing) {
  Program program(kPrelude);
  program.run(kSetup);
  program.run(R"(
import sys
def counts(): return [sys.getrefcount(o) for o in
    (model, model.first, model.first.weight, x, Model, Config, function, helper, data, model.sizes)]
def use():
    c = capture(model, x, True, data)
    for _ in range(3): c.check(model, x, True, data)
    model.config.scale = 3.0; c.check(model, x, True, data); c.why(model, x, True, data)
    model.config.scale = 2.0; c.check(model, x, True, data); c.describe()
use(); gc.collect()
before = counts()
for _ in range(20): use()
gc.collect()
after = counts()
)");
  EXPECT_EQ(repr(program.eval("before")), repr(program.eval("after")));
}

}  // namespace
}  // namespace braze::guard::testing
