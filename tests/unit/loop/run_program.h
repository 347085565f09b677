// Runs lowered graphs by the reference interpreter, on numbers given and returned in row-major
// order of the logical elements.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "loop/program.h"
#include "loop/scalar.h"

namespace braze::loop {

using Numbers = std::vector<double>;

inline constexpr double kInf = std::numeric_limits<double>::infinity();

class ProgramRunner {
 public:
  explicit ProgramRunner(const Program& program) : program_(program) {
    verify(program);
    memory_.resize(program.buffers.size());
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& buffer = program.buffers[i];
      if (buffer.kind == Buffer::Kind::kView) continue;
      memory_[i].assign((extent(buffer.type) + 1) * graph::size_of(buffer.type.dtype), '\x5a');
    }
  }

  // Extern calls are left out unless a function takes them.
  std::function<void(ProgramRunner&, const ExternCall&)> on_extern;

  // The outputs, or nothing where an index check failed.
  std::optional<std::vector<Numbers>> run(const std::vector<Numbers>& inputs) {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (buffer.kind == Buffer::Kind::kInput) write(static_cast<int>(i), inputs.at(buffer.input));
    }
    for (const Item& item : program_.items) {
      if (auto* call = std::get_if<ExternCall>(&item)) {
        if (on_extern) on_extern(*this, *call);
        continue;
      }
      const Kernel& kernel = std::get<ScheduledKernel>(item).kernel;
      std::vector<void*> params;
      for (const BufferParam& param : kernel.params) params.push_back(address(param.buffer));
      if (!interpret(kernel, params)) return std::nullopt;
    }
    std::vector<Numbers> outputs;
    for (int output : program_.outputs) outputs.push_back(read(output));
    for (auto [target, source] : program_.mutations) write(target, read(source));
    return outputs;
  }

  Numbers read(int buffer) {
    Numbers numbers;
    const DType dtype = program_.buffers[buffer].type.dtype;
    for_each(buffer, [&](int64_t offset) {
      Scalar value = load(dtype, address(buffer), offset);
      numbers.push_back(graph::is_float(dtype) ? value.f : static_cast<double>(value.i));
    });
    return numbers;
  }

  void write(int buffer, const Numbers& numbers) {
    size_t next = 0;
    const DType dtype = program_.buffers[buffer].type.dtype;
    for_each(buffer, [&](int64_t offset) {
      double value = numbers.at(next++);
      store(dtype, address(buffer), offset,
            {graph::is_float(dtype) ? 0 : static_cast<int64_t>(value), value});
    });
    EXPECT_EQ(next, numbers.size()) << "numbers for %" << buffer;
  }

 private:
  static int64_t extent(const graph::TensorType& type) {
    int64_t last = 0;
    for (size_t i = 0; i < type.sizes.size(); ++i) {
      if (type.sizes[i].constant() == 0) return 0;
      last += (type.sizes[i].constant() - 1) * type.strides[i].constant();
    }
    return last + 1;
  }

  void* address(int number) {
    const Buffer& buffer = program_.buffers[number];
    if (buffer.kind != Buffer::Kind::kView) return memory_[number].data();
    return memory_[buffer.base].data() +
           buffer.view_offset.constant() * graph::size_of(buffer.type.dtype);
  }

  template <class Body>
  void for_each(int number, const Body& body) {
    const graph::TensorType& type = program_.buffers[number].type;
    const int64_t count = type.numel().constant();
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, offset = 0;
      for (size_t d = type.sizes.size(); d-- > 0;) {
        offset += rest % type.sizes[d].constant() * type.strides[d].constant();
        rest /= type.sizes[d].constant();
      }
      body(offset);
    }
  }

  const Program& program_;
  std::vector<std::vector<char>> memory_;
};

inline std::optional<std::vector<Numbers>> try_run(std::string_view text,
                                                   const std::vector<Numbers>& inputs) {
  const graph::Graph graph = graph::parse(text);
  const Program program = lower(graph, {});
  for (const Item& item : program.items)
    EXPECT_TRUE(std::holds_alternative<ScheduledKernel>(item)) << to_string(program);
  return ProgramRunner(program).run(inputs);
}

inline std::vector<Numbers> run(std::string_view text, const std::vector<Numbers>& inputs) {
  auto outputs = try_run(text, inputs);
  EXPECT_TRUE(outputs.has_value()) << "an index check failed";
  return outputs.value_or(std::vector<Numbers>());
}

inline Program lowered(std::string_view text) { return lower(graph::parse(text), {}); }

inline int kernel_count(const Program& program) {
  int count = 0;
  for (const Item& item : program.items) count += std::holds_alternative<ScheduledKernel>(item);
  return count;
}

// A graph of one node with result type `result`.
inline std::string one(const std::string& inputs, const std::string& result,
                       const std::string& call) {
  return "graph(" + inputs + ") { %9: " + result + " = " + call + " return %9 }";
}

inline Numbers run_one(const std::string& inputs, const std::string& result,
                       const std::string& call, const std::vector<Numbers>& values) {
  auto outputs = run(one(inputs, result, call), values);
  return outputs.empty() ? Numbers() : outputs[0];
}

inline bool is_extern(const std::string& inputs, const std::string& result,
                      const std::string& call) {
  const graph::Graph graph = graph::parse(one(inputs, result, call));
  const Program program = lower(graph, {});
  verify(program);
  return std::holds_alternative<ExternCall>(program.items.back());
}

}  // namespace braze::loop
