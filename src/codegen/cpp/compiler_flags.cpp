#include "codegen/cpp/codegen.h"

namespace braze::codegen::cpp {

std::vector<std::string> compiler_flags(Isa isa) {
  // Contraction is off because eager rounds after each op; the math helpers and the reductions ask
  // for fused multiply-add themselves.
  std::vector<std::string> flags = {"-std=c++17",
                                    "-O2",
                                    "-fPIC",
                                    "-w",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-ffp-contract=off",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-asynchronous-unwind-tables"};
  switch (isa) {
    case Isa::kGeneric:
      break;
    case Isa::kAvx2:
      for (const char* f : {"-mavx2", "-mfma", "-mf16c"}) flags.emplace_back(f);
      break;
    case Isa::kAvx512:
      for (const char* f : {"-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma",
                            "-mf16c", "-mprefer-vector-width=512"})
        flags.emplace_back(f);
      break;
  }
  return flags;
}

}  // namespace braze::codegen::cpp
