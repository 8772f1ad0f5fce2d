# Every outside library, found here and nowhere else.
find_package(Threads REQUIRED)

find_package(JPEG REQUIRED)
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
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
if(NOT MILLRACE_HAVE_LIBJPEG_TURBO)
  message(FATAL_ERROR "millrace needs libjpeg-turbo 2.1 or newer (jpeg_crop_scanline); "
    "install libjpeg62-turbo-dev or libjpeg-turbo-devel")
endif()

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(HWY QUIET IMPORTED_TARGET libhwy>=1.0)
endif()
if(NOT TARGET PkgConfig::HWY)
  message(FATAL_ERROR "millrace needs Google Highway 1.0 or newer; install libhwy-dev or highway-devel")
endif()

find_package(CUDAToolkit QUIET)

if(MILLRACE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

if(MILLRACE_PYTHON)
  find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
  # The interpreter's own pybind11 comes first: a distribution's may be older than torch's headers allow.
  execute_process(COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
    OUTPUT_VARIABLE pybind11_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_package(pybind11 2.13 CONFIG REQUIRED HINTS ${pybind11_folder})
  # torch's own CMake package would look for a whole CUDA toolkit when torch was built with CUDA; headers and three libraries are
  # all we use, so ask the installed package where they are.
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "
import os, torch
print(os.path.dirname(torch.__file__), torch.__version__, int(torch._C._GLIBCXX_USE_CXX11_ABI), sep=';')"
    OUTPUT_VARIABLE torch_facts OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE torch_missing)
  if(torch_missing)
    message(FATAL_ERROR "millrace needs an installed torch, 2.11 or newer, in ${Python_EXECUTABLE}; "
      "build with pip's --no-build-isolation")
  endif()
  list(GET torch_facts 0 torch_root)
  list(GET torch_facts 1 Torch_VERSION)
  list(GET torch_facts 2 torch_abi)
  if(Torch_VERSION VERSION_LESS 2.11)
    message(FATAL_ERROR "millrace needs torch 2.11 or newer, but ${Python_EXECUTABLE} has ${Torch_VERSION}")
  endif()
  add_library(millrace_torch INTERFACE)
  target_include_directories(millrace_torch SYSTEM INTERFACE ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
  target_compile_definitions(millrace_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=${torch_abi})
  foreach(library IN ITEMS torch_python torch_cpu c10)
    find_library(millrace_lib_${library} ${library} PATHS ${torch_root}/lib NO_DEFAULT_PATH NO_CACHE REQUIRED)
    target_link_libraries(millrace_torch INTERFACE ${millrace_lib_${library}})
  endforeach()
endif()
