#include "codegen/cuda/parts.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "codegen/cuda/operators.h"
#include "target/costs.h"

namespace braze::codegen::cuda {
namespace {

using loop::Statement;

std::string name_of_part(const Nest& nest, const Statement& s) {
  return "part" + std::to_string(&s - nest.kernel->body.data());
}

// Over the packs of a thread, of which `step` is the number in the row.
std::vector<std::string> for_each_pack(const Nest& nest, const std::vector<std::string>& body) {
  const std::string sharers = std::to_string(nest.sharers) + "u";
  const int64_t packs = nest.inner_steps().constant();
  std::vector<std::string> lines = {
      "#pragma unroll",
      "for (u32 round = 0; round < " + std::to_string(nest.rounds) + "; ++round) {",
      "  const u32 step = round * " + sharers + " + threadIdx.x % " + sharers + ";"};
  if (packs < int64_t{nest.rounds} * nest.sharers)
    lines.push_back("  if (step >= " + std::to_string(packs) + "u) break;");
  for (const std::string& line : body) lines.push_back("  " + line);
  lines.push_back("}");
  return lines;
}

// `body` for each element, `v` of such a pack.
std::vector<std::string> for_each_element(const Nest& nest, const std::string& body) {
  return for_each_pack(
      nest, {"#pragma unroll", "for (i32 v = 0; v < " + std::to_string(nest.lanes) + "; ++v)",
             "  " + body});
}

void add_indented(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  for (const std::string& line : more) lines.push_back("  " + line);
}

// Parts of the rows that a block has at a time, into shared memory.
void bring_together(const Nest& nest, const Statement& s, std::vector<std::string>& lines) {
  const std::string part = name_of_part(nest, s), all = "all_of_" + part;
  const std::string lanes = std::to_string(nest.lanes) + "u";
  lines.push_back("__shared__ " + type_of(s.value->dtype) + " " + all + "[" +
                  std::to_string(nest.inner_points().constant()) + "];");
  lines.push_back("for (u32 row = 0; row < " + std::to_string(nest.rows_of_block()) +
                  "u; ++row) {");
  lines.push_back("  if (threadIdx.x / " + std::to_string(nest.sharers) + "u == row) {");
  const std::string own = part + "[round][v]", sum = all + "[step * " + lanes + " + v]";
  for (const std::string& line :
       for_each_element(nest, sum + " = row ? " + sum + " + " + own + " : " + own + ";"))
    lines.push_back("    " + line);
  lines.insert(lines.end(), {"  }", "  __syncthreads();", "}"});
}

void collect_loads(loop::ExprRef expr, std::vector<loop::ExprRef>& loads,
                   std::unordered_set<loop::ExprRef>& seen) {
  if (!seen.insert(expr).second) return;
  if (expr->kind == loop::ExprKind::kLoad) loads.push_back(expr);
  // What is under a mask may not be there.
  for (size_t i = 0; i < expr->args.size(); ++i)
    if (expr->kind != loop::ExprKind::kMasked || i != 1) collect_loads(expr->args[i], loads, seen);
}

// The only axis with several points of [begin, end); -1: there are more or none.
int only_axis(const Nest& nest, int begin, int end) {
  int found = -1;
  for (int axis = begin; axis < end; ++axis) {
    if (cpp::is_trivial(nest.extent[axis])) continue;
    if (found >= 0) return -1;
    found = axis;
  }
  return found;
}

// Where the packs of the row after this turn's are, for a block of one row: lines that bring them
// into the cache while this one is worked on.
void fetch_next(const Nest& nest, std::vector<std::string>& lines) {
  const int outer = only_axis(nest, 0, nest.outer_count);
  const int inner = only_axis(nest, nest.outer_count, static_cast<int>(nest.extent.size()));
  if (outer < 0 || inner < 0 || inner != nest.vector_axis || nest.sharers <= kThreadsOfWarp) return;
  std::vector<loop::ExprRef> loads;
  std::unordered_set<loop::ExprRef> seen;
  for (const Statement& s : nest.kernel->body) collect_loads(s.value, loads, seen);
  const std::string next = "turn + " + std::to_string(nest.parts) + "u";
  std::vector<std::string> fetched;
  for (loop::ExprRef load : loads) {
    const Affine index = affine_of(load->args[0], nest.extent);
    const sym::Int stride = index.stride(outer);
    if (!index.terms.empty() || !index.constant.is_constant() || !stride.is_constant() ||
        stride == sym::Int(0) || !is_pack(index, inner, nest.lanes))
      continue;
    fetched.push_back("fetch(p" + std::to_string(load->ival) + " + ((i64)(" + next + ") * " +
                      std::to_string(stride.constant()) + " + " +
                      std::to_string(index.constant.constant()) + " + step * " +
                      std::to_string(nest.lanes) + "u));");
  }
  if (fetched.empty()) return;
  lines.push_back("  if (" + next + " < " + std::to_string(nest.outer_points().constant()) +
                  "u) {");
  for (const std::string& line : for_each_pack(nest, fetched)) lines.push_back("    " + line);
  lines.push_back("  }");
}

}  // namespace

void spread_parts(Nest& nest, const target::Cuda& cuda) {
  const int64_t packs = nest.inner_steps().constant();
  const target::SummedRow row = target::summed_row(packs);
  nest.sharers = static_cast<int>(row.threads);
  nest.rounds = static_cast<int>((packs + row.threads - 1) / row.threads);
  const int blocks = static_cast<int>(nest.parts / std::max(cuda.processors, 1));
  if (blocks * nest.threads_of_block() <= cuda.resident_threads) nest.blocks_at_once = blocks;
}

std::string add_to_part(const Nest& nest, const Statement& s, const std::string& lane,
                        const std::vector<std::string>& value) {
  const std::string sum = name_of_part(nest, s) + "[round][" + lane + "]";
  if (value.size() == 1) return sum + " += " + value[0] + ";";
  return sum + " = fused(" + value[0] + ", " + value[1] + ", " + sum + ");";
}

std::vector<std::string> with_parts(const Nest& nest, const std::string& loop,
                                    const std::vector<std::string>& body) {
  BRAZE_CHECK(nest.rounds > 0, "parts of rows that are not kept");
  std::vector<std::string> lines;
  const std::string shape =
      "[" + std::to_string(nest.rounds) + "][" + std::to_string(nest.lanes) + "]";
  for (const Statement& s : nest.kernel->body)
    if (s.is_part())
      lines.push_back(type_of(s.value->dtype) + " " + name_of_part(nest, s) + shape + " = {};");
  lines.push_back(loop + " {");
  fetch_next(nest, lines);
  add_indented(lines, body);
  // What one reduction shares is written again in the next turn; of several, each stands between
  // two barriers of the others.
  const bool shares = nest.sharers > kThreadsOfWarp;
  if (shares && std::ranges::count_if(nest.kernel->body, &Statement::is_reduction) == 1)
    lines.push_back("  __syncthreads();");
  lines.push_back("}");
  const std::string width = std::to_string(nest.inner_points().constant()) + "u";
  for (const Statement& s : nest.kernel->body) {
    if (!s.is_part()) continue;
    const std::string part = name_of_part(nest, s);
    const std::string memory = "p" + std::to_string(s.buffer) + "[blockIdx.x * " + width + " + ";
    if (shares) {
      const std::string place = "step * " + std::to_string(nest.lanes) + "u + v] = ";
      for (const std::string& line : for_each_element(nest, memory + place + part + "[round][v];"))
        lines.push_back(line);
      continue;
    }
    bring_together(nest, s, lines);
    lines.push_back("for (u32 i = threadIdx.x; i < " + width +
                    "; i += " + std::to_string(kThreadsOfBlock) + "u) " + memory + "i] = all_of_" +
                    part + "[i];");
  }
  return lines;
}

}  // namespace braze::codegen::cuda
