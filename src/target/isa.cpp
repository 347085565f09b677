#include "target/isa.h"

#include "base/error.h"
#include "base/options.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace braze::target {
namespace {

#if defined(__x86_64__) || defined(__i386__)

// Register state that the operating system saves on a task switch (XCR0).
uint64_t saved_state() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

Isa detect() {
  constexpr uint64_t kAvxState = 0x6;      // XMM, YMM
  constexpr uint64_t kAvx512State = 0xe6;  // and opmask, upper halves, ZMM16-31
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return Isa::kGeneric;
  const bool os_saves = c & bit_OSXSAVE;
  const bool has_fma = (c & bit_FMA) && (c & bit_AVX) && (c & bit_F16C);
  if (!os_saves || !has_fma || (saved_state() & kAvxState) != kAvxState) return Isa::kGeneric;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return Isa::kGeneric;
  constexpr uint32_t kAvx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
  const bool has_avx512 =
      (b & kAvx512) == kAvx512 && (saved_state() & kAvx512State) == kAvx512State;
  return has_avx512 ? Isa::kAvx512 : Isa::kAvx2;
}

#else

Isa detect() { return Isa::kGeneric; }

#endif

}  // namespace

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return "generic";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  BRAZE_UNREACHABLE("isa ", static_cast<int>(isa));
}

Isa host_isa() {
  static const Isa isa = detect();
  return isa;
}

Isa chosen_isa() {
  for (Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512})
    if (to_string(isa) == options().isa && isa <= host_isa()) return isa;
  return host_isa();
}

}  // namespace braze::target
