#include "cpython/code.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "python.h"

namespace braze::cpython {
namespace {

using testing::code_of;
using testing::Program;

std::vector<Opcode> opcodes(const DecodedCode& code) {
  std::vector<Opcode> result;
  for (const Instruction& instruction : code.instructions)
    if (instruction.op != Opcode::kNop) result.push_back(instruction.op);
  return result;
}

bool contains(const DecodedCode& code, Opcode op) {
  const auto ops = opcodes(code);
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

const Instruction& find(const DecodedCode& code, Opcode op) {
  for (const Instruction& instruction : code.instructions)
    if (instruction.op == op) return instruction;
  BRAZE_UNREACHABLE("no ", to_string(op));
}

void for_each_code(PyObject* object, const std::function<void(PyCodeObject*)>& visit) {
  auto code = reinterpret_cast<PyCodeObject*>(object);
  visit(code);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    PyObject* constant = PyTuple_GET_ITEM(code->co_consts, i);
    if (PyCode_Check(constant)) for_each_code(constant, visit);
  }
}

TEST(Decode, IsMemoised) {
  Program program("def f(): return 1");
  PyCodeObject* code = code_of(program.get("f"));
  EXPECT_EQ(&decode(code), &decode(code));
}

TEST(Decode, NamesOpcodes) {
  EXPECT_STREQ(to_string(Opcode::kNop), "Nop");
  EXPECT_STREQ(to_string(Opcode::kUnsupported), "Unsupported");
}

TEST(Decode, LinesAndOffsets) {
  Program program("def f(a):\n  b = a + 1\n  return b.real\n");
  const DecodedCode& code = decode(code_of(program.get("f")));
  int previous = -1;
  for (int i = 0; i < static_cast<int>(code.instructions.size()); ++i) {
    const Instruction& instruction = code.instructions[i];
    EXPECT_GE(instruction.offset, previous);
    previous = instruction.offset;
    if (instruction.enterable) EXPECT_EQ(code.index_of_offset(instruction.offset), i);
    if (instruction.op == Opcode::kBinaryOp) EXPECT_EQ(code.line(i), 2);
    if (instruction.op == Opcode::kLoadAttr) EXPECT_EQ(code.line(i), 3);
  }
}

TEST(Decode, LoopJumpsBackAndPastTheEnd) {
  Program program("def f(xs):\n  s = 0\n  for x in xs: s += x\n  return s\n");
  const DecodedCode& code = decode(code_of(program.get("f")));
  const Instruction& loop = find(code, Opcode::kForIter);
  const Instruction& jump = find(code, Opcode::kJump);
  EXPECT_EQ(&code.instructions[jump.target], &loop);
  EXPECT_EQ(code.instructions[loop.target].op, Opcode::kLoadFast);
  EXPECT_EQ(code.line(loop.target), 4);
}

TEST(Decode, Comparison) {
  Program program("def f(a, b):\n  if a <= b: return 1\n  return a != b\n");
  const DecodedCode& code = decode(code_of(program.get("f")));
  std::vector<int> operators;
  for (const Instruction& instruction : code.instructions)
    if (instruction.op == Opcode::kCompareOp) operators.push_back(instruction.arg & 255);
  EXPECT_EQ(operators, (std::vector<int>{Py_LE, Py_NE}));
}

TEST(Decode, AttributeAndMethodNames) {
  Program program("def f(a): return a.first, a.second(), a.third(k=1)\n");
  const DecodedCode& code = decode(code_of(program.get("f")));
  std::vector<std::string> names;
  for (const Instruction& instruction : code.instructions) {
    if (instruction.op != Opcode::kLoadAttr && instruction.op != Opcode::kLoadMethod) continue;
    names.push_back(PyUnicode_AsUTF8(PyTuple_GET_ITEM(code.code->co_names, instruction.arg)));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"first", "second", "third"}));
  EXPECT_TRUE(contains(code, Opcode::kLoadMethod));
}

TEST(Decode, FirstUnitOfExtendedArguments) {
  std::string source = "def f(x):\n";
  for (int i = 0; i < 300; ++i) source += "  x.a" + std::to_string(i) + "\n";
  source += "  return x.last\n";
  Program program(source.c_str());
  const DecodedCode& code = decode(code_of(program.get("f")));
  int last = -1;
  for (const Instruction& instruction : code.instructions)
    if (instruction.op == Opcode::kLoadAttr) last = instruction.arg;
  EXPECT_EQ(last, 300);
  stack_depths(code);
}

TEST(Decode, HandlersInnermost) {
  Program program(
      "def f(g):\n"
      "  try:\n"
      "    try:\n"
      "      g()\n"
      "    except ValueError:\n"
      "      return 1\n"
      "  except TypeError:\n"
      "    return 2\n"
      "  return g\n");
  const DecodedCode& code = decode(code_of(program.get("f")));
  int call = 0;
  while (code.instructions[call].op != Opcode::kCall) ++call;
  const ExceptionHandler* inner = code.handler(call);
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(code.instructions[inner->target].op, Opcode::kPushExcInfo);
  EXPECT_EQ(inner->depth, 0);
  EXPECT_EQ(code.handler(static_cast<int>(code.instructions.size()) - 1) == inner, false);
  const ExceptionHandler* in_handler = code.handler(inner->target);
  ASSERT_NE(in_handler, nullptr);
  EXPECT_TRUE(in_handler->push_lasti);
}

TEST(Decode, SendEndsInEndSend) {
  Program program("def f(g):\n  x = yield from g\n  return x\n");
  const DecodedCode& code = decode(code_of(program.get("f")));
  const Instruction& send = find(code, Opcode::kSend);
  EXPECT_EQ(code.instructions[send.target].op, Opcode::kEndSend);
  stack_depths(code);
}

TEST(Decode, AsyncIsUnsupported) {
  Program program("async def f(g):\n  async for x in g: pass\n");
  EXPECT_TRUE(contains(decode(code_of(program.get("f"))), Opcode::kUnsupported));
}

TEST(Decode, NoUnsupportedInOrdinaryCode) {
  Program program(
      "def f(a, *b, c=1, **d):\n"
      "  x = [i for i in a if i]; y = {k: v for k, v in d.items()}; z = {*a}\n"
      "  m = f'{a!r:>10} {b} {c!s}'; x[1:2] = x[2:3]; del x[0]; +c; -c; ~c; not c\n"
      "  def g(q=c, *, r: int = 2): nonlocal m; m = q; return m, super, g\n"
      "  with open(a) as h: g(*b, **d)\n"
      "  try: assert a, b\n"
      "  except* ValueError as e: raise e from None\n"
      "  finally: del y\n"
      "  match a:\n"
      "    case [1, *rest]: return rest\n"
      "    case {'k': v, **others}: return v\n"
      "    case str(s): return a < c and b or d\n"
      "  import os.path as p; from os import sep\n"
      "  first, *others = a; global G; G = lambda: (yield)\n"
      "  while a: a = a if b else c\n"
      "  return a is b, a in b, a @ b, a[0], p, sep, 1 < c < 3, g(r=1)\n");
  for_each_code(reinterpret_cast<PyObject*>(code_of(program.get("f"))), [](PyCodeObject* code) {
    const DecodedCode& decoded = decode(code);
    EXPECT_FALSE(contains(decoded, Opcode::kUnsupported));
    stack_depths(decoded);
  });
}

// Depths must agree wherever paths meet, stay within co_stacksize and be 1 at each return.
TEST(StackEffect, HoldsOnTheStandardLibrary) {
  Program program(
      "import ast, argparse, asyncio.events, asyncio.tasks, collections, contextlib, copy\n"
      "import csv, ctypes, dataclasses, datetime, decimal, difflib, dis, email.message, enum\n"
      "import fractions, functools, heapq, inspect, json.decoder, json.encoder, logging\n"
      "import numbers, os, pickle, pprint, random, re, shutil, statistics, string, subprocess\n"
      "import tarfile, tempfile, textwrap, threading, tokenize, traceback, typing, unittest.case\n"
      "import unittest.mock, urllib.parse, uuid, warnings, weakref, xml.dom.minidom, zipfile\n"
      "import sys\n"
      "codes = []\n"
      "for m in list(sys.modules.values()):\n"
      "  file = getattr(m, '__file__', None)\n"
      "  if file and file.endswith('.py'):\n"
      "    with open(file, encoding='utf-8') as f: codes.append(compile(f.read(), file, "
      "'exec'))\n");
  PyObject* codes = program.get("codes");
  ASSERT_GT(PyList_GET_SIZE(codes), 100);
  int count = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(codes); ++i) {
    for_each_code(PyList_GET_ITEM(codes, i), [&](PyCodeObject* code) {
      ++count;
      const DecodedCode& decoded = decode(code);
      const std::vector<int> depths = stack_depths(decoded);
      int reached = 0;
      for (int depth : depths) reached += depth >= 0;
      EXPECT_GT(reached * 10, static_cast<int>(depths.size()) * 8)
          << PyUnicode_AsUTF8(code->co_qualname);
      for (const ExceptionHandler& handler : decoded.handlers) {
        EXPECT_LT(handler.start, handler.end);
        EXPECT_LT(handler.target, static_cast<int>(depths.size()));
      }
    });
  }
  EXPECT_GT(count, 5000);
  ::testing::Test::RecordProperty("codes", count);
}

TEST(StackEffect, WrongDecodingIsReported) {
  Program program("def broken(a): return a + 1");
  DecodedCode code = decode(code_of(program.get("broken")));
  for (Instruction& instruction : code.instructions)
    if (instruction.op == Opcode::kLoadConst) instruction.op = Opcode::kNop;
  try {
    stack_depths(code);
    FAIL() << "not noticed";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("in broken at instruction"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace braze::cpython
