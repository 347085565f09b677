// Programs for tests: built as the lowering builds them, run by the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "loop/program.h"
#include "loop/run_program.h"
#include "schedule/aliases.h"
#include "schedule/schedule.h"

namespace braze::schedule {

using loop::ExprKind;
using loop::ExprRef;

using Shape = std::vector<int64_t>;

class ProgramBuilder {
 public:
  loop::Program program;

  loop::ExprPool& pool() { return program.pool; }

  int buffer(loop::Buffer::Kind kind, const Shape& sizes) {
    loop::Buffer buffer{.kind = kind};
    for (int64_t size : sizes) buffer.type.sizes.push_back(size);
    buffer.type.strides = sym::contiguous_strides(buffer.type.sizes);
    if (kind == loop::Buffer::Kind::kInput) buffer.input = inputs_++;
    program.buffers.push_back(buffer);
    return static_cast<int>(program.buffers.size()) - 1;
  }
  int input(const Shape& sizes) { return buffer(loop::Buffer::Kind::kInput, sizes); }

  int view(int base, const Shape& sizes, int64_t offset) {
    if (program.buffers[base].kind == loop::Buffer::Kind::kView) {
      offset += program.buffers[base].view_offset.constant();
      base = program.buffers[base].base;
    }
    int result = buffer(loop::Buffer::Kind::kView, sizes);
    program.buffers[result].base = base;
    program.buffers[result].view_offset = offset;
    return result;
  }

  // A kernel under construction over these axes.
  struct KernelDraft {
    ProgramBuilder& builder;
    loop::Kernel kernel;

    ExprRef axis(int number) {
      const auto& outer = kernel.outer;
      const loop::Axis& axis = number < static_cast<int>(outer.size())
                                   ? outer[number]
                                   : kernel.inner[number - outer.size()];
      return builder.pool().axis(number, axis.extent.constant());
    }
    int param(int buffer, bool written) {
      for (size_t i = 0; i < kernel.params.size(); ++i) {
        if (kernel.params[i].buffer == buffer) return static_cast<int>(i);
      }
      kernel.params.push_back(
          {.dtype = graph::DType::kFloat32, .written = written, .buffer = buffer});
      return static_cast<int>(kernel.params.size()) - 1;
    }
    // The element of the buffer at these axes, aligned to the right as broadcasting does.
    ExprRef index(int buffer, const std::vector<ExprRef>& axes) {
      const graph::TensorType& type = builder.program.buffers[buffer].type;
      ExprRef sum = builder.pool().integer(0);
      size_t skip = axes.size() - type.sizes.size();
      for (size_t i = 0; i < type.sizes.size(); ++i) {
        if (type.sizes[i] == sym::Int(1)) continue;
        ExprRef term = builder.pool().mul(axes[skip + i], type.strides[i].constant());
        sum = builder.pool().add(sum, term);
      }
      return sum;
    }
    ExprRef load(int buffer, const std::vector<ExprRef>& axes) {
      return builder.pool().load(param(buffer, false), graph::DType::kFloat32, index(buffer, axes));
    }
    void store(int buffer, const std::vector<ExprRef>& axes, ExprRef value, bool inner) {
      kernel.body.push_back({.kind = loop::Statement::Kind::kStore,
                             .inner = inner,
                             .buffer = param(buffer, true),
                             .index = index(buffer, axes),
                             .value = value});
    }
    ExprRef reduce(loop::ReduceOp op, ExprRef value) {
      int number = 0;
      for (const auto& s : kernel.body) number += !s.is_store();
      kernel.body.push_back({.kind = loop::Statement::Kind::kReduce,
                             .inner = true,
                             .op = op,
                             .reduced = number,
                             .accumulate = graph::DType::kFloat32,
                             .value = value});
      return builder.pool().reduced(number, graph::DType::kFloat32);
    }
    // The running sum of `value`.
    ExprRef scan(ExprRef value) {
      int number = 0;
      for (const auto& s : kernel.body) number += !s.is_store();
      ExprRef before = builder.pool().scanned_before(number, graph::DType::kFloat32);
      kernel.body.push_back({.kind = loop::Statement::Kind::kScan,
                             .inner = true,
                             .reduced = number,
                             .accumulate = graph::DType::kFloat32,
                             .initial = builder.pool().constant(graph::DType::kFloat32, 0),
                             .value = builder.pool().add(before, value)});
      return builder.pool().scanned(number, graph::DType::kFloat32);
    }
    ExprRef scan(loop::ScanOp op, ExprRef value) {
      int number = 0;
      for (const auto& s : kernel.body) number += !s.is_store();
      kernel.body.push_back({.kind = loop::Statement::Kind::kScan,
                             .inner = true,
                             .reduced = number,
                             .accumulate = value->dtype,
                             .scan = op,
                             .value = value});
      return builder.pool().scanned(number, value->dtype);
    }
    std::vector<ExprRef> outer_axes() {
      std::vector<ExprRef> axes;
      for (size_t i = 0; i < kernel.outer.size(); ++i) axes.push_back(axis(static_cast<int>(i)));
      return axes;
    }
    std::vector<ExprRef> all_axes() {
      std::vector<ExprRef> axes = outer_axes();
      for (size_t i = 0; i < kernel.inner.size(); ++i) {
        axes.push_back(axis(static_cast<int>(kernel.outer.size() + i)));
      }
      return axes;
    }
    void finish() { builder.program.items.push_back(loop::ScheduledKernel{std::move(kernel)}); }
  };

  KernelDraft draft(const std::string& name, const Shape& outer, const Shape& inner = {}) {
    KernelDraft draft{*this, {.name = "fused_" + name}};
    for (int64_t extent : outer) draft.kernel.outer.push_back({extent});
    for (int64_t extent : inner) draft.kernel.inner.push_back({extent});
    return draft;
  }

  // out[...] = op(a[...], b[...]) with broadcasting.
  int pointwise(const std::string& name, const Shape& sizes, const std::vector<int>& operands,
                ExprKind op) {
    KernelDraft k = draft(name, sizes);
    ExprRef value = k.load(operands[0], k.all_axes());
    for (size_t i = 1; i < operands.size(); ++i) {
      value = pool().binary(op, value, k.load(operands[i], k.all_axes()));
    }
    if (operands.size() == 1) value = pool().unary(op, value);
    int result = buffer(loop::Buffer::Kind::kComputed, sizes);
    k.store(result, k.all_axes(), value, false);
    k.finish();
    return result;
  }
  int add(const Shape& sizes, int a, int b) {
    return pointwise("add", sizes, {a, b}, ExprKind::kAdd);
  }
  int sub(const Shape& sizes, int a, int b) {
    return pointwise("sub", sizes, {a, b}, ExprKind::kSub);
  }
  int mul(const Shape& sizes, int a, int b) {
    return pointwise("mul", sizes, {a, b}, ExprKind::kMul);
  }
  int unary(const Shape& sizes, int a, ExprKind op) {
    return pointwise(std::string(loop::to_string(op)), sizes, {a}, op);
  }

  int copy(const Shape& sizes, int a) {
    KernelDraft k = draft("copy", sizes);
    const int result = buffer(loop::Buffer::Kind::kComputed, sizes);
    const ExprRef value = k.load(a, k.all_axes());
    k.store(result, k.all_axes(), value, false);
    k.finish();
    return result;
  }

  // Reduces the axes from `first` on; keeps them with size 1.
  int reduce(const Shape& sizes, size_t first, int operand, loop::ReduceOp op) {
    Shape outer(sizes.begin(), sizes.begin() + first), inner(sizes.begin() + first, sizes.end());
    KernelDraft k = draft(std::string(loop::to_string(op)), outer, inner);
    ExprRef reduced = k.reduce(op, k.load(operand, k.all_axes()));
    Shape kept = outer;
    kept.resize(sizes.size(), 1);
    int result = buffer(loop::Buffer::Kind::kComputed, kept);
    k.store(result, k.all_axes(), reduced, false);
    k.finish();
    return result;
  }

  // The running sum over the axes from `first` on, in row-major order.
  int scan(const Shape& sizes, size_t first, int operand) {
    Shape outer(sizes.begin(), sizes.begin() + first), inner(sizes.begin() + first, sizes.end());
    KernelDraft k = draft("scan", outer, inner);
    ExprRef running = k.scan(k.load(operand, k.all_axes()));
    int result = buffer(loop::Buffer::Kind::kComputed, sizes);
    k.store(result, k.all_axes(), running, true);
    k.finish();
    return result;
  }

  // Along one dim, by an operation with parts.
  int scan_along(const Shape& sizes, size_t dim, int operand, loop::ScanOp op) {
    Shape outer = sizes;
    outer.erase(outer.begin() + static_cast<ptrdiff_t>(dim));
    KernelDraft k = draft("scan", outer, {sizes[dim]});
    std::vector<ExprRef> index = k.outer_axes();
    index.insert(index.begin() + static_cast<ptrdiff_t>(dim),
                 k.axis(static_cast<int>(outer.size())));
    ExprRef running = k.scan(op, k.load(operand, index));
    int result = buffer(loop::Buffer::Kind::kComputed, sizes);
    k.store(result, index, running, true);
    k.finish();
    return result;
  }

  int flip(const Shape& sizes, size_t dim, int operand) {
    KernelDraft k = draft("flip", sizes);
    std::vector<ExprRef> index = k.all_axes();
    index[dim] = pool().add(pool().mul(index[dim], sym::Int(-1)), pool().integer(sizes[dim] - 1));
    int result = buffer(loop::Buffer::Kind::kComputed, sizes);
    k.store(result, k.all_axes(), k.load(operand, index), false);
    k.finish();
    return result;
  }

  // target[i % n, j] += source[i, j], or what `op` says, where the target [n, columns] is copied
  // first.
  int scatter(const Shape& target_sizes, int target, const Shape& source_sizes, int source,
              loop::StoreOp op = loop::StoreOp::kAdd) {
    KernelDraft copy = draft("copy", target_sizes);
    int result = buffer(loop::Buffer::Kind::kComputed, target_sizes);
    copy.store(result, copy.all_axes(), copy.load(target, copy.all_axes()), false);
    copy.finish();
    KernelDraft k = draft("scatter", {target_sizes[1]}, {source_sizes[0]});
    ExprRef row = pool().binary(ExprKind::kMod, k.axis(1), pool().integer(target_sizes[0]));
    ExprRef value = k.load(source, {k.axis(1), k.axis(0)});
    k.store(result, {row, k.axis(0)}, value, true);
    k.kernel.body.back().store = op;
    k.finish();
    return result;
  }

  int call(const std::string& op, const std::vector<int>& operands, const Shape& sizes,
           graph::Effects effects = {}) {
    loop::ExternCall call{.op = op, .effects = effects};
    for (int operand : operands) call.args.push_back(operand);
    int result = buffer(loop::Buffer::Kind::kExtern, sizes);
    call.results = {result};
    program.items.push_back(call);
    return result;
  }

 private:
  int inputs_ = 0;
};

using loop::kernel_count;

// A copy for running the unfused program later: buffers and items share the pool's expressions, so
// `program` must outlive it.
struct Snapshot {
  std::vector<loop::Buffer> buffers;
  std::vector<loop::Item> items;
  std::vector<int> outputs;
  std::vector<std::pair<int, int>> mutations;

  explicit Snapshot(const loop::Program& p)
      : buffers(p.buffers), items(p.items), outputs(p.outputs), mutations(p.mutations) {}
};

// Runs items on memory of their own for each root buffer, or in an arena as planned.
class Runner {
 public:
  Runner(const loop::Program& program, const Snapshot& items, const MemoryPlan* memory)
      : items_(items), aliases_(program), address_(items.buffers.size(), nullptr) {
    if (memory != nullptr) arena_.assign(memory->arena_bytes, 0x7b);
    for (size_t i = 0; i < items.buffers.size(); ++i) {
      const loop::Buffer& buffer = items.buffers[i];
      if (buffer.kind == loop::Buffer::Kind::kView) continue;
      bool in_arena = memory != nullptr && memory->home[i] == Home::kArena;
      own_.emplace_back(bytes_of(buffer) / 4 + 1, std::nanf(""));
      address_[i] = in_arena ? arena_.data() + memory->offset[i]
                             : reinterpret_cast<unsigned char*>(own_.back().data());
    }
    if (memory != nullptr)
      for (size_t i = 0; i < items.buffers.size(); ++i)
        if (memory->home[i] == Home::kOwn) address_[i] = address_[memory->place[i]];
    for (size_t i = 0; i < items.buffers.size(); ++i) set_view_address(static_cast<int>(i));
  }

  // Fills the inputs from `seed`, runs, and gives the values of outputs and mutation sources.
  std::vector<float> run(uint32_t seed) {
    std::mt19937 random(seed);
    for (size_t i = 0; i < items_.buffers.size(); ++i) {
      if (items_.buffers[i].kind != loop::Buffer::Kind::kInput) continue;
      for (float& x : elements(static_cast<int>(i))) x = static_cast<float>(random() % 17) / 8 - 1;
    }
    for (const loop::Item& item : items_.items) {
      if (const auto* k = std::get_if<loop::ScheduledKernel>(&item)) {
        run_kernel(k->kernel);
      } else {
        run_call(std::get<loop::ExternCall>(item));
      }
    }
    std::vector<float> values;
    auto append = [&](int buffer) {
      for (float x : elements(buffer)) values.push_back(x);
    };
    for (int output : items_.outputs) append(output);
    for (const auto& [target, source] : items_.mutations) append(source);
    return values;
  }

 private:
  void set_view_address(int i) {
    const loop::Buffer& buffer = items_.buffers[i];
    if (buffer.kind != loop::Buffer::Kind::kView) return;
    set_view_address(buffer.base);
    address_[i] = address_[buffer.base] + 4 * buffer.view_offset.constant();
  }

  std::span<float> elements(int buffer) {
    return {reinterpret_cast<float*>(address_[buffer]),
            static_cast<size_t>(bytes_of(items_.buffers[buffer]) / 4)};
  }

  void run_kernel(const loop::Kernel& kernel) {
    loop::verify(kernel);
    std::vector<void*> params;
    for (const loop::BufferParam& param : kernel.params) params.push_back(address_[param.buffer]);
    ASSERT_TRUE(loop::interpret(kernel, params));
  }

  // Some function of all operands' elements that differs from op to op. A view is the operand.
  void run_call(const loop::ExternCall& call) {
    int result = call.results.at(0);
    if (call.effects.aliased_argument(0) >= 0) {
      address_[result] = address_[std::get<int>(call.args.at(call.effects.aliased_argument(0)))];
      for (size_t i = 0; i < items_.buffers.size(); ++i) set_view_address(static_cast<int>(i));
      return;
    }
    std::vector<float> value(elements(result).size(), static_cast<float>(call.op.size()));
    for (size_t a = 0; a < call.args.size(); ++a) {
      std::span<float> operand = elements(std::get<int>(call.args[a]));
      for (size_t i = 0; i < value.size() && !operand.empty(); ++i) {
        value[i] = value[i] / 2 + operand[(i * (a + 1)) % operand.size()];
      }
    }
    std::copy(value.begin(), value.end(), elements(result).begin());
  }

  const Snapshot& items_;
  Aliases aliases_;
  std::vector<unsigned char*> address_;
  std::vector<std::vector<float>> own_;
  std::vector<unsigned char> arena_;
};

// The values of the program are the same before and after `change`, with memory of its own and in
// the planned arena.
template <class Change>
void compare(loop::Program& program, const target::Target& target, uint32_t seed, Change change) {
  Snapshot before(program);
  std::vector<float> expected = Runner(program, before, nullptr).run(seed);
  change();
  loop::verify(program);
  Snapshot after(program);
  const MemoryPlan memory = plan_memory(program, target);
  const MemoryPlan by_need = plan_memory(program, target, /*own_above=*/64);
  for (const MemoryPlan* plan : {static_cast<const MemoryPlan*>(nullptr), &memory, &by_need}) {
    std::vector<float> got = Runner(program, after, plan).run(seed);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      bool both_nan = std::isnan(got[i]) && std::isnan(expected[i]);
      ASSERT_TRUE(both_nan || got[i] == expected[i] ||
                  std::abs(got[i] - expected[i]) <= 1e-4f * (1 + std::abs(expected[i])))
          << "element " << i << ": " << got[i] << ", not " << expected[i]
          << (plan == &memory ? " in the arena"
              : plan          ? " with memory by need"
                              : "")
          << "\n"
          << loop::to_string(program);
    }
  }
}

inline void fuse_and_compare(loop::Program& program, const target::Target& target = {},
                             uint32_t seed = 1) {
  compare(program, target, seed, [&] { fuse(program, target); });
}

}  // namespace braze::schedule
