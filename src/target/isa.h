// Vector instruction sets of the CPUs that kernels are made for.
#pragma once

#include <cstdint>
#include <string_view>

namespace braze::target {

// Each has what the ones before it have. kGeneric: none that is known, as on all processors that
// are no x86.
enum class Isa : uint8_t { kGeneric, kAvx2, kAvx512 };
std::string_view to_string(Isa isa);
Isa host_isa();    // by cpuid
Isa chosen_isa();  // the host's, or the lesser one that BRAZE_ISA names

}  // namespace braze::target
