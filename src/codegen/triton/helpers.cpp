#include "codegen/triton/helpers.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace braze::codegen::triton {
namespace {

struct Helper {
  std::string_view name;
  std::string_view text;
};

// Each behind those that it calls. Numbers of Python's take the type of what they stand beside.
constexpr Helper kHelpers[] = {
    {"sigmoid", R"(
def sigmoid(x):
    return tl.div_rn(1.0, 1.0 + libdevice.exp(x * -1.0))
)"},
    {"sigmoid_f64", R"(
def sigmoid_f64(x):
    return 1.0 / (1.0 + libdevice.exp(x * -1.0))
)"},
    {"minimum", R"(
def minimum(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
)"},
    {"maximum", R"(
def maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
)"},
    {"minimum_f64", R"(
def minimum_f64(a, b):
    return tl.where(a != a, a, tl.where(b != b, b, tl.where(b < a, b, a)))
)"},
    {"maximum_f64", R"(
def maximum_f64(a, b):
    return tl.where(a != a, a, tl.where(b != b, b, tl.where(a < b, b, a)))
)"},
    {"mod_float", R"(
def mod_float(a, b):
    r = libdevice.fmod(a, b)
    return tl.where((r != 0) & ((b < 0) ^ (r < 0)), r + b, r)
)"},
    {"floordiv_float", R"(
def floordiv_float(a, b):
    # As c10::div_floor_floating: exact where a / b would round up.
    r = libdevice.fmod(a, b)
    q = tl.div_rn(a - r, b)
    q = tl.where((r != 0) & ((b < 0) ^ (r < 0)), q - 1.0, q)
    whole = libdevice.floor(q)
    whole = tl.where(q - whole > 0.5, whole + 1.0, whole)
    quotient = tl.div_rn(a, b)
    whole = tl.where(q == 0, tl.where(quotient < 0, -0.0, 0.0), whole)
    return tl.where(b == 0, quotient, whole)
)"},
    {"floordiv_f64", R"(
def floordiv_f64(a, b):
    # As c10::div_floor_floating: exact where a / b would round up.
    r = libdevice.fmod(a, b)
    q = (a - r) / b
    q = tl.where((r != 0) & ((b < 0) ^ (r < 0)), q - 1.0, q)
    whole = libdevice.floor(q)
    whole = tl.where(q - whole > 0.5, whole + 1.0, whole)
    quotient = a / b
    whole = tl.where(q == 0, tl.where(quotient < 0, -0.0, 0.0), whole)
    return tl.where(b == 0, quotient, whole)
)"},
    {"divisor", R"(
def divisor(d):
    # What many numbers are divided by, for quotients to be rounded to halves: within two units in
    # the last place. The scale keeps the reciprocal of very small and very large ones.
    size = tl.abs(d)
    scale = tl.where(size < 1e-30, 1.8446744e19, tl.where(size > 1e30, 5.4210109e-20, 1.0))
    return scale, tl.div_rn(1.0, d * scale)
)"},
    {"truncdiv_int", R"(
def truncdiv_int(a, b):
    return tl.where(b == -1, 0 - a, a // tl.where(b == -1, 1, b))
)"},
    {"fmod_int", R"(
def fmod_int(a, b):
    return tl.where(b == -1, 0, a % tl.where(b == -1, 1, b))
)"},
    {"floordiv_int", R"(
def floordiv_int(a, b):
    q = truncdiv_int(a, b)
    r = fmod_int(a, b)
    return tl.where((r != 0) & ((r < 0) ^ (b < 0)), q - 1, q)
)"},
    {"mod_int", R"(
def mod_int(a, b):
    r = fmod_int(a, b)
    return tl.where((r != 0) & ((r < 0) ^ (b < 0)), r + b, r)
)"},
    {"power_int", R"(
def power_int(a, b):
    zero = a * 0 + b * 0
    result = zero + 1
    base = zero + a
    left = zero + b
    for _ in range(64):
        result = tl.where((left & 1) != 0, result * base, result)
        base = base * base
        left = left >> 1
    negative = tl.where(a == 1, 1, tl.where(a == -1, tl.where((b & 1) == 0, 1, -1), 0))
    return tl.where(b < 0, negative, result)
)"},
    {"shl_int", R"(
def shl_int(a, b, BITS: tl.constexpr):
    return tl.where((b < 0) | (b >= BITS), 0, a << b)
)"},
    {"shr_int", R"(
def shr_int(a, b, BITS: tl.constexpr):
    return tl.where((b < 0) | (b >= BITS), tl.where(a < 0, -1, 0), a >> b)
)"},
    {"product", R"(
def product(a, b):
    return a * b
)"},
    {"sums_of", R"(
def sums_of(a, b, other_a, other_b):
    return a + other_a, b + other_b
)"},
    {"argmax_of", R"(
def argmax_of(a, i, b, j):
    # The first of the largest; what is not a number is larger than all.
    better = (a > b) | ((a != a) & (b == b))
    equal = (a == b) | ((a != a) & (b != b))
    first = better | (equal & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)
)"},
    {"argmin_of", R"(
def argmin_of(a, i, b, j):
    # The first of the smallest; what is not a number is smaller than all.
    better = (a < b) | ((a != a) & (b == b))
    equal = (a == b) | ((a != a) & (b != b))
    first = better | (equal & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)
)"},
    {"welford_of", R"(
def welford_of(mean, m2, count, other_mean, other_m2, other_count):
    # Chan, Golub, LeVeque (1979): mean and squared deviations of two parts together.
    both = count + other_count
    share = tl.where(both == 0, 0.0, other_count / both)
    delta = other_mean - mean
    return mean + delta * share, m2 + other_m2 + delta * delta * count * share, both
)"},
    {"add_to_welford", R"(
def add_to_welford(mean, m2, count, x, one):
    # `one`: 0 where x does not count.
    count += one
    delta = tl.where(one != 0, x - mean, 0.0)
    mean += delta / tl.where(count == 0, 1.0, count)
    return mean, m2 + tl.where(one != 0, delta * (x - mean), 0.0), count
)"},
    {"add_to_exponentials", R"(
def add_to_exponentials(top, total, x):
    # The sum of exp(x - top) for the largest x as yet (Milakov, Gimelshein 2018).
    distance = x - top
    near = libdevice.exp(tl.abs(distance) * -1.0)
    rest = tl.where(x == float("-inf"), total, total + near)
    total = tl.where(distance > 0, total * near + 1.0, rest)
    return maximum(top, x), total
)"},
    {"add_to_exponentials_of_halves", R"(
def add_to_exponentials_of_halves(top, total, x):
    # The same, of numbers beside whose own rounding that of a fast exponential is nothing.
    distance = x - top
    near = tl.exp(tl.abs(distance) * -1.0)
    rest = tl.where(x == float("-inf"), total, total + near)
    total = tl.where(distance > 0, total * near + 1.0, rest)
    return maximum(top, x), total
)"},
};

constexpr std::string_view kImports = R"(import triton
import triton.language as tl
from triton.language.extra import libdevice
)";

}  // namespace

std::string source_of_helpers(const Helpers& helpers) {
  std::string text(kImports);
  size_t found = 0;
  for (const Helper& helper : kHelpers) {
    if (!helpers.contains(helper.name)) continue;
    text += "\n\n@triton.jit" + std::string(helper.text);
    ++found;
  }
  BRAZE_CHECK(found == helpers.size(), "a function that there is not");
  return text;
}

}  // namespace braze::codegen::triton
