// Conversions from and to half floats, to the bit, at every number of lanes.
#include <bit>
#include <cmath>
#include <functional>

#include "codegen/run_kernels.h"

namespace braze::codegen::cpp {
namespace {

// Elements of one run: no lanes, then 4, 8, and as many as a vector has, each but the first with
// some left over.
constexpr int64_t kLengths[] = {2, 5, 11, 4099};

struct Format {
  std::string name;
  uint16_t infinity;  // its bits
  // Of positive bits; infinity's count as the power of two behind the largest number.
  std::function<double(uint16_t)> value;
  std::function<uint16_t(uint32_t)> nan_of;  // what a NaN of f32 becomes
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"f16", 0x7c00,
       [](uint16_t h) {
         const int exponent = h >> 10, fraction = h & 0x3ff;
         return exponent == 0 ? std::ldexp(fraction, -24)
                              : std::ldexp(1024 + fraction, exponent - 25);
       },
       [](uint32_t nan) { return static_cast<uint16_t>(0x7e00 | (nan >> 16 & 0x8000)); }},
      {"bf16", 0x7f80,
       [](uint16_t h) {
         const int exponent = h >> 7, fraction = h & 0x7f;
         return exponent == 0 ? std::ldexp(fraction, -133)
                              : std::ldexp(128 + fraction, exponent - 134);
       },
       [](uint32_t) { return uint16_t{0x7fc0}; }},
  };
  return all;
}

// Converts all of `in` by kernels of each length, over and over; check(result, what was run) is
// called for each instruction set and length.
template <class In, class Out>
void convert_all(const std::string& in_type, const std::string& out_type, const std::vector<In>& in,
                 const std::function<void(const std::vector<Out>&, const std::string&)>& check) {
  loop::ExprPool pool;
  std::vector<loop::Kernel> kernels;
  for (int64_t length : kLengths)
    kernels.push_back(loop::parse_kernel(
        "kernel cast(b0: " + in_type + " in, b1: " + out_type + " out) outer(o0 < " +
            std::to_string(length) + ") {\n store(b1, o0, " + out_type + "(load(b0, o0)))\n}",
        pool));
  for (Isa isa : tested_isas()) {
    const GeneratedCode generated = generate(kernels, {.isa = isa});
    const auto library = toolchain::build(generated.text, compiler_flags(isa));
    for (size_t k = 0; k < kernels.size(); ++k) {
      const auto run = reinterpret_cast<KernelFunction>(library->symbol(generated.kernels[k].name));
      const int64_t extent = generated.kernels[k].extent.constant();
      const auto count = static_cast<int64_t>(in.size());
      std::vector<In> source = in;
      source.resize(count + kLengths[k]);
      std::vector<Out> result(source.size());
      for (int64_t first = 0; first < count; first += kLengths[k]) {
        void* args[] = {source.data() + first, result.data() + first};
        ASSERT_EQ(run(args, nullptr, 0, extent), 0);
      }
      check(result, std::string(target::to_string(isa)) + ", " + std::to_string(kLengths[k]) +
                        " elements of " + in_type);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

template <class Wide>
void check_widening(const Format& format, const std::string& type) {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  convert_all<uint16_t, Wide>(
      format.name, type, all, [&](const std::vector<Wide>& got, const std::string& where) {
        for (uint16_t h : all) {
          const auto magnitude = static_cast<uint16_t>(h & 0x7fff);
          ASSERT_EQ(std::signbit(got[h]), h >> 15) << where << ": bits " << h;
          if (magnitude > format.infinity) {
            ASSERT_TRUE(std::isnan(got[h])) << where << ": bits " << h;
          } else if (magnitude == format.infinity) {
            ASSERT_TRUE(std::isinf(got[h])) << where << ": bits " << h;
          } else {
            ASSERT_EQ(std::fabs(got[h]), format.value(magnitude)) << where << ": bits " << h;
          }
        }
      });
}

TEST(Halves, WidenExactly) {
  for (const Format& format : formats()) {
    check_widening<float>(format, "f32");
    check_widening<double>(format, "f64");
  }
}

// Each half, what is in the middle to the next one, the numbers beside the middle, and NaNs.
template <class Wide>
void check_narrowing(const Format& format, const std::string& type) {
  std::vector<Wide> in;
  std::vector<uint16_t> want;
  const auto add = [&](float x, int bits) {
    for (int sign : {0, 0x8000}) {
      in.push_back(sign ? -x : x);
      want.push_back(static_cast<uint16_t>(bits | sign));
    }
  };
  for (int h = 0; h < format.infinity; ++h) {
    const double low = format.value(static_cast<uint16_t>(h));
    const double high = format.value(static_cast<uint16_t>(h + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    add(static_cast<float>(low), h);
    if (static_cast<double>(middle) != (low + high) / 2) continue;  // subnormal in f32
    add(std::nextafter(middle, 0.0f), h);
    add(middle, h + h % 2);
    add(std::nextafter(middle, INFINITY), h + 1);
  }
  add(INFINITY, format.infinity);
  add(std::numeric_limits<float>::max(), format.infinity);
  for (uint32_t nan : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0x7fd23456u})
    for (uint32_t sign : {0u, 0x80000000u}) {
      in.push_back(std::bit_cast<float>(nan | sign));
      want.push_back(format.nan_of(nan | sign));
    }
  convert_all<Wide, uint16_t>(
      type, format.name, in, [&](const std::vector<uint16_t>& got, const std::string& where) {
        for (size_t i = 0; i < in.size(); ++i)
          ASSERT_EQ(got[i], want[i]) << where << ": " << in[i] << " to " << format.name;
      });
}

TEST(Halves, NarrowToTheNearestOrEven) {
  for (const Format& format : formats()) {
    check_narrowing<float>(format, "f32");
    check_narrowing<double>(format, "f64");
  }
}

}  // namespace
}  // namespace braze::codegen::cpp
