# millrace_module(<name> SOURCES ... [USES module ...] [LINKS library ...]): the static library of src/<name>.
function(millrace_flags target)
  # Pillow's and torch's arithmetic is reproduced to the bit: no silent fused multiply-adds, on the GPU neither.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off
      -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>  # the same object in every folder
    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false -Xcompiler=-Wall,-Wno-unknown-pragmas,-ffp-contract=off>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms on std::string's operator+ (GCC bug 105651).
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  endif()
  if(MILLRACE_UNITY)
    # A class of one file may hold what has a namespace without a name; GCC takes the unit of several for a header.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
  if(MILLRACE_DEVELOPER)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
  if(MILLRACE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer -g1)
    target_link_options(${target} PRIVATE -fsanitize=${MILLRACE_SANITIZE})
  endif()
endfunction()

function(millrace_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES;LINKS")
  set(kind PUBLIC)
  if(arg_SOURCES)
    add_library(millrace_${name} STATIC ${arg_SOURCES})
    millrace_flags(millrace_${name})
  else()
    add_library(millrace_${name} INTERFACE)
    set(kind INTERFACE)
  endif()
  target_include_directories(millrace_${name} ${kind} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  foreach(module IN LISTS arg_USES)
    target_link_libraries(millrace_${name} ${kind} millrace_${module})
  endforeach()
  target_link_libraries(millrace_${name} ${kind} ${arg_LINKS})
  # What libmillrace.a is put together from (MillraceLibrary.cmake).
  set_property(GLOBAL PROPERTY millrace_uses_of_${name} "${arg_USES}")
  set_property(GLOBAL PROPERTY millrace_links_of_${name} "${arg_LINKS}")
endfunction()

# millrace_simd_sources(<file> ...): files of kernels that Highway compiles once per instruction set. Its portable version, which
# only x86 machines from before 2009 would need, takes minutes to compile under the sanitizers, so SSE4.2 is the least.
function(millrace_simd_sources)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -msse4.2)
  endif()
endfunction()

# millrace_test(<name> SOURCES ... ONE_THREAD ... USES module ...): one GoogleTest program, its cases registered with ctest. ONE_THREAD:
# sources that start no thread, of modules that start none. The thread sanitizer would find nothing there, and its build would take longer.
function(millrace_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;ONE_THREAD;USES;LINKS")
  if(NOT MILLRACE_SANITIZE STREQUAL "thread")
    list(APPEND arg_SOURCES ${arg_ONE_THREAD})
  elseif(NOT arg_SOURCES)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  millrace_flags(${name})
  foreach(module IN LISTS arg_USES)
    target_link_libraries(${name} PRIVATE millrace_${module})
  endforeach()
  target_link_libraries(${name} PRIVATE ${arg_LINKS} millrace_test_data GTest::gtest_main Threads::Threads)
  target_compile_options(${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)  # nobody waits for a test's own code
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST)
endfunction()
