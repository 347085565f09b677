// Every function of one argument over all exponents, against libm in a wider type.
#include <bit>
#include <cmath>
#include <functional>

#include "codegen/run_kernels.h"

namespace braze::codegen::cpp {
namespace {

struct Function {
  const char* name;
  std::function<double(double)> exact;
  double limit = 2;  // ulp
};

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {"exp", [](double x) { return std::exp(x); }},
      {"exp2", [](double x) { return std::exp2(x); }},
      {"expm1", [](double x) { return std::expm1(x); }},
      {"log", [](double x) { return std::log(x); }},
      {"log2", [](double x) { return std::log2(x); }},
      {"log10", [](double x) { return std::log10(x); }},
      {"log1p", [](double x) { return std::log1p(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }, 0.501},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"sin", [](double x) { return std::sin(x); }},
      {"cos", [](double x) { return std::cos(x); }},
      {"tan", [](double x) { return std::tan(x); }},
      {"asin", [](double x) { return std::asin(x); }},
      {"acos", [](double x) { return std::acos(x); }},
      {"atan", [](double x) { return std::atan(x); }},
      {"sinh", [](double x) { return std::sinh(x); }},
      {"cosh", [](double x) { return std::cosh(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"erf", [](double x) { return std::erf(x); }},
      // As eager: 0 where e^-x overflows in f32.
      {"sigmoid",
       [](double x) { return std::exp(-x) > 3.402823567e38 ? 0 : 1 / (1 + std::exp(-x)); }},
      {"floor", [](double x) { return std::floor(x); }, 0},
      {"ceil", [](double x) { return std::ceil(x); }, 0},
      {"trunc", [](double x) { return std::trunc(x); }, 0},
      {"round", [](double x) { return std::nearbyint(x); }, 0},
  };
  return all;
}

// Distance in units of the last place of the exact value, which may lie between floats.
double ulps(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : 1e9;
  if (rounded == got) return 0;
  if (std::isinf(got) || std::isinf(rounded)) {
    // One step from the largest finite number is fair.
    const float finite = std::isinf(got) ? rounded : got;
    return std::fabs(finite) >= 3.40282e38f && std::signbit(got) == std::signbit(rounded) ? 1 : 1e9;
  }
  const float magnitude = std::max(std::fabs(rounded), 0x1p-126f);
  const double unit = std::ldexp(1.0, std::ilogb(magnitude) - 23);
  return std::fabs(static_cast<double>(got) - exact) / unit;
}

constexpr int64_t kCount = 1 << 16;

std::vector<float> inputs() {
  std::vector<float> result = {
      0.0f,         -0.0f,       1.0f,       -1.0f,         INFINITY, -INFINITY,
      NAN,          1e-45f,      -1e-45f,    1e-38f,        3.4e38f,  -3.4e38f,
      88.72f,       88.73f,      -103.9f,    -104.0f,       -87.4f,   0.5f,
      1.5f,         2.5f,        8388609.0f, 0x1p28f,       0x1p29f,  4e9f,
      0.625f,       0.9277f,     4.0f,       1e-7f,         128.0f,   -149.0f,
      -0.99999994f, 0.99999994f, 1.0000001f, 2147483648.0f, -9e18f,   1e10f};
  std::mt19937 random(7);
  while (result.size() < kCount) {
    if (result.size() % 4 == 0) {  // any bits
      result.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    } else {  // where the functions are interesting
      const double scale[] = {1, 10, 100, 1.2};
      result.push_back(static_cast<float>(std::uniform_real_distribution<double>(-1, 1)(random) *
                                          scale[random() % 4]));
    }
  }
  return result;
}

TEST(VectorMath, WithinTwoUlp) {
  loop::ExprPool pool;
  std::vector<loop::Kernel> kernels;
  for (const Function& f : functions())
    kernels.push_back(loop::parse_kernel(
        "kernel " + std::string(f.name) + "(b0: f32 in, b1: f32 out) outer(o0 < " +
            std::to_string(kCount) + ") {\n store(b1, o0, " + f.name + "(load(b0, o0)))\n}",
        pool));
  const std::vector<float> in = inputs();
  for (Isa isa : tested_isas()) {
    const GeneratedCode generated = generate(kernels, {.isa = isa});
    const auto library = toolchain::build(generated.text, compiler_flags(isa));
    for (size_t k = 0; k < kernels.size(); ++k) {
      const Function& f = functions()[k];
      std::vector<float> out(kCount);
      void* args[] = {const_cast<float*>(in.data()), out.data()};
      const auto run = reinterpret_cast<KernelFunction>(library->symbol(generated.kernels[k].name));
      run(args, nullptr, 0, generated.kernels[k].extent.constant());
      double worst = 0;
      int64_t where = 0;
      for (int64_t i = 0; i < kCount; ++i) {
        const double error = ulps(out[i], f.exact(in[i]));
        if (error > worst) worst = error, where = i;
      }
      EXPECT_LE(worst, f.limit) << target::to_string(isa) << " " << f.name << "(" << in[where]
                                << ") = " << out[where] << ", exactly " << f.exact(in[where]);
      RecordProperty(std::string(target::to_string(isa)) + "_" + f.name, std::to_string(worst));
    }
  }
}

// Every number of [1, 8): 1 + erf(x) is compared with 0, sqrt(1 - sin(x)^2) taken.
TEST(VectorMath, NothingBeyondOne) {
  constexpr const char* kNames[] = {"erf", "tanh", "sigmoid", "sin", "cos"};
  loop::ExprPool pool;
  std::vector<loop::Kernel> kernels;
  for (const char* name : kNames)
    kernels.push_back(loop::parse_kernel(
        "kernel " + std::string(name) + "(b0: f32 in, b1: f32 out) outer(o0 < " +
            std::to_string(kCount) + ") {\n store(b1, o0, " + name + "(load(b0, o0)))\n}",
        pool));
  for (Isa isa : tested_isas()) {
    const GeneratedCode generated = generate(kernels, {.isa = isa});
    const auto library = toolchain::build(generated.text, compiler_flags(isa));
    std::vector<float> in(kCount), out(kCount);
    for (size_t k = 0; k < kernels.size(); ++k) {
      const auto run = reinterpret_cast<KernelFunction>(library->symbol(generated.kernels[k].name));
      void* args[] = {in.data(), out.data()};
      const auto end = std::bit_cast<uint32_t>(8.0f);
      for (auto first = std::bit_cast<uint32_t>(1.0f); first < end; first += kCount) {
        for (uint32_t i = 0; i < kCount; ++i) in[i] = std::bit_cast<float>(first + i);
        run(args, nullptr, 0, generated.kernels[k].extent.constant());
        for (int64_t i = 0; i < kCount; ++i)
          ASSERT_LE(std::fabs(out[i]), 1.0f)
              << target::to_string(isa) << " " << kNames[k] << "(" << in[i] << ")";
      }
    }
  }
}

TEST(VectorMath, FunctionsOfTwoArguments) {
  const std::vector<float> special = {
      0.0f, -0.0f,  1.0f,  -1.0f,  2.0f,     -2.0f,     3.0f, -3.0f,       0.5f, -0.5f,
      2.5f, 1e-40f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN,  16777217.0f, 0.1f};
  std::vector<float> x, y;
  for (float a : special)
    for (float b : special) x.push_back(a), y.push_back(b);
  std::mt19937 random(5);
  std::uniform_real_distribution<float> wide(-20, 20);
  while (x.size() < 4096) x.push_back(wide(random)), y.push_back(wide(random));
  loop::ExprPool pool;
  std::vector<loop::Kernel> kernels;
  for (const char* name : {"pow", "atan2"})
    kernels.push_back(
        loop::parse_kernel("kernel " + std::string(name) +
                               "(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < 4096) {\n"
                               " store(b2, o0, " +
                               name + "(load(b0, o0), load(b1, o0)))\n}",
                           pool));
  for (Isa isa : tested_isas()) {
    const GeneratedCode generated = generate(kernels, {.isa = isa});
    const auto library = toolchain::build(generated.text, compiler_flags(isa));
    for (size_t k = 0; k < 2; ++k) {
      std::vector<float> out(4096);
      void* args[] = {x.data(), y.data(), out.data()};
      const auto run = reinterpret_cast<KernelFunction>(library->symbol(generated.kernels[k].name));
      run(args, nullptr, 0, generated.kernels[k].extent.constant());
      for (size_t i = 0; i < out.size(); ++i) {
        const double exact = k == 0
                                 ? std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]))
                                 : std::atan2(static_cast<double>(x[i]), static_cast<double>(y[i]));
        EXPECT_LE(ulps(out[i], exact), 2)
            << target::to_string(isa) << (k ? " atan2(" : " pow(") << x[i] << ", " << y[i]
            << ") = " << out[i] << ", exactly " << exact;
      }
    }
  }
}

}  // namespace
}  // namespace braze::codegen::cpp
