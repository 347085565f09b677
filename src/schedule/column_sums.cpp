#include "schedule/column_sums.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "loop/effects.h"
#include "schedule/directions.h"
#include "schedule/item_graph.h"
#include "schedule/kernel_edit.h"
#include "schedule/liveness.h"
#include "schedule/merge.h"

namespace braze::schedule {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::Kernel;
using loop::ReduceOp;
using loop::Statement;

// Items between two kernels that become one.
constexpr int kFarthest = 16;
constexpr int64_t kPackBytes = 16;  // that are loaded at a time

// Whether the kernel sums columns, and does all else once that is done.
bool sums_columns(const Kernel& kernel) {
  if (kernel.inner.empty() || !has_fixed_sizes(kernel)) return false;
  std::vector<bool> stored(kernel.params.size());
  bool sums = false, others = false;
  for (const Statement& s : kernel.body) {
    if (s.is_reduction()) {
      sums = true;
      others |= s.op != ReduceOp::kSum || !loop::effects_of(s).results.empty() ||
                graph::is_half(s.accumulate) || !graph::is_float(s.accumulate);
    } else {
      others |= !s.overwrites() || s.inner;
      if (s.is_store()) stored[s.buffer] = true;
    }
  }
  for_each_expr(kernel, [&](ExprRef e) {
    others |= e->kind == ExprKind::kCheckIndex || (e->kind == ExprKind::kLoad && stored[e->ival]);
  });
  const Directions directions = directions_of(kernel);
  return sums && !others && directions.columns && !directions.rows;
}

// The kernels that take the place of one that sums columns.
struct Pieces {
  Kernel parts, last;
};

class Summer {
 public:
  Summer(loop::Program& program, const Aliases& aliases, const InputWrites& writes,
         const target::PartCosts& costs)
      : program_(program), aliases_(aliases), costs_(costs) {
    for (const loop::Item& item : program.items) accesses_.push_back(access_of(item, aliases));
    graph_.emplace(accesses_, program.buffers.size(), writes.constraints(program, aliases));
    behind_.resize(program.items.size());
  }

  // Whether anything has changed.
  bool run() {
    bool changed = false;
    for (int item = 0; item < static_cast<int>(accesses_.size()); ++item)
      if (const Kernel* kernel = kernel_of(item); kernel && sums_columns(*kernel))
        changed |= join(item);
    if (!changed) return false;
    std::vector<loop::Item> items;
    for (int item : graph_->order()) {
      items.push_back(std::move(program_.items[item]));
      for (loop::ScheduledKernel& kernel : behind_[item]) items.emplace_back(std::move(kernel));
    }
    program_.items = std::move(items);
    return true;
  }

 private:
  Kernel* kernel_of(int item) {
    auto* scheduled = std::get_if<loop::ScheduledKernel>(&program_.items[item]);
    return scheduled ? &scheduled->kernel : nullptr;
  }

  // Bytes that the two have in common.
  int64_t shared_bytes(const Kernel& a, const Kernel& b) const {
    int64_t bytes = 0;
    for (const loop::BufferParam& param : a.params)
      if (std::ranges::any_of(b.params, [&](const auto& p) { return p.buffer == param.buffer; }))
        bytes += bytes_of(program_.buffers[param.buffer]);
    return bytes;
  }

  // Joins the kernel of columns with the nearest one that walks the same rows.
  bool join(int columns) {
    for (int distance = 1; distance <= kFarthest; ++distance)
      for (int item : {columns - distance, columns + distance})
        if (item >= 0 && item < static_cast<int>(accesses_.size()) && graph_->alive(item) &&
            join(item, columns))
          return true;
    return false;
  }

  bool join(int rows, int columns) {
    const Kernel* by_rows = kernel_of(rows);
    const Kernel& sums = *kernel_of(columns);
    if (!by_rows || !has_fixed_sizes(*by_rows) ||
        points(by_rows->outer) * points(by_rows->inner) != points(sums.outer) * points(sums.inner))
      return false;
    const int64_t shared = shared_bytes(*by_rows, sums);
    if (shared < costs_.least_bytes || !on_one_device(program_, *by_rows, sums)) return false;
    if (!by_rows->inner.empty()) {
      const Directions directions = directions_of(*by_rows);
      if (!directions.rows || directions.columns) return false;
    }
    // Threads that keep sums of a row's places take the row in packs that begin where it does.
    if (points(sums.outer) * smallest_element(sums) % kPackBytes != 0) return false;
    const int64_t parts = parts_of(sums, shared);
    if (parts == 0) return false;
    int first = rows, second = columns;
    if (graph_->position(first) > graph_->position(second)) std::swap(first, second);
    if (!graph_->can_merge(first, second) || waits_for_sums(first, second, columns)) return false;
    const size_t buffers = program_.buffers.size();
    const Aliases aliases = aliases_;
    Pieces pieces = pieces_of(sums, parts);
    const Kernel& earlier = first == rows ? *by_rows : pieces.parts;
    const Kernel& later = first == rows ? pieces.parts : *by_rows;
    std::optional<Kernel> merged =
        merge_kernels(program_.pool, earlier, later, aliases_, MergeLimits{});
    if (!merged || !fits(*merged)) {
      program_.buffers.resize(buffers);
      aliases_ = aliases;
      return false;
    }
    sum_early(*merged);
    normalise_axes(*merged, program_.pool);
    const auto origin = [&](int item) {
      return std::get<loop::ScheduledKernel>(program_.items[item]).origin;
    };
    for (auto& kernel : behind_[second]) behind_[first].push_back(std::move(kernel));
    behind_[first].push_back({std::move(pieces.last), origin(columns)});
    program_.items[first] = loop::ScheduledKernel{std::move(*merged), origin(rows)};
    adopt(accesses_[first].reads, accesses_[second].reads);
    adopt(accesses_[first].writes, accesses_[second].writes);
    graph_->merge(first, second);
    return true;
  }

  static void adopt(std::vector<int>& roots, const std::vector<int>& more) {
    roots.insert(roots.end(), more.begin(), more.end());
    std::ranges::sort(roots);
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  }

  // Whether the second one touches what will only come behind the two: what parts sum to.
  bool waits_for_sums(int first, int second, int columns) {
    const auto touched = [&](const loop::BufferParam& param) {
      const int root = aliases_.root(param.buffer);
      return param.written &&
             (contains(accesses_[second].reads, root) || contains(accesses_[second].writes, root));
    };
    if (first == columns && std::ranges::any_of(kernel_of(columns)->params, touched)) return true;
    return std::ranges::any_of(behind_[first], [&](const loop::ScheduledKernel& last) {
      return std::ranges::any_of(last.kernel.params, touched);
    });
  }

  static int64_t smallest_element(const Kernel& kernel) {
    int64_t smallest = sizeof(double);
    for (const loop::BufferParam& param : kernel.params)
      if (!param.written) smallest = std::min(smallest, graph::size_of(param.dtype));
    return smallest;
  }

  // As many as blocks of a row's threads have room on the device at a time; 0: none.
  int64_t parts_of(const Kernel& sums, int64_t shared) const {
    const int64_t width = points(sums.outer), rows = points(sums.inner);
    int64_t bytes_of_part = 0, count = 0;
    for (const Statement& s : sums.body) {
      if (!s.is_reduction()) continue;
      bytes_of_part += width * graph::size_of(s.accumulate);
      count += width;
    }
    if (count > costs_.most_sums) return 0;
    const int64_t packs = width * smallest_element(sums) / kPackBytes;
    if (count / packs >= costs_.many_sums && packs >= costs_.many_packs) return 0;
    const int64_t parts = costs_.processors * target::summed_row(packs).blocks;
    return parts * bytes_of_part * costs_.bytes_per_byte_of_parts <= shared && parts * 4 <= rows
               ? parts
               : 0;
  }

  Pieces pieces_of(const Kernel& sums, int64_t parts) {
    loop::ExprPool& pool = program_.pool;
    Pieces pieces;
    const auto outer_count = static_cast<int>(sums.outer.size());
    const auto inner_count = static_cast<int>(sums.inner.size());
    pieces.parts = {
        .name = sums.name, .params = sums.params, .outer = sums.inner, .inner = sums.outer};
    pieces.last = {
        .name = sums.name, .params = sums.params, .outer = sums.outer, .inner = {{parts}}};
    Rewriter turned(pool);
    ExprRef column = pool.integer(0), own_column = pool.integer(0);
    for (int a = 0; a < outer_count; ++a) {
      const sym::Int extent = sums.outer[a].extent;
      turned.axes.push_back(pool.axis(inner_count + a, extent));
      column = pool.add(pool.mul(column, extent), turned.axes.back());
      own_column = pool.add(pool.mul(own_column, extent), pool.axis(a, extent));
    }
    for (int a = 0; a < inner_count; ++a) turned.axes.push_back(pool.axis(a, sums.inner[a].extent));
    const sym::Int width = sym::product(extents(sums.outer));
    const ExprRef place = pool.add(pool.mul(pool.axis(outer_count, parts), width), own_column);
    for (const Statement& s : sums.body) {
      if (!s.is_reduction()) {
        pieces.last.body.push_back(s);
        continue;
      }
      const int buffer = add_buffer(s.accumulate, parts, width, sums);
      pieces.parts.body.push_back({.kind = Statement::Kind::kStore,
                                   .inner = true,
                                   .store = loop::StoreOp::kPart,
                                   .parts = parts,
                                   .buffer = static_cast<int>(pieces.parts.params.size()),
                                   .index = column,
                                   .value = turned(s).value});
      pieces.parts.params.push_back({.dtype = s.accumulate, .written = true, .buffer = buffer});
      Statement last = s;
      last.value = pool.load(static_cast<int>(pieces.last.params.size()), s.accumulate, place);
      pieces.last.body.push_back(last);
      pieces.last.params.push_back({.dtype = s.accumulate, .buffer = buffer});
    }
    renumber(pieces.parts, pool);
    renumber(pieces.last, pool);
    return pieces;
  }

  int add_buffer(graph::DType dtype, int64_t parts, sym::Int width, const Kernel& kernel) {
    loop::Buffer buffer;
    buffer.type.dtype = dtype;
    buffer.type.device = program_.buffers[kernel.params[0].buffer].type.device;
    buffer.type.sizes = {sym::Int(parts), width};
    buffer.type.strides = sym::contiguous_strides(buffer.type.sizes);
    program_.buffers.push_back(std::move(buffer));
    aliases_.add();
    return static_cast<int>(program_.buffers.size()) - 1;
  }

  // Whether the merged kernel still goes through rows, none of which is too long.
  bool fits(const Kernel& kernel) const {
    const Directions directions = directions_of(kernel);
    return directions.rows && !directions.columns && points(kernel.inner) <= costs_.most_sums &&
           std::ranges::none_of(kernel.body, [](const Statement& s) {
             return s.is_scan() || (s.accumulates() && !s.is_part());
           });
  }

  // Moves parts into the first walk that has what they need, as what they load is loaded there.
  static void sum_early(Kernel& kernel) {
    std::vector<Statement> sums, others;
    for (const Statement& s : kernel.body) (s.is_part() ? sums : others).push_back(s);
    for (const Statement& sum : sums) {
      const loop::Effects effects = loop::effects_of(sum);
      size_t place = 0;
      for (size_t i = 0; i < others.size(); ++i) {
        const bool gives =
            std::ranges::count(effects.results, others[i].reduced) && !others[i].is_store();
        const bool stores =
            others[i].is_store() && std::ranges::count(effects.loads, others[i].buffer);
        if (gives || stores) place = i + 1;
      }
      // What each row stores once would stand between them and their walk.
      while (place < others.size() && !others[place].inner) ++place;
      others.insert(others.begin() + static_cast<std::ptrdiff_t>(place), sum);
    }
    kernel.body = std::move(others);
  }

  loop::Program& program_;
  Aliases aliases_;
  const target::PartCosts& costs_;
  std::vector<Access> accesses_;
  std::optional<ItemGraph> graph_;
  std::vector<std::vector<loop::ScheduledKernel>> behind_;  // by item: what sums its parts
};

}  // namespace

void sum_columns_beside_rows(loop::Program& program, const Aliases& aliases,
                             const InputWrites& writes, const target::PartCosts& costs) {
  if (costs.processors == 0) return;
  const auto is_worth_it = [&](const loop::Item& item) {
    const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item);
    if (!scheduled) return false;
    int64_t bytes = 0;
    for (const loop::BufferParam& param : scheduled->kernel.params)
      if (!param.written) bytes += bytes_of(program.buffers[param.buffer]);
    return bytes >= costs.least_bytes && sums_columns(scheduled->kernel);
  };
  if (std::ranges::none_of(program.items, is_worth_it)) return;
  const int64_t peak = peak_live_bytes(program, aliases, writes);
  const std::vector<loop::Item> before = program.items;
  const size_t buffers = program.buffers.size();
  if (!Summer(program, aliases, writes, costs).run()) return;
  int64_t parts = 0;
  for (size_t i = buffers; i < program.buffers.size(); ++i) parts += bytes_of(program.buffers[i]);
  if (peak_live_bytes(program, Aliases(program), writes) <= peak + parts) return;
  program.items = before;
  program.buffers.resize(buffers);
}

std::vector<bool> holding_parts(const loop::Program& program) {
  std::vector<bool> result(program.buffers.size());
  for (const loop::Item& item : program.items)
    if (const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item))
      for (const Statement& s : scheduled->kernel.body)
        if (s.is_part()) result[scheduled->kernel.params[s.buffer].buffer] = true;
  return result;
}

}  // namespace braze::schedule
