#include <random>

#include "cpython/frame.h"
#include "python.h"

namespace braze::cpython {
namespace {

using testing::code_of;
using testing::Program;
using testing::repr;
using testing::take_exception;

struct Call {
  std::vector<Ref> values;
  Ref names;
  size_t positional = 0;

  std::vector<PyObject*> raw() const {
    std::vector<PyObject*> result;
    for (const Ref& value : values) result.push_back(value.get());
    return result;
  }
};

// What our binding gives, as text; "no fit" where it declines.
std::string bind(PyObject* function, const Call& call) {
  PyCodeObject* code = code_of(function);
  std::vector<PyObject*> bound(parameter_count(code));
  std::vector<Ref> keep;
  const std::vector<PyObject*> args = call.raw();
  const bool fits = bind_arguments(reinterpret_cast<PyFunctionObject*>(function), args.data(),
                                   call.positional, call.names.get(), bound.data(), keep);
  EXPECT_EQ(PyErr_Occurred(), nullptr);
  if (!fits) return "no fit";
  std::string text;
  for (PyObject* object : bound) text += repr(object) + " ";
  return text;
}

// What CPython binds: each function returns its locals in order.
std::string bound_call(PyObject* function, const Call& call) {
  const std::vector<PyObject*> args = call.raw();
  const Ref result =
      Ref::steal(PyObject_Vectorcall(function, args.data(), call.positional, call.names.get()));
  if (!result) {
    EXPECT_TRUE(PyErr_ExceptionMatches(PyExc_TypeError));
    PyErr_Clear();
    return "no fit";
  }
  std::string text;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result.get()); ++i)
    text += repr(PyTuple_GET_ITEM(result.get(), i)) + " ";
  return text;
}

TEST(BindArguments, AgreesWithCPython) {
  Program program(R"(
import itertools
functions = []
for po, pos, kwo in itertools.product(range(3), range(3), range(3)):
    for defaults, kwdefaults, star, double in itertools.product(range(3), range(3), (0, 1), (0, 1)):
        if defaults > po + pos or kwdefaults > kwo: continue
        names = 'abcd'[:po + pos]
        parts = [n + ('=%r' % ('d' + n) if i >= po + pos - defaults else '') for i, n in enumerate(names)]
        if po: parts.insert(po, '/')
        if star: parts.append('*args')
        elif kwo: parts.append('*')
        kws = 'xyz'[:kwo]
        parts += [n + ('=%r' % ('d' + n) if i >= kwo - kwdefaults else '') for i, n in enumerate(kws)]
        if double: parts.append('**kwargs')
        order = list(names) + list(kws) + ['args'] * star + ['kwargs'] * double
        source = 'def f(%s): return (%s)' % (', '.join(parts), ''.join(n + ', ' for n in order))
        space = {}
        exec(source, space)
        functions.append(space['f'])
)");
  PyObject* functions = program.get("functions");
  const char* const names[] = {"a", "b", "c", "d", "x", "y", "z", "other"};
  std::mt19937 random(20240501);
  int fits = 0, total = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(functions); ++i) {
    PyObject* function = PyList_GET_ITEM(functions, i);
    for (int round = 0; round < 40; ++round) {
      Call c;
      c.positional = random() % 5;
      std::vector<const char*> keywords;
      for (const char* name : names)
        if (random() % 4 == 0) keywords.push_back(name);
      for (size_t k = 0; k < c.positional + keywords.size(); ++k)
        c.values.push_back(Ref::steal(PyLong_FromLong(static_cast<long>(k) + 1)));
      if (!keywords.empty()) {
        c.names = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(keywords.size())));
        for (size_t k = 0; k < keywords.size(); ++k)  // half of them not interned
          PyTuple_SET_ITEM(c.names.get(), static_cast<Py_ssize_t>(k),
                           random() % 2 ? PyUnicode_InternFromString(keywords[k])
                                        : PyUnicode_FromString(keywords[k]));
      }
      const std::string expected = bound_call(function, c);
      ASSERT_EQ(bind(function, c), expected)
          << repr(reinterpret_cast<PyObject*>(code_of(function)));
      fits += expected != "no fit";
      ++total;
    }
  }
  EXPECT_GT(fits, total / 20);
  EXPECT_LT(fits, total);
}

TEST(BindArguments, LeavesOddKeywordsToCPython) {
  Program program(
      "class S(str):\n"
      "  def __eq__(self, other): raise SystemExit('user code ran')\n"
      "  __hash__ = str.__hash__\n"
      "names = (S('x'),)\n"
      "def f(x): return x\n");
  Call c;
  c.values.push_back(program.eval("1"));
  c.names = Ref::borrow(program.get("names"));
  EXPECT_EQ(bind(program.get("f"), c), "no fit");
}

TEST(BindArguments, CountsParameters) {
  Program program("def f(a, /, b, *c, d, **e): f = 1\n");
  EXPECT_EQ(parameter_count(code_of(program.get("f"))), 5);
}

TEST(BindArguments, KeepsReferenceCounts) {
  Program program("def f(a, *c, d, **e): pass\n");
  Call c;
  const Ref value = program.eval("object()");
  for (int i = 0; i < 4; ++i) c.values.push_back(value);
  c.names = program.eval("('d', 'other')");
  c.positional = 2;
  const Py_ssize_t before = Py_REFCNT(value.get());
  for (int i = 0; i < 100000; ++i) {
    std::vector<PyObject*> bound(4), args = c.raw();
    std::vector<Ref> keep;
    ASSERT_TRUE(bind_arguments(reinterpret_cast<PyFunctionObject*>(program.get("f")), args.data(),
                               c.positional, c.names.get(), bound.data(), keep));
  }
  EXPECT_EQ(Py_REFCNT(value.get()), before);
}

}  // namespace
}  // namespace braze::cpython
