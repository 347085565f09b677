#include "schedule/aliases.h"

#include <algorithm>

#include "base/error.h"
#include "loop/effects.h"

namespace braze::schedule {
namespace {

using BufferArgument = graph::BasicArgument<int>;

void append_buffers(const BufferArgument& argument, std::vector<int>& buffers) {
  if (const int* buffer = std::get_if<int>(&argument)) buffers.push_back(*buffer);
  if (const auto* list = std::get_if<std::vector<int>>(&argument)) {
    buffers.insert(buffers.end(), list->begin(), list->end());
  }
  if (const auto* list = std::get_if<graph::OptionalRefs<int>>(&argument)) {
    for (const std::optional<int>& buffer : list->refs) {
      if (buffer) buffers.push_back(*buffer);
    }
  }
}

void sort_unique(std::vector<int>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

Access access_of(const loop::ExternCall& call, const Aliases& aliases) {
  Access access;
  for (size_t i = 0; i < call.args.size(); ++i) {
    std::vector<int> buffers;
    append_buffers(call.args[i], buffers);
    bool written = std::find(call.effects.mutates.begin(), call.effects.mutates.end(),
                             static_cast<int>(i)) != call.effects.mutates.end();
    for (int buffer : buffers) {
      access.reads.push_back(aliases.root(buffer));
      if (written) access.writes.push_back(aliases.root(buffer));
    }
  }
  for (int result : call.results) {
    // A result that is a view is defined by this call although its memory is not: readers of the
    // view must come later, so the root counts as written.
    if (result >= 0) access.writes.push_back(aliases.root(result));
  }
  access.ordered = !call.effects.pure();
  sort_unique(access.reads);
  sort_unique(access.writes);
  return access;
}

}  // namespace

Aliases::Aliases(const loop::Program& program) : root_(program.buffers.size()) {
  std::vector<int> parent(program.buffers.size(), -1);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i].kind == loop::Buffer::Kind::kView) parent[i] = program.buffers[i].base;
  }
  for (const loop::Item& item : program.items) {
    const auto* call = std::get_if<loop::ExternCall>(&item);
    if (call == nullptr) continue;
    for (size_t i = 0; i < call->results.size(); ++i) {
      int position = call->effects.aliased_argument(static_cast<int>(i));
      if (call->results[i] < 0 || position < 0) continue;
      std::vector<int> buffers;
      append_buffers(call->args.at(position), buffers);
      if (!buffers.empty()) parent[call->results[i]] = buffers.front();
    }
  }
  for (size_t i = 0; i < parent.size(); ++i) {
    int root = static_cast<int>(i);
    for (size_t steps = 0; parent[root] >= 0; ++steps) {
      BRAZE_CHECK(steps <= parent.size(), "buffers are views of each other");
      root = parent[root];
    }
    root_[i] = root;
  }
}

Access access_of(const loop::Kernel& kernel, const Aliases& aliases) {
  Access access;
  const std::vector<bool> accumulated = loop::accumulated_params(kernel);
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const loop::BufferParam& param = kernel.params[i];
    const int root = aliases.root(param.buffer);
    if (param.written) access.writes.push_back(root);
    if (!param.written || accumulated[i]) access.reads.push_back(root);
  }
  sort_unique(access.reads);
  sort_unique(access.writes);
  return access;
}

Access access_of(const loop::Item& item, const Aliases& aliases) {
  if (const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item)) {
    return access_of(scheduled->kernel, aliases);
  }
  return access_of(std::get<loop::ExternCall>(item), aliases);
}

bool contains(const std::vector<int>& sorted, int value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

std::vector<bool> needed_at_end(const loop::Program& program, const Aliases& aliases) {
  std::vector<bool> needed(program.buffers.size(), false);
  for (int output : program.outputs) needed[aliases.root(output)] = true;
  for (const auto& [target, source] : program.mutations) needed[aliases.root(source)] = true;
  return needed;
}

int64_t bytes_of(const loop::Buffer& buffer) {
  int64_t last = 0;
  for (size_t i = 0; i < buffer.type.sizes.size(); ++i) {
    int64_t size = buffer.type.sizes[i].hint();
    if (size == 0) return 0;
    last += (size - 1) * buffer.type.strides[i].hint();
  }
  return (last + 1) * graph::size_of(buffer.type.dtype);
}

sym::Int size_in_bytes(const graph::TensorType& type) {
  sym::Int last = 0;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (type.sizes[i] == sym::Int(0)) return 0;
    last = last + (type.sizes[i] - sym::Int(1)) * type.strides[i];
  }
  return (last + sym::Int(1)) * graph::size_of(type.dtype);
}

}  // namespace braze::schedule
