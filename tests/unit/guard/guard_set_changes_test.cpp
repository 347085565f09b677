// Every kind of change that compiled code relies on not happening: one setup, one change each.
#include <gtest/gtest.h>

#include <string>

#include "cpython/python.h"
#include "guard_module.h"
#include "guarded_model.h"

namespace braze::guard::testing {
namespace {

using cpython::testing::Program;
using cpython::testing::repr;

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
    {"set", "model.names.add('z')", false, "model.names: its members or their order have changed"},
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

}  // namespace
}  // namespace braze::guard::testing
