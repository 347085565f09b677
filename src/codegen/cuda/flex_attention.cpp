#include "codegen/cuda/flex_attention.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "codegen/cuda/expression.h"
#include "codegen/cuda/flex_source.h"
#include "codegen/cuda/operators.h"
#include "codegen/cuda/prelude.h"

namespace braze::codegen::cuda {

using graph::DType;
using loop::Statement;

namespace {

constexpr int64_t kPanel = 64;  // columns
constexpr int64_t kMostDepth = 128;
constexpr int kWarpgroupsOf = 90;     // the one generation that multiplies by warpgroups
constexpr int64_t kSlack = 1024;      // of shared memory, where panels begin at a multiple of it
constexpr int64_t kOwnShared = 2048;  // at most, that a kernel declares
constexpr int64_t kHalfBytes = 2;

int64_t panels(int64_t depth) { return (depth + kPanel - 1) / kPanel; }

// How a kernel cuts its matrices: rows that a block keeps, and rows that it walks over at a time.
struct Cut {
  int64_t warpgroups = 1, tile = kPanel;
  int64_t stages = 3;  // tiles that there is room for, of those that are needed for two steps
  int64_t shared_bytes = 0;
  int64_t rows() const { return warpgroups * kPanel; }
};

// Panels of rows that a block keeps, and of those that it has of what it walks over.
struct Room {
  int64_t kept, walked;
};
Room room_of(const FlexAttention& attention, FlexKernel kernel, int64_t stages) {
  const int64_t deep = panels(attention.depth), values = panels(attention.value_depth);
  switch (kernel) {
    case FlexKernel::kForward:
      return {deep, 2 * (deep + values)};
    case FlexKernel::kQueryGradient:
      return {deep + values, stages * deep + 2 * values};
    case FlexKernel::kKeyGradient:
      return {deep + values, stages * (deep + values)};
  }
  BRAZE_UNREACHABLE("a kernel of flex_attention");
}

// Whether threads have the registers for tiles of twice a panel.
bool takes_wide_tiles(const FlexAttention& attention, FlexKernel kernel) {
  return kernel == FlexKernel::kForward ||
         (kernel == FlexKernel::kQueryGradient && attention.change < 0 &&
          panels(attention.depth) + panels(attention.value_depth) == 2);
}

// The largest one for which there is shared memory, and of whose parts blocks of the mask are made.
Cut cut_of(const FlexAttention& attention, const target::Cuda& cuda, FlexKernel kernel) {
  for (const Cut& most : {Cut{2, 2 * kPanel}, Cut{2, kPanel}, Cut{1, kPanel}, Cut{1, kPanel, 2}}) {
    Cut cut = most;
    const Room room = room_of(attention, kernel, cut.stages);
    cut.shared_bytes =
        kSlack + (cut.rows() * room.kept + cut.tile * room.walked) * kPanel * kHalfBytes;
    const bool pays = cut.tile == kPanel || takes_wide_tiles(attention, kernel);
    const int64_t size = std::max(cut.rows(), cut.tile);
    const bool fits =
        std::ranges::all_of(attention.block, [&](int64_t block) { return block % size == 0; });
    if (pays && fits && cut.shared_bytes + kOwnShared <= cuda.shared_bytes) return cut;
  }
  return {.warpgroups = 0};
}

// One instruction for 64 rows of A, 16 columns, and `columns` columns of the sums.
std::string product(int64_t columns, const std::string& half, bool in_registers) {
  const int64_t count = columns / 2;
  std::string sums, outputs;
  for (int64_t i = 0; i < count; ++i) {
    sums += (i ? ", %" : "%") + std::to_string(i);
    outputs += (i ? ", " : "") + ("\"+f\"(d[" + std::to_string(i / 4)) + "][" +
               std::to_string(i % 4) + "])";
  }
  const auto operand = [&](int64_t number) { return "%" + std::to_string(count + number); };
  const std::string name = in_registers ? "wgmma_rs" : "wgmma_ss";
  const std::string left = in_registers ? "{" + operand(0) + ", " + operand(1) + ", " + operand(2) +
                                              ", " + operand(3) + "}, " + operand(4)
                                        : operand(0) + ", " + operand(1);
  return "D void " + name + "(f32 (&d)[" + std::to_string(columns / 8) + "][4], " +
         (in_registers ? "const u32 (&a)[4], u64 b" : "u64 a, u64 b, i32 keeps") +
         ") {\n  asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, " +
         (in_registers ? "1" : operand(2)) + ", 0;\\nwgmma.mma_async.sync.aligned.m64n" +
         std::to_string(columns) + "k16.f32." + half + "." + half + " {" + sums + "}, " + left +
         ", p, 1, 1, " + (in_registers ? "1" : "0, 0") + ";\\n}\"\n    : " + outputs + "\n    : " +
         (in_registers ? R"("r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))"
                       : R"("l"(a), "l"(b), "r"(keeps))") +
         ");\n}\n";
}

void replace_all(std::string& text, std::string_view from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::string constant(const char* name, int64_t value) {
  return std::string("constexpr i32 ") + name + " = " + std::to_string(value) + ";\n";
}
std::string flag(const char* name, bool value) {
  return std::string("constexpr bool ") + name + " = " + (value ? "true" : "false") + ";\n";
}

class FlexWriter {
 public:
  FlexWriter(const FlexAttention& attention, loop::Program& program, const target::Cuda& cuda)
      : attention_(attention),
        program_(program),
        kernel_(std::get<loop::ScheduledKernel>(program.items.at(0)).kernel),
        cuda_(cuda) {}

  FlexCode write(FlexKernel kernel) {
    const Cut cut = cut_of(attention_, cuda_, kernel);
    FlexCode code{.rows = cut.rows(), .threads = cut.rows() * 2, .shared_bytes = cut.shared_bytes};
    std::string body = kernel == FlexKernel::kForward ? std::string(flex_forward_kernel())
                       : kernel == FlexKernel::kQueryGradient
                           ? std::string(flex_query_gradient_kernel())
                           : std::string(flex_key_gradient_kernel());
    if (kernel != FlexKernel::kForward) body.insert(0, flex_backward_arguments());
    replace_all(body, "CHANGE\n", function("change", "f32", attention_.change));
    replace_all(body, "MASK\n", function("mask", "bool", attention_.mask));
    replace_all(body, "GRADIENT\n", function("gradient", "f32", attention_.gradient));
    replace_all(body, " TABLES)", tables(code) + ")");
    code.text = std::string(prelude()) + "\n" + constants(cut) + std::string(flex_tools()) +
                products(kernel, cut.tile) + std::string(flex_common()) + body;
    code.text = "// Generated by Braze: " + content_hash(code.text) + "\n" + code.text;
    return code;
  }

 private:
  std::string constants(const Cut& cut) const {
    const auto is_whole = [&](int64_t size) { return size % std::max(cut.rows(), cut.tile) == 0; };
    return constant("DEPTH", attention_.depth) + constant("PANELS", panels(attention_.depth)) +
           constant("VALUE_DEPTH", attention_.value_depth) +
           constant("VALUE_PANELS", panels(attention_.value_depth)) +
           constant("WARPGROUPS", cut.warpgroups) + constant("TILE", cut.tile) +
           constant("STAGES", cut.stages) + constant("BLOCK_QUERIES", attention_.block[0]) +
           constant("BLOCK_KEYS", attention_.block[1]) +
           flag("WHOLE_QUERIES", is_whole(attention_.queries)) +
           flag("WHOLE_KEYS", is_whole(attention_.keys)) + flag("CHANGES", attention_.change >= 0) +
           flag("MASKS", attention_.mask >= 0);
  }

  std::string products(FlexKernel kernel, int64_t tile) const {
    const std::string half = attention_.dtype == DType::kBFloat16 ? "bf16" : "f16";
    const bool by_warpgroups = cuda_.sm == kWarpgroupsOf;
    std::string text = "#define HALVES \"" + half + "\"\n#define pack_halves pack_" + half + "\n";
    if (by_warpgroups) {
      std::set<int64_t> summed;
      if (kernel != FlexKernel::kForward) summed.insert(panels(attention_.depth) * kPanel);
      if (kernel != FlexKernel::kQueryGradient)
        summed.insert(panels(attention_.value_depth) * kPanel);
      text += product(tile, half, /*in_registers=*/false);
      for (int64_t columns : summed) text += product(columns, half, /*in_registers=*/true);
    }
    return text.append(by_warpgroups ? flex_products_of_warpgroups() : flex_products_of_warps());
  }

  int input_of(size_t param) const { return program_.buffers[kernel_.params[param].buffer].input; }

  // What a store of the program stores, as a function of numbers: the score, what comes for its
  // gradient and the four axes.
  std::string function(const std::string& name, const std::string& type, int store) const {
    const bool takes_score = name != "mask", takes_tangent = name == "gradient";
    std::string text = "const auto " + name + " = [&](" + (takes_score ? "f32 score, " : "") +
                       (takes_tangent ? "f32 tangent, " : "") +
                       "i32 batch, i32 head, Place query, Place key) -> " + type + " {\n";
    if (store < 0) {
      const char* same = name == "mask" ? "true" : takes_tangent ? "tangent" : "score";
      return text + "return " + same + ";\n};\n";
    }
    for (size_t i = 0; i < kernel_.params.size(); ++i) {
      const std::string given = "const One<f32> p" + std::to_string(i);
      if (input_of(i) == 0 && takes_score) text += given + "{score};\n";
      if (input_of(i) == 1 && takes_tangent) text += given + "{tangent};\n";
    }
    loop::Kernel kernel = kernel_;
    Nest nest{.kernel = &kernel, .outer_count = static_cast<int>(kernel_.outer.size())};
    for (const loop::Axis& axis : kernel_.outer) nest.extent.push_back(axis.extent);
    const loop::ExprRef stored = with_positions(kernel_.body.at(store).value, nest, kernel, text);
    std::vector<sym::Int> sizes;
    ExpressionWriter writer(nest, sizes);
    writer.open(Level::kFunction);
    const char* places[] = {"batch", "head", "query.base + query.offset", "key.base + key.offset"};
    for (int axis = 0; axis < nest.outer_count; ++axis) writer.bind_axis(axis, places[axis]);
    const std::string value = writer.emit(stored);
    for (const std::string& line : writer.close()) text += line + "\n";
    BRAZE_CHECK(sizes.empty() && nest.limits.empty(), "sizes of flex_attention are numbers");
    return text + "return " + value + ";\n};\n";
  }

  // Sums of positions that become floats: what is the same for all elements of a thread, and what
  // the compiler knows, are converted apart, as a conversion takes as long as eight additions. Each
  // is exact. They become parameters of `kernel`, which `text` declares.
  loop::ExprRef with_positions(loop::ExprRef expr, const Nest& nest, loop::Kernel& kernel,
                               std::string& text) const {
    loop::Substitution memo;
    return loop::rewrite(program_.pool, expr, memo, [&](loop::ExprRef e) -> loop::ExprRef {
      if (e->kind != loop::ExprKind::kCast || e->dtype != DType::kFloat32) return nullptr;
      const std::optional<std::string> sum = exact_sum(e->args[0], nest);
      if (!sum) return nullptr;
      const auto number = static_cast<int>(kernel.params.size());
      kernel.params.push_back({.dtype = DType::kFloat32});
      text += "const One<f32> p" + std::to_string(number) + "{" + *sum + "};\n";
      return program_.pool.load(number, DType::kFloat32, program_.pool.integer(0));
    });
  }

  // Nothing: it is none of the two last positions, or not exact.
  static std::optional<std::string> exact_sum(loop::ExprRef index, const Nest& nest) {
    constexpr int64_t kExact = int64_t{1} << 24;
    if (index->dtype != DType::kInt64) return std::nullopt;
    const Affine affine = affine_of(index, nest.extent);
    if (!affine.terms.empty() || !affine.constant.is_constant()) return std::nullopt;
    const char* bases[] = {"batch", "head", "query.base", "key.base"};
    int64_t most = std::abs(affine.constant.constant());
    std::string base = std::to_string(affine.constant.constant()), offset = "0";
    bool varies = false;
    for (int axis = 0; axis < nest.outer_count; ++axis) {
      const sym::Int stride = affine.stride(axis);
      if (!stride.is_constant()) return std::nullopt;
      if (stride.constant() == 0) continue;
      const std::string times = " + " + std::to_string(stride.constant()) + " * ";
      base += times + bases[axis];
      if (axis >= 2) offset += times + (axis == 2 ? "query.offset" : "key.offset");
      varies = varies || axis >= 2;
      if (std::abs(stride.constant()) >= kExact) return std::nullopt;
      most += std::abs(stride.constant()) * nest.extent[axis].constant();
    }
    if (!varies || most >= kExact) return std::nullopt;
    return "(f32)(" + base + ") + (f32)(" + offset + ")";
  }

  std::string tables(FlexCode& code) const {
    std::string text;
    for (size_t i = 0; i < kernel_.params.size(); ++i) {
      if (input_of(i) < 2) continue;
      code.tables.push_back(input_of(i));
      text += ", const " + storage_type_of(kernel_.params[i].dtype) + "* __restrict__ p" +
              std::to_string(i);
    }
    return text;
  }

  const FlexAttention& attention_;
  loop::Program& program_;
  const loop::Kernel& kernel_;
  const target::Cuda& cuda_;
};

}  // namespace

std::string why_unsupported(const FlexAttention& attention, const target::Cuda& cuda) {
  constexpr int64_t kPack = 8;  // halves that are copied at a time
  constexpr int kLeast = 80;    // that copies to shared memory without registers
  if (cuda.sm < kLeast) return "a GPU before sm_80";
  if (!graph::is_half(attention.dtype)) return "no halves";
  for (int64_t depth : {attention.depth, attention.value_depth})
    if (depth <= 0 || depth > kMostDepth || depth % kPack != 0)
      return "rows of " + std::to_string(depth) + " elements";
  for (int64_t size : attention.block)
    if (size % kPanel != 0) return "blocks of " + std::to_string(size);
  for (FlexKernel kernel :
       {FlexKernel::kForward, FlexKernel::kQueryGradient, FlexKernel::kKeyGradient})
    if (cut_of(attention, cuda, kernel).warpgroups == 0) return "too little shared memory";
  return "";
}

FlexCode generate_flex(FlexKernel kernel, const FlexAttention& attention, loop::Program& program,
                       const target::Cuda& cuda) {
  return FlexWriter(attention, program, cuda).write(kernel);
}

}  // namespace braze::codegen::cuda
