# Every outside library, found here and nowhere else; millrace-externals.cmake.in has those of libmillrace.a for its users.
#
# millrace_find(<target> <package> ...): find_package(<package> ...) with a target that the projects above can see as well, if millrace
# is a part of one: they link libmillrace.a and its dependencies.
macro(millrace_find target)
  if(NOT TARGET ${target})
    find_package(${ARGN} ${MILLRACE_QUIET})
    if(TARGET ${target} AND NOT PROJECT_IS_TOP_LEVEL)
      set_target_properties(${target} PROPERTIES IMPORTED_GLOBAL TRUE)
    endif()
  endif()
endmacro()

millrace_find(Threads::Threads Threads REQUIRED)

millrace_find(JPEG::JPEG JPEG REQUIRED)
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
set(CMAKE_REQUIRED_QUIET ${MILLRACE_QUIET})
check_cxx_source_compiles("
  #include <cstddef>
  #include <cstdio>
  #include <jpeglib.h>
  int main() {
    jpeg_decompress_struct c;
    JDIMENSION x = 0, w = 8;
    jpeg_crop_scanline(&c, &x, &w);
    return jpeg_skip_scanlines(&c, 1);
  }"
  MILLRACE_HAVE_LIBJPEG_TURBO)
unset(CMAKE_REQUIRED_LIBRARIES)
unset(CMAKE_REQUIRED_QUIET)
if(NOT MILLRACE_HAVE_LIBJPEG_TURBO)
  message(FATAL_ERROR "millrace needs libjpeg-turbo 2.1 or newer (jpeg_crop_scanline); "
    "install libjpeg62-turbo-dev or libjpeg-turbo-devel")
endif()

find_package(PkgConfig QUIET)
millrace_find(ZLIB::ZLIB ZLIB REQUIRED)

# PkgConfig::<name> of these modules, or an error that names the requirement and the package of Debian or Fedora that has it.
set(MILLRACE_TARGETS_GLOBAL "")
if(NOT PROJECT_IS_TOP_LEVEL)
  set(MILLRACE_TARGETS_GLOBAL GLOBAL)
endif()
macro(millrace_require name what packages)
  if(PkgConfig_FOUND)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${MILLRACE_TARGETS_GLOBAL} ${ARGN})
  endif()
  if(NOT TARGET PkgConfig::${name})
    message(FATAL_ERROR "millrace needs ${what}; install ${packages}")
  endif()
endmacro()

millrace_require(HWY "Google Highway 1.0 or newer" "libhwy-dev or highway-devel" "libhwy>=1.0")
millrace_require(DEFLATE "libdeflate 1.8 or newer (PNG)" "libdeflate-dev or libdeflate-devel" "libdeflate>=1.8")
millrace_require(WEBP "libwebp 1.0 or newer with its demuxer" "libwebp-dev or libwebp-devel" "libwebp>=1.0" "libwebpdemux>=1.0")
millrace_require(ZSTD "zstd 1.4 or newer" "libzstd-dev or libzstd-devel" "libzstd>=1.4")
millrace_require(SIMDJSON "simdjson 3.0 or newer" "libsimdjson-dev or simdjson-devel" "simdjson>=3.0")

# millrace_take_in(<target> <entry point> <name> ...): links the archives lib<name>.a in the place of the target's shared libraries, if
# they can be part of a shared object. Distributions build some without position-independent code: these stay shared, and auditwheel
# puts them beside the module.
function(millrace_take_in target entry)
  set(archives "")
  foreach(name IN LISTS ARGN)
    find_library(millrace_archive_${name} lib${name}.a)
    if(NOT millrace_archive_${name})
      return()
    endif()
    list(APPEND archives ${millrace_archive_${name}})
  endforeach()
  execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} -shared -o ${CMAKE_CURRENT_BINARY_DIR}/taken_in.so -Wl,-u,${entry} -Wl,-z,text -Wl,--exclude-libs,ALL
      -Wl,--start-group ${archives} -Wl,--end-group -lm -lpthread
    RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
  file(REMOVE ${CMAKE_CURRENT_BINARY_DIR}/taken_in.so)
  if(refused)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    set_property(TARGET ${target} PROPERTY INTERFACE_LINK_LIBRARIES ${archives} Threads::Threads)
  else()
    foreach(build IN ITEMS "" _RELEASE _DEBUG)
      set_property(TARGET ${target} PROPERTY IMPORTED_LOCATION${build} ${archives})
    endforeach()
  endif()
  set_property(GLOBAL APPEND PROPERTY millrace_taken_in ${ARGN})
endfunction()

if(NOT MILLRACE_SYSTEM_LIBRARIES)
  millrace_take_in(JPEG::JPEG jpeg_std_error jpeg)
  millrace_take_in(ZLIB::ZLIB inflate z)
  millrace_take_in(PkgConfig::HWY _ZN3hwy15GetChosenTargetEv hwy)
  millrace_take_in(PkgConfig::DEFLATE libdeflate_zlib_decompress_ex deflate)
  millrace_take_in(PkgConfig::WEBP WebPDemuxInternal webpdemux webp)
  millrace_take_in(PkgConfig::ZSTD ZSTD_decompressStream zstd)
  millrace_take_in(PkgConfig::SIMDJSON _ZN8simdjson25get_active_implementationEv simdjson)
endif()
get_property(MILLRACE_TAKEN_IN GLOBAL PROPERTY millrace_taken_in)

# Machine code for data centre GPUs, and PTX from which drivers make it for all others and for those to come.
set(MILLRACE_HAVE_CUDA OFF)
if(NOT MILLRACE_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(MILLRACE_OWN_ARCHITECTURES OFF)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(MILLRACE_OWN_ARCHITECTURES ON)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 80-virtual)
    endif()
    set(CMAKE_CUDA_STANDARD 17)  # of CMake's trial programs; 20 is not known to CMake before 3.26, but to nvcc from 12.0 on
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # src/cuda links it by name, statically
    foreach(dialect IN ITEMS STANDARD EXTENSION)
      if(NOT CMAKE_CUDA20_${dialect}_COMPILE_OPTION)
        set(CMAKE_CUDA20_${dialect}_COMPILE_OPTION -std=c++20)
      endif()
    endforeach()
    if(MILLRACE_OWN_ARCHITECTURES AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
      list(APPEND CMAKE_CUDA_ARCHITECTURES 100-real)
    endif()
    millrace_find(CUDA::cudart_static CUDAToolkit REQUIRED)
    set(MILLRACE_HAVE_CUDA ON)
  elseif(MILLRACE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MILLRACE_CUDA=ON needs nvcc; install the CUDA toolkit (12.1 or newer) and put its bin folder on PATH, "
      "or set CUDACXX")
  endif()
endif()

if(MILLRACE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

if(MILLRACE_PYTHON)
  find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
  # The interpreter's own pybind11 comes first: a distribution's may be older.
  execute_process(COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
    OUTPUT_VARIABLE pybind11_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_package(pybind11 2.13 CONFIG REQUIRED HINTS ${pybind11_folder})
endif()
