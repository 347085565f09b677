// A kernel of rows and one of columns in one launch, whose blocks take turns.
#include <optional>

#include "base/error.h"
#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/operators.h"
#include "codegen/cuda/scans.h"

namespace braze::codegen::cuda {
namespace {

struct Pair {
  Nest rows, columns;
};

std::optional<Pair> nests_of(const loop::Kernel& rows, const loop::Kernel& columns,
                             const target::Cuda& cuda) {
  if (has_scans(rows) || has_scans(columns)) return std::nullopt;
  Pair pair{plan_nest(rows, cuda, {.stages = false}), plan_nest(columns, cuda)};
  if (pair.rows.shape != Shape::kRows || pair.rows.cluster > 1 || pair.rows.parts > 0 ||
      !pair.columns.has_packed_columns())
    return std::nullopt;
  const int sharers = pair.rows.threads_of_block() / kColumnsOfBlock;
  if (sharers < 1 || sharers > most_sharers(pair.columns)) return std::nullopt;
  pair.columns = plan_nest(columns, cuda, {.sharers = sharers});
  return pair;
}

std::string declared(const loop::Kernel& kernel, const std::string& prefix) {
  std::string text;
  for (size_t p = 0; p < kernel.params.size(); ++p)
    text += (p ? ", " : "") + parameter_type(kernel.params[p]) +
            (kernel.params[p].by_value  ? " "
             : kernel.params[p].aliased ? "* "
                                        : "* __restrict__ ") +
            prefix + std::to_string(p);
  return text;
}

// The lines of a kernel whose parameters have that prefix, for block `block` of `blocks`.
std::string branch(const Nest& nest, const std::vector<std::string>& lines,
                   const std::string& prefix, const std::string& block, const KernelCode& code) {
  std::string text = "    const u32 block = " + block +
                     ";\n    if (block >= " + std::to_string(code.blocks[0].constant()) +
                     "u) return;\n";
  const std::vector<loop::BufferParam>& params = nest.kernel->params;
  for (size_t p = 0; p < params.size(); ++p)
    text += "    " + parameter_type(params[p]) + (params[p].by_value ? " p" : "* p") +
            std::to_string(p) + " = " + prefix + std::to_string(p) + ";\n";
  for (const std::string& line : lines) text += "    " + line + "\n";
  return text;
}

}  // namespace

bool share_launch(const loop::Kernel& rows, const loop::Kernel& columns, const target::Cuda& cuda) {
  return nests_of(rows, columns, cuda).has_value();
}

KernelCode write_beside(const loop::Kernel& rows, const loop::Kernel& columns,
                        const target::Cuda& cuda, const std::string& name) {
  const std::optional<Pair> pair = nests_of(rows, columns, cuda);
  BRAZE_CHECK(pair, "a kernel of rows and one of columns that do not share a launch");
  KernelCode code{.name = name}, other;
  const std::vector<std::string> of_rows = kernel_lines(pair->rows, code, "block");
  const std::vector<std::string> of_columns = kernel_lines(pair->columns, other, "block");
  BRAZE_CHECK(code.sizes.empty() && other.sizes.empty(), "sizes in a launch of two kernels");
  // A part of the columns comes behind its rows.
  const int64_t parts = columns.outer[0].extent.constant();
  const auto share = [&](const KernelCode& of) {
    return (of.blocks[0].constant() + parts - 1) / parts;
  };
  const int64_t first = share(code), second = share(other);
  const std::string all = std::to_string(first + second) + "u";
  const std::string own = std::to_string(first) + "u";
  std::string function = "(" + declared(rows, "r") + ", " + declared(columns, "c") + ") {\n";
  function += "  const u32 part = blockIdx.x / " + all + ", member = blockIdx.x % " + all + ";\n";
  function += "  if (member < " + own + ") {\n" +
              branch(pair->rows, of_rows, "r", "part * " + own + " + member", code) +
              "  } else {\n" +
              branch(pair->columns, of_columns, "c",
                     "part * " + std::to_string(second) + "u + member - " + own, other) +
              "  }\n}\n";
  code.blocks[0] = parts * (first + second);
  code.alignment.insert(code.alignment.end(), other.alignment.begin(), other.alignment.end());
  return finished(pair->rows, std::move(code), function);
}

}  // namespace braze::codegen::cuda
