#include "schedule/put_off.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "schedule/aliases.h"
#include "schedule/kernel_edit.h"
#include "target/costs.h"

namespace braze::schedule {
namespace {

// Roots of outputs that nothing is written back from.
std::vector<bool> results_of(const loop::Program& program, const Aliases& aliases) {
  std::vector<bool> results(program.buffers.size());
  for (const int output : program.outputs)
    if (output >= 0) results[aliases.root(output)] = true;
  for (const auto& [input, source] : program.mutations)
    results[aliases.root(input)] = results[aliases.root(source)] = false;
  return results;
}

bool is_small(const loop::Item& item, int64_t most_bytes) {
  const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item);
  if (!scheduled) return false;
  const loop::Kernel& kernel = scheduled->kernel;
  const int64_t count = points(kernel.outer) * points(kernel.inner);
  int64_t bytes = 0;
  for (const loop::BufferParam& param : kernel.params)
    if (!param.by_value) bytes += count * graph::size_of(param.dtype);
  return bytes <= most_bytes;
}

}  // namespace

void put_off(loop::Program& program, const target::Target& target, int64_t share) {
  const int64_t small = target::costs_of(target).bytes_launched_together;
  if (small == 0) return;
  const Aliases aliases(program);
  const std::vector<bool> results = results_of(program, aliases);
  int64_t room = 0;
  for (size_t root = 0; root < results.size(); ++root)
    if (results[root]) room += bytes_of(program.buffers[root]);
  room /= share;
  // By root: what items that stay, behind the one that is looked at, read and write, and what those
  // that are put off keep.
  std::vector<bool> read(results.size()), written(results.size()), kept(results.size());
  std::vector<bool> waits(program.items.size());
  for (size_t i = waits.size(); i-- > 0;) {
    const Access access = access_of(program.items[i], aliases);
    const auto is_own = [&](int root) {
      return program.buffers[root].kind == loop::Buffer::Kind::kComputed && !results[root];
    };
    const bool may_wait =
        is_small(program.items[i], small) && !access.ordered &&
        std::ranges::all_of(
            access.writes,
            [&](int root) { return results[root] && !read[root] && !written[root]; }) &&
        std::ranges::all_of(access.reads, [&](int root) {
          return (is_own(root) || results[root]) && !written[root];
        });
    int64_t keeps = 0;
    for (const int root : access.reads)
      if (is_own(root) && !read[root] && !kept[root]) keeps += bytes_of(program.buffers[root]);
    waits[i] = may_wait && keeps <= room;
    if (waits[i]) room -= keeps;
    for (const int root : access.reads) (waits[i] ? kept : read)[root] = true;
    if (!waits[i])
      for (const int root : access.writes) written[root] = true;
  }
  std::vector<loop::Item> items, last;
  for (size_t i = 0; i < waits.size(); ++i)
    (waits[i] ? last : items).push_back(std::move(program.items[i]));
  std::ranges::move(last, std::back_inserter(items));
  program.items = std::move(items);
}

}  // namespace braze::schedule
