# PyTorch as found by the Python interpreter, without find_package(Torch): that one asks for CUDA
# where the wheel was built with it.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
          "import importlib.util, os; print(os.path.dirname(importlib.util.find_spec('torch').origin))"
  OUTPUT_VARIABLE BRAZE_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
add_library(braze_torch INTERFACE)
target_include_directories(braze_torch SYSTEM INTERFACE
  ${BRAZE_TORCH_DIR}/include ${BRAZE_TORCH_DIR}/include/torch/csrc/api/include)
# PyTorch's headers include the operators that they use, not all there are: a quarter of what its autograd
# headers take. It only says what they include.
target_compile_definitions(braze_torch INTERFACE AT_PER_OPERATOR_HEADERS)
foreach(library torch_cpu torch c10)
  target_link_libraries(braze_torch INTERFACE ${BRAZE_TORCH_DIR}/lib/lib${library}.so)
endforeach()

# What the extension was compiled for, which is looked at before it is loaded.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import importlib.metadata; print(importlib.metadata.version('torch'))"
  OUTPUT_VARIABLE BRAZE_TORCH_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${CMAKE_BINARY_DIR}/generated/_built_for.py "TORCH = \"${BRAZE_TORCH_VERSION}\"\n")
install(FILES ${CMAKE_BINARY_DIR}/generated/_built_for.py DESTINATION braze)
