# One test program per folder of tests/unit/.
find_package(GTest QUIET)
if(NOT GTest_FOUND)
  include(FetchContent)
  FetchContent_Declare(googletest URL https://github.com/google/googletest/archive/refs/tags/v1.14.0.tar.gz)
  set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
  FetchContent_MakeAvailable(googletest)
endif()
include(GoogleTest)

# gtest and the library's headers are parsed once for all programs. What is tested is compiled as it is
# shipped, the tests themselves are not worth an optimiser's time.
function(braze_compile_quickly name)
  target_compile_options(${name} PRIVATE -O1 $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  braze_batches(${name})
  if(name STREQUAL braze_base_test)
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <algorithm> <functional> <map> <memory>
                              <optional> <random> <span> <string> <unordered_map> <vector>)
  else()
    target_precompile_headers(${name} REUSE_FROM braze_base_test)
  endif()
endfunction()

foreach(folder base target sym graph passes loop schedule codegen toolchain plan compile kernels)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/*_test.cpp)
  if(sources)
    add_executable(braze_${folder}_test ${sources})
    target_link_libraries(braze_${folder}_test PRIVATE braze_${folder} GTest::gtest_main)
    if(folder STREQUAL codegen OR folder STREQUAL compile OR folder STREQUAL schedule)
      target_link_libraries(braze_${folder}_test PRIVATE braze_codegen braze_toolchain)
    endif()
    if(folder STREQUAL compile)  # random graphs
      target_sources(braze_compile_test PRIVATE
                     ${CMAKE_SOURCE_DIR}/tests/unit/passes/fuzz_support_test.cpp)
    endif()
    target_include_directories(braze_${folder}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit)
    if(folder STREQUAL codegen)  # Triton's interpreter
      target_compile_definitions(braze_codegen_test PRIVATE BRAZE_PYTHON="${Python_EXECUTABLE}"
                                 BRAZE_TEST_SOURCES="${CMAKE_SOURCE_DIR}/tests/unit")
    endif()
    braze_compile_quickly(braze_${folder}_test)
    # `ctest -L core`: the compiler, without what is compiled ahead (kernels).
    set(label core)
    if(folder STREQUAL kernels)
      set(label kernels)
    endif()
    gtest_discover_tests(braze_${folder}_test DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${label})
    if(folder MATCHES "^(schedule|codegen|compile)$")  # see tests/unit/exhaustive.h
      gtest_discover_tests(braze_${folder}_test DISCOVERY_TIMEOUT 60 TEST_PREFIX exhaustive.
                           TEST_FILTER "-*EndToEnd*:CacheKey*:DirectPlan*"
                           PROPERTIES LABELS exhaustive ENVIRONMENT BRAZE_EXHAUSTIVE=1)
    endif()
  endif()
endforeach()

# What touches CPython's internals, without PyTorch: programs that embed an interpreter.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/cpython/*.cpp)
if(sources)
  find_package(Python 3.11 COMPONENTS Interpreter Development.Embed REQUIRED)
  add_executable(braze_cpython_test ${sources})
  target_link_libraries(braze_cpython_test PRIVATE braze_cpython GTest::gtest Python::Python)
  braze_compile_quickly(braze_cpython_test)
  add_test(NAME cpython COMMAND braze_cpython_test)
  # The interpreter keeps much until the process ends.
  set_tests_properties(cpython PROPERTIES ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
endif()

# What needs PyTorch: programs that embed an interpreter where the folder's main.cpp starts one.
if(BRAZE_EXTENSION)
  foreach(folder trace runtime guard capture dispatch)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/*.cpp)
    if(sources)
      find_package(Python 3.11 COMPONENTS Interpreter Development.Embed REQUIRED)
      add_executable(braze_${folder}_test ${sources})
      target_link_libraries(braze_${folder}_test PRIVATE braze_${folder})
      braze_compile_quickly(braze_${folder}_test)
      # The extension finds PyTorch's OpenMP in the process; a program names its own.
      target_link_options(braze_${folder}_test PRIVATE -fopenmp)
      if(folder STREQUAL runtime)  # without Python; plans from graphs
        target_link_libraries(braze_runtime_test PRIVATE braze_compile)
      else()
        target_link_libraries(braze_${folder}_test PRIVATE Python::Python)
      endif()
      if(EXISTS ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/main.cpp)
        target_link_libraries(braze_${folder}_test PRIVATE GTest::gtest)
      else()
        target_link_libraries(braze_${folder}_test PRIVATE GTest::gtest_main)
      endif()
      target_include_directories(braze_${folder}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit)
      target_compile_definitions(braze_${folder}_test PRIVATE BRAZE_PYTHON="${Python_EXECUTABLE}")
      add_test(NAME ${folder} COMMAND braze_${folder}_test)
    endif()
  endforeach()
endif()
