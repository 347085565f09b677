# One target per folder of src/. A target's include path holds its own folder and those of its
# dependencies only, as links, so that an include that the design does not allow does not build.

set(BRAZE_WARNINGS -Wall -Wextra -Wno-missing-field-initializers $<$<BOOL:${BRAZE_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms of GCC 12's inside of std::string's operator+; seen where the library's headers
  # come precompiled.
  list(APPEND BRAZE_WARNINGS -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
endif()

# Lets ccache see what is behind a precompiled header.
set(BRAZE_PRECOMPILE_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)

# Compiles the sources of a target in batches of at most 25, each as one: headers are parsed, and templates
# that they leave to be instantiated are instantiated, once for all. So names in the anonymous namespaces
# of a folder differ. A source with compiler options of its own is compiled alone.
function(braze_batches name)
  if(BRAZE_UNITY)
    set(size 25)
    get_target_property(sources ${name} SOURCES)
    list(LENGTH sources count)
    if(count GREATER size)  # batches of one size
      math(EXPR batches "(${count} + ${size} - 1) / ${size}")
      math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
    endif()
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
    # GCC takes a class in a batch for one of a header, where it may not use an anonymous namespace.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Headers under PRECOMPILE are parsed once for all sources of the target: those that most of them
# need, and no more, since templates that a header leaves to be instantiated, as ATen's do, are
# instantiated in each source. Without the word, the sources share what the target PRECOMPILED_BY has
# precompiled; by default `base`, the library's headers: a third of what a source of the core takes.
function(braze_library name)
  cmake_parse_arguments(ARG "TORCH" "PRECOMPILED_BY" "DEPENDS;LIBRARIES;INCLUDES;PRECOMPILE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  set(view ${CMAKE_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${view})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${name} ${view}/${name} SYMBOLIC)
  if(sources)
    add_library(braze_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_compile_options(braze_${name} PRIVATE ${BRAZE_WARNINGS} ${BRAZE_PRECOMPILE_OPTIONS})
    if(ARG_PRECOMPILE)
      list(TRANSFORM ARG_PRECOMPILE REPLACE "(.+)" "<\\1>")
      target_precompile_headers(braze_${name} PRIVATE ${ARG_PRECOMPILE})
    elseif(ARG_PRECOMPILED_BY)
      target_precompile_headers(braze_${name} REUSE_FROM braze_${ARG_PRECOMPILED_BY})
    else()
      target_precompile_headers(braze_${name} REUSE_FROM braze_base)
    endif()
    braze_batches(braze_${name})
    if(BRAZE_CHECKS)
      target_compile_definitions(braze_${name} PUBLIC BRAZE_CHECKS=1)
    endif()
    if(BRAZE_SANITIZE)
      target_compile_options(braze_${name} PUBLIC -fsanitize=${BRAZE_SANITIZE} -fno-omit-frame-pointer)
      target_link_options(braze_${name} PUBLIC -fsanitize=${BRAZE_SANITIZE})
    endif()
  else()
    add_library(braze_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(braze_${name} ${scope} ${view})
  target_include_directories(braze_${name} SYSTEM ${scope} ${ARG_INCLUDES})
  foreach(dependency ${ARG_DEPENDS})
    target_link_libraries(braze_${name} ${scope} braze_${dependency})
  endforeach()
  target_link_libraries(braze_${name} ${scope} ${ARG_LIBRARIES})
  if(ARG_TORCH)
    target_link_libraries(braze_${name} ${scope} braze_torch)
  endif()
endfunction()

# Adds to the target a generated source with the hash of the given folders' contents.
function(braze_source_hash name)
  cmake_parse_arguments(ARG "" "" "FOLDERS" ${ARGN})
  set(globs "")
  foreach(folder ${ARG_FOLDERS})
    list(APPEND globs ${CMAKE_SOURCE_DIR}/src/${folder}/*)
  endforeach()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${globs})
  set(output ${CMAKE_BINARY_DIR}/generated/${name}_version.cpp)
  string(REPLACE ";" "," folders "${ARG_FOLDERS}")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}/src -DFOLDERS=${folders} -DOUTPUT=${output}
            -P ${CMAKE_SOURCE_DIR}/cmake/SourceHash.cmake
    DEPENDS ${sources} ${CMAKE_SOURCE_DIR}/cmake/SourceHash.cmake
    VERBATIM)
  target_sources(braze_${name} PRIVATE ${output})
endfunction()

# A source of src/kernels/ that is compiled for more than the least processor, with the vector math of
# generated kernels in vector_math_<name>.inc.
function(braze_kernel_variant name)
  cmake_parse_arguments(ARG "" "" "FLAGS" ${ARGN})
  if(NOT TARGET braze_emit_vector_math)
    add_executable(braze_emit_vector_math ${CMAKE_SOURCE_DIR}/cmake/emit_vector_math.cpp)
    target_link_libraries(braze_emit_vector_math PRIVATE braze_codegen)
  endif()
  set(folder ${CMAKE_BINARY_DIR}/generated/kernels)
  set(output ${folder}/vector_math_${name}.inc)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${output} COMMAND braze_emit_vector_math ${name} ${output}
                     DEPENDS braze_emit_vector_math VERBATIM)
  target_sources(braze_kernels PRIVATE ${output})
  target_include_directories(braze_kernels PRIVATE ${folder})
  # As generated kernels are: rounding after each operation but where a fused one is asked for.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/${name}.cpp PROPERTIES
    COMPILE_OPTIONS "${ARG_FLAGS};-O3;-fno-math-errno;-fno-trapping-math;-ffp-contract=off;-w"
    SKIP_PRECOMPILE_HEADERS ON OBJECT_DEPENDS ${output})
endfunction()

# A program that the extension starts; it lies beside it, as braze_<name>.
function(braze_program name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  add_executable(braze_${name} ${sources})
  target_compile_options(braze_${name} PRIVATE ${BRAZE_WARNINGS})
  foreach(dependency ${ARG_DEPENDS})
    target_link_libraries(braze_${name} PRIVATE braze_${dependency})
  endforeach()
  # The process that starts it may have brought a libstdc++ that the loader does not find by itself.
  target_link_options(braze_${name} PRIVATE -static-libstdc++ -static-libgcc)
  install(TARGETS braze_${name} RUNTIME DESTINATION braze)
endfunction()

function(braze_module name)
  cmake_parse_arguments(ARG "" "FOLDER" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${ARG_FOLDER}/*.cpp)
  if(NOT sources)
    return()
  endif()
  set(view ${CMAKE_BINARY_DIR}/include/${ARG_FOLDER})
  file(MAKE_DIRECTORY ${view})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${ARG_FOLDER} ${view}/${ARG_FOLDER} SYMBOLIC)
  pybind11_add_module(${name} MODULE NO_EXTRAS ${sources})
  target_include_directories(${name} PRIVATE ${view})
  target_compile_options(${name} PRIVATE ${BRAZE_WARNINGS})
  braze_batches(${name})
  foreach(dependency ${ARG_DEPENDS})
    target_link_libraries(${name} PRIVATE braze_${dependency})
  endforeach()
  # Some toolchains link their own libstdc++ statically. Its symbols must not mix with those of the
  # libstdc++ that torch has loaded: a locale of one knows no facets of the other.
  target_link_options(${name} PRIVATE $<$<PLATFORM_ID:Linux>:LINKER:--exclude-libs,ALL>)
  # What they are wrapped in, and why: src/bindings/ending.cpp and statics.cpp.
  foreach(wrapped __gxx_personality_v0 __cxa_atexit
          __cxa_guard_acquire __cxa_guard_release __cxa_guard_abort)
    target_link_options(${name} PRIVATE LINKER:--wrap=${wrapped})
  endforeach()
  install(TARGETS ${name} LIBRARY DESTINATION braze)
endfunction()
