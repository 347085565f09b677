#include "capture/breaks/catalogue.h"

#include "base/error.h"

namespace braze::capture {

namespace {

struct Example {
  BreakKind kind;
  const char* script;  // `torch` and `braze` are imported
};

constexpr Example kExamples[] = {
    {BreakKind::kDataDependent, R"(
def f(x):
    if x.sum() > 0:
        return x
    return -x

f(torch.ones(3))
)"},
    {BreakKind::kDataDependentSize, R"(
def f(x):
    return torch.nonzero(x) + 1

f(torch.ones(3))
)"},
    {BreakKind::kTensorAsText, R"(
def f(x):
    return f"mean: {x.mean()}"

f(torch.ones(3))
)"},
    {BreakKind::kControlFlow, R"(
def f(x):
    return torch.cond(x.sum() > 0, lambda y: y[:2] + 1, lambda y: y - 1, (x,))

f(torch.ones(3))
)"},
    {BreakKind::kUntraceableOp, R"(
def f(x):
    torch.manual_seed(0)
    return x + torch.rand(3)

f(torch.ones(3))
)"},
    {BreakKind::kUnsupportedTensor, R"(
def f(x):
    return x * 2

f(torch.eye(3).to_sparse())
)"},
    {BreakKind::kTensorInternals, R"(
def f(x):
    return x.data_ptr() % 64 == 0

f(torch.ones(3))
)"},
    {BreakKind::kAutograd, R"(
def f(x):
    return x.view(-1)

with torch.enable_grad():
    f(torch.ones(2, 3, requires_grad=True))
)"},
    {BreakKind::kTorchState, R"(
def f(x):
    torch.autocast("cpu", dtype=torch.bfloat16).__enter__()
    return x * 2

f(torch.ones(3))
)"},
    {BreakKind::kSideEffect, R"(
class Model:
    pass

def f(x):
    Model.calls = 1
    return x * 2

f(torch.ones(3))
)"},
    {BreakKind::kOutsideIterator, R"(
batches = iter([1, 2, 3])

def f(x):
    return x * next(batches)

f(torch.ones(3))
)"},
    {BreakKind::kOutsideException, R"(
too_large = ValueError("too large")

def f(x):
    try:
        raise too_large
    except ValueError:
        return x * 2

f(torch.ones(3))
)"},
    {BreakKind::kContextVariable, R"(
import contextvars

step = contextvars.ContextVar("step", default=0)

def f(x):
    step.set(1)
    return x * 2

f(torch.ones(3))
)"},
    {BreakKind::kPendingChange, R"(
rows = [[1], [2]]

def f(x):
    rows[0].append(3)
    return x * sum(map(len, rows))

f(torch.ones(3))
)"},
    {BreakKind::kNativeCall, R"(
import os

def f(x):
    return x * len(os.listdir("."))

f(torch.ones(3))
)"},
    {BreakKind::kNativeObject, R"(
import threading

settings = threading.local()
settings.scale = 2

def f(x):
    return x * settings.scale

f(torch.ones(3))
)"},
    {BreakKind::kNumpy, R"(
import numpy

weights = numpy.array([1.0, 2.0, 3.0])

def f(x):
    return x * numpy.median(weights)

f(torch.ones(3))
)"},
    {BreakKind::kOutput, R"(
class Lines:
    def write(self, text):
        self.last = text

lines = Lines()

def f(x):
    print("in f", file=lines)
    return x * 2

f(torch.ones(3))
)"},
    {BreakKind::kInput, R"(
import os

def f(x):
    with open(os.devnull) as file:
        return x * len(file.read())

f(torch.ones(3))
)"},
    {BreakKind::kDebugger, R"(
def f(x, debug=True):
    y = x * 2
    if debug:
        breakpoint()
    return y

f(torch.ones(3))
)"},
    {BreakKind::kLogging, R"(
import logging

log = logging.getLogger("model")

def f(x):
    y = x * 2
    log.info("result %s", y)
    return y

f(torch.ones(3))
)"},
    {BreakKind::kUnsupportedBytecode, R"(
def f(x):
    y = x * 2
    try:
        try:
            raise ExceptionGroup("several", [ValueError("one")])
        except* ValueError:
            raise KeyError("another")
    except Exception:
        return y + 1

f(torch.ones(3))
)"},
    {BreakKind::kClassStatement, R"(
def f(x):
    class Scale:
        factor = 2
    return x * Scale.factor, Scale

f(torch.ones(3))
)"},
    {BreakKind::kRuntimeCode, R"(
def f(x):
    return eval("x * 2")

f(torch.ones(3))
)"},
    {BreakKind::kIntrospection, R"(
def f(x):
    y = x * 2
    return locals()["y"]

f(torch.ones(3))
)"},
    {BreakKind::kImport, R"(
def f(x):
    json = __import__("json")
    return x * len(json.dumps([1]))

f(torch.ones(3))
)"},
    {BreakKind::kSuspends, R"(
def f(x):
    for k in range(3):
        yield x * k

list(f(torch.ones(3)))
)"},
    {BreakKind::kRecursion, R"(
import sys

def power(x, n):
    return x if n == 0 else power(x, n - 1) * 1.001

def f(x):
    return power(x, 1000)

sys.setrecursionlimit(5000)

f(torch.ones(3))
)"},
    {BreakKind::kAddress, R"(
class Token:
    pass

token = Token()

def f(x):
    return f"{token}", x * 2

f(torch.ones(3))
)"},
    {BreakKind::kMapping, R"(
import types

options = types.MappingProxyType({"alpha": 2})

def f(x):
    return torch.add(x, x, **options)

f(torch.ones(3))
)"},
    {BreakKind::kResult, R"(
def f(x):
    return x * 2, hash(x)

f(torch.ones(3))
)"},
    {BreakKind::kDisabled, R"(
@braze.disable
def helper(x):
    return x + 1

def f(x):
    return helper(x * 2)

f(torch.ones(3))
)"},
    {BreakKind::kGraphBreak, R"(
def f(x):
    y = x * 2
    braze.graph_break("here the second half begins")
    return y + 1

f(torch.ones(3))
)"},
    {BreakKind::kException, R"(
def f(x):
    def steps():
        yield x
        raise ValueError("no second step")

    return [y + 1 for y in steps()]

f(torch.ones(3))
)"},
    {BreakKind::kTraceback, R"(
def f(x):
    try:
        return x * {}["scale"]
    except KeyError as error:
        return x, error.__traceback__.tb_lineno

f(torch.ones(3))
)"},
    {BreakKind::kUnsupported, R"(
def f(table, x):
    return x * sum(len(k.shape) for k in table)

f({torch.ones(2): 2}, torch.ones(3))
)"},
    {BreakKind::kTorchMode, R"(
def f(x):
    return x + torch.ones(3)

with torch.device("cpu"):
    f(torch.ones(3))
)"},
    {BreakKind::kTraceBudget, ""},  // ten seconds of Python
    {BreakKind::kInternal, ""},     // a defect: none is known
};

constexpr const char* example_of(BreakKind kind) {
  for (const Example& example : kExamples)
    if (example.kind == kind) return example.script;
  return nullptr;
}

constexpr BreakWords kBreaks[] = {
#define X(id, number, why, way_out) \
  {BreakKind::k##id, #id, number, why, way_out, example_of(BreakKind::k##id)},
    BRAZE_BREAK_KINDS(X)
#undef X
};

constexpr bool each_has_its_example() {
  for (const BreakWords& words : kBreaks)
    if (!words.example) return false;
  return std::size(kBreaks) == std::size(kExamples);
}
static_assert(each_has_its_example());

constexpr ErrorWords kErrors[] = {
    {"E101", "TypeError", "what is given to braze.compile cannot be called",
     "give it a function, a method, a callable object, a class or a module", R"(
braze.compile(3)
)"},
    {"E102", "ValueError", "there is no backend of that name",
     "use \"braze\", \"aten\", \"eager\" or a callable", R"(
braze.compile(torch.sin, backend="fastest")
)"},
    {"E103", "TypeError", "a backend is a name or a callable",
     "give it (gm, example_inputs) -> callable", R"(
braze.compile(torch.sin, backend=3)
)"},
    {"E104", "ValueError", "there is no mode of that name", "leave mode out", R"(
braze.compile(torch.sin, mode="fastest")
)"},
    {"E105", "ValueError", "there is no option of that name",
     "use one of those that the message names",
     R"(
braze.compile(torch.sin, options={"triton.cudagraphs": True})
)"},
    {"E106", "ValueError", "the recompile_limit is no positive integer", "use 1 or more", R"(
braze.compile(torch.sin, recompile_limit=0)
)"},
    {"E107", "TypeError", "a switch is neither True nor False", "use True or False", R"(
braze.compile(torch.sin, fullgraph="yes")
)"},
    {"E108", "ValueError", "the value of dynamic is none that it can have",
     "use None, True or False", R"(
braze.compile(torch.sin, dynamic="sizes")
)"},
    {"E109", "TypeError",
     "a mark of functions, such as braze.disable, is given something that cannot be called",
     "use it on a function, method or module", R"(
braze.disable(3)
)"},
    {"E110", "ValueError", "there is no stance of that name",
     "use one of those that the message names",
     R"(
braze.set_stance("fast")
)"},
    {"E111", "RuntimeError", "a call would compile under the stance \"fail_on_recompile\"",
     "call it with what it has been compiled for, or choose another stance", R"(
def f(x):
    return x * 2

with braze.set_stance("fail_on_recompile"):
    braze.compile(f)(torch.ones(3))
)"},
    {"E112", "TypeError", "a backend returned something that cannot be called",
     "return a callable that takes the graph's inputs and returns a tuple of tensors", R"(
def f(x):
    return x * 2

braze.compile(f, backend=lambda gm, example_inputs: None)(torch.ones(3))
)"},
    {"E113", "GraphBreakError", "with fullgraph=True, something cannot be captured",
     "take the way out that the break names, or leave fullgraph out", R"(
def f(x):
    return x * 2 if x.sum() > 0 else x

braze.compile(f, fullgraph=True)(torch.ones(3))
)"},
    {"E114", "TypeError", "the options are no dict", "use {name: value}", R"(
braze.compile(torch.sin, options="capture_scalar_outputs")
)"},
    {"E115", "TypeError", "what a backend has returned gives something else than the graph",
     "return a tuple of as many tensors as the graph has outputs, also for a single one", R"(
def f(x):
    return x * 2

braze.compile(f, backend=lambda gm, example_inputs: lambda x: x * 2)(torch.ones(3))
)"},
    {"E116", "ValueError", "random numbers come from no such source",
     "use one of the words that the message lists", R"(
braze.compile(torch.rand, options={"rng": "philox"})
)"},
    {"E117", "ValueError", "an option that is a number of bytes is something else",
     "give an integer of 0 or more, or leave the option out", R"(
braze.compile(torch.relu, options={"activation_memory": 0.5})
)"},
    {"E118", "ValueError", "kernels on GPUs are not written in such a language",
     "use one of the words that the message lists", R"(
braze.compile(torch.relu, options={"gpu_codegen": "ptx"})
)"},
};

}  // namespace

std::span<const BreakWords> break_catalogue() { return kBreaks; }
std::span<const ErrorWords> error_catalogue() { return kErrors; }

const BreakWords& words_of(BreakKind kind) { return kBreaks[static_cast<size_t>(kind)]; }
const char* number_of(BreakKind kind) { return words_of(kind).number; }

}  // namespace braze::capture
