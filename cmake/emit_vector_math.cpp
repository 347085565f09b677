// Writes the vector math of generated kernels out as a file, so that kernels compiled ahead compute
// with the same functions: emit_vector_math avx2|avx512 FILE
#include <fstream>
#include <string_view>

#include "codegen/cpp/prelude.h"

int main(int argc, char** argv) {
  using namespace braze;
  if (argc != 3) return 2;
  const bool avx512 = std::string_view(argv[1]) == "avx512";
  codegen::cpp::Prelude prelude(avx512 ? target::Isa::kAvx512 : target::Isa::kAvx2);
  using loop::ExprKind;
  for (ExprKind kind : {ExprKind::kExp, ExprKind::kErf, ExprKind::kTanh})
    prelude.math(kind, graph::DType::kFloat32, avx512 ? 16 : 8);
  std::ofstream file(argv[2]);
  file << prelude.text();
  return file.flush() ? 0 : 1;
}
