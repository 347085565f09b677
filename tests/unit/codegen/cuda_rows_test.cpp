// Rows and columns: places of extremes, and results in the memory of operands.
#include <array>

#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/nest.h"
#include "codegen/cuda_kernels.h"

namespace braze::codegen::cuda {
namespace {

// The first of equal ones, and of those that are not numbers: in packs, several elements at a time
// and one by one; of elements that are all the least there is, too.
TEST(CudaRows, Places) {
  std::vector<std::string> texts;
  const auto add = [&](const std::string& op, const std::string& type, const std::string& value,
                       int64_t n) {
    const std::string load = "load(b0, o0*" + number(n) + " + i0)";
    const std::string x = type.ends_with("f16") ? "f32(" + load + ")" : load;
    const std::string accumulated = type.ends_with("f16") ? "f32" : type;
    const std::string used = value.empty() ? x : value;
    texts.push_back("kernel place(b0: " + type + " in, b1: i64 out, b2: " + accumulated +
                    " out) outer(o0 < 3) inner(i0 < " + number(n) + ") {\n r0 = " + op + "(" +
                    used + ") inner\n store(b1, o0, r0)\n store(b2, o0, r0.1)\n}");
  };
  for (const std::string op : {"argmax", "argmin"}) {
    for (int n : {3, 64, 1001, 4096}) {
      add(op, "f16", "", n);
      add(op, "f32", "floor(load(b0, o0*" + number(n) + " + i0))", n);
    }
    add(op, "i32", "", 600);
    add(op, "i64", "", 601);
    add(op, "f64", "", 600);
    add(op, "f32", op == "argmax" ? "-inf:f32" : "inf:f32", 512);
  }
  check_emulated(texts);
  check_emulated(texts, {.special = true});
}

// Results in the memory of an operand: the same as elsewhere.
TEST(CudaEmulated, InPlaceBesideReductions) {
  const auto norm = [](const std::string& type, int64_t rows, int64_t columns, bool by_rows) {
    const std::string at =
        by_rows ? "o0*" + number(columns) + " + i0" : "i0*" + number(rows) + " + o0";
    const bool half = type == "f16";
    const std::string x = half ? "f32(load(b0, " + at + "))" : "load(b0, " + at + ")";
    const std::string y = "mul(sub(" + x + ", r0.0), add(r0.1, 1:f32))";
    return "kernel norm(b0: " + type + " in aliased, b1: " + type +
           " out aliased, b2: f32 out) outer(o0 < " + number(rows) + ") inner(i0 < " +
           number(columns) + ") {\n r0 = welford(" + x + ") inner\n r1 = max(" + x +
           ") inner\n store(b1, " + at + ", " + (half ? "f16(" + y + ")" : y) +
           ") inner\n store(b2, o0, r1)\n}";
  };
  const std::string scaled =
      "kernel scaled(b0: f32 in aliased, b1: f32 out aliased, b2: bool out) outer(o0 < 7) inner(i0 "
      "< 1500) {\n t0 = load(b0, o0*1500 + i0)\n r0 = any(isnan(t0)) inner\n"
      " store(b1, o0*1500 + i0, mul(t0, 0.5:f32)) inner\n store(b2, o0, r0)\n}";
  loop::ExprPool pool;
  sym::ExprArena arena;
  std::vector<std::string> texts = {scaled};
  for (const auto& [rows, columns] :
       {std::pair{3, 40}, {5, 1000}, {70, 33}, {300, 20}, {2, 7000}, {64, 70}})
    for (const std::string type : {"f32", "f16"})
      for (const bool by_rows : {true, false}) texts.push_back(norm(type, rows, columns, by_rows));
  for (const loop::Kernel& kernel : parse_kernels(texts, pool, arena)) {
    const KernelCode code = generate(kernel, tested_gpu());
    EXPECT_EQ(code.text.find("__restrict__ p0", code.text.find("__global__")), std::string::npos);
    const auto library =
        toolchain::build(kMachine + portable_prelude() + emulated_kernel(kernel, code, 0),
                         {"-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-w", "-mf16c"});
    const auto run = reinterpret_cast<Emulated>(library->symbol("run_kernel0"));
    uint32_t blocks[3], threads[3];
    for (int i = 0; i < 3; ++i) {
      blocks[i] = static_cast<uint32_t>(code.blocks[i].constant());
      threads[i] = static_cast<uint32_t>(code.threads[i].constant());
    }
    Buffers apart = cpp::random_buffers(kernel, {}), together = apart;
    run(cpp::addresses(apart).data(), nullptr, blocks, threads);
    std::vector<void*> same = cpp::addresses(together);
    same[1] = same[0];
    run(same.data(), nullptr, blocks, threads);
    const size_t bytes =
        sym::product(std::vector{kernel.outer[0].extent, kernel.inner[0].extent}).constant() *
        graph::size_of(kernel.params[0].dtype);
    ASSERT_TRUE(std::equal(apart[1].begin(), apart[1].begin() + bytes, together[0].begin()));
    ASSERT_EQ(apart[2], together[2]);
  }
}

// Rows of odd widths, which begin between packs: sums, places, deviations, softmax and what is
// stored, of several widths, dtypes and beginnings, with a row of weights that begins at a
// boundary.
TEST(CudaRows, ThatBeginBetweenPacks) {
  std::vector<std::string> texts;
  const auto add = [&](const std::string& type, int64_t rows, int64_t n, int64_t begin) {
    const std::string width = number(n), count = number(rows);
    const std::string place = "o0*" + width + " + i0";
    const auto single = [&](const std::string& x) { return type == "f32" ? x : "f32(" + x + ")"; };
    const auto stored = [&](const std::string& x) {
      return type == "f32" ? x : type + "(" + x + ")";
    };
    const std::string x = single("load(b0, " + place + (begin ? " + " + number(begin) : "") + ")");
    texts.push_back("kernel norm(b0: " + type + " in, b1: " + type + " in, b2: " + type +
                    " out, b3: f32 out) outer(o0 < " + count + ") inner(i0 < " + width +
                    ") {\n t0 = " + x + "\n r0 = welford(t0) inner\n r1 = max(t0) inner\n" +
                    " store(b2, " + place + ", " +
                    stored("mul(sub(t0, r0.0), " + single("load(b1, i0)") + ")") +
                    ") inner\n store(b3, o0, add(r0.1, r1))\n}");
    texts.push_back("kernel softmax(b0: " + type + " in, b1: f32 out) outer(o0 < " + count +
                    ") inner(i0 < " + width + ") {\n t0 = " + x +
                    "\n r0 = max(t0) inner\n r1 = sum(exp(sub(t0, r0))) inner\n store(b1, o0, "
                    "add(r0, log(r1)))\n}");
    texts.push_back("kernel place(b0: " + type + " in, b1: i64 out, b2: f32 out) outer(o0 < " +
                    count + ") inner(i0 < " + width + ") {\n t0 = " + x +
                    "\n r0 = argmax(t0) inner\n store(b1, o0, r0)\n store(b2, o0, r0.1)\n}");
  };
  for (const std::string type : {"f16", "f32"})
    for (const auto& [rows, width, begin] :
         {std::array<int64_t, 3>{9, 33, 0}, {3, 1001, 2}, {3, 5001, 0}})
      add(type, rows, width, begin);
  loop::ExprPool pool;
  sym::ExprArena arena;
  for (const loop::Kernel& kernel : parse_kernels(texts, pool, arena)) {
    const Nest nest = plan_nest(kernel, tested_gpu(), {.shifts = Shifts::kWherePossible});
    EXPECT_TRUE(nest.shift) << to_string(kernel);
    check_launch(kernel, write_kernel(nest, "shifted"), [&](Buffers& want) {
      ASSERT_TRUE(loop::interpret(kernel, cpp::addresses(want)));
    });
  }
}

// Where rows of two kinds begin differently far behind boundaries, those of one are done by packs;
// widths of whole packs, and few points, are not shifted.
TEST(CudaRows, ThatAreNotShifted) {
  loop::ExprPool pool;
  sym::ExprArena arena;
  const auto shift_of_rows = [&](const std::string& width, const std::string& second) {
    const std::string text =
        "kernel sums(b0: f16 in, b1: f16 in, b2: f32 out) outer(o0 < 15) inner(i0 < " + width +
        ") {\n r0 = sum(mul(f32(load(b0, o0*" + width + " + i0)), f32(load(b1, " + second +
        ")))) inner\n store(b2, o0, r0)\n}";
    const loop::Kernel kernel = parse_kernels({text}, pool, arena)[0];
    const Nest nest = plan_nest(kernel, tested_gpu(), {.shifts = Shifts::kWherePossible});
    check_launch(kernel, write_kernel(nest, "shifted"), [&](Buffers& want) {
      ASSERT_TRUE(loop::interpret(kernel, cpp::addresses(want)));
    });
    return nest.shift;
  };
  EXPECT_TRUE(shift_of_rows("1001", "o0*1001 + i0 + 3"));
  EXPECT_TRUE(shift_of_rows("1001", "o0*1003 + i0"));
  EXPECT_FALSE(shift_of_rows("1000", "o0*1000 + i0"));
  EXPECT_FALSE(shift_of_rows("31", "o0*31 + i0"));
  EXPECT_FALSE(shift_of_rows("1004", "o0*1004 + i0"));
}

// By the model of the device: the backward of a softmax, but no softmax and no norm.
TEST(CudaRows, ThatAreShiftedWhereItPays) {
  loop::ExprPool pool;
  sym::ExprArena arena;
  const auto is_shifted = [&](const std::string& text) {
    return plan_nest(parse_kernels({text}, pool, arena)[0], tested_gpu()).shift.has_value();
  };
  const auto backward = [](const std::string& n) {
    const std::string at = "o0*" + n + " + i0";
    return "kernel backward(b0: f16 in, b1: f16 in, b2: f16 out) outer(o0 < 900) inner(i0 < " + n +
           ") {\n t0 = f32(load(b0, " + at + "))\n t1 = f32(load(b1, " + at +
           "))\n r0 = sum(mul(t0, t1)) inner\n store(b2, " + at +
           ", f16(mul(t1, sub(t0, r0)))) inner\n}";
  };
  EXPECT_TRUE(is_shifted(backward("2047")));
  EXPECT_FALSE(is_shifted(backward("333")));
  EXPECT_FALSE(is_shifted(softmax(900, 2047)));
  EXPECT_FALSE(is_shifted(layer_norm("f16", 900, 2047)));
}

}  // namespace
}  // namespace braze::codegen::cuda
