# The licences of the libraries that a wheel has inside, put beside its own: licenses/NAME.txt in its .dist-info folder.
# MILLRACE_LICENCES names a folder of such files; else the system's package manager says which package a header is of, and where that
# has its licence. What cannot be found is a warning here, and an error of scripts/check_wheel.py.
set(MILLRACE_LICENCES "" CACHE PATH "Folder with NAME.txt for each library that a wheel has inside; empty: ask dpkg or rpm")

function(millrace_licence name header)
  find_file(millrace_header_of_${name} ${header})
  set(header "${millrace_header_of_${name}}")
  set(text "${MILLRACE_LICENCES}/${name}.txt")
  if(NOT MILLRACE_LICENCES)
    execute_process(COMMAND dpkg -S "${header}" OUTPUT_VARIABLE package RESULT_VARIABLE unknown ERROR_QUIET)
    if(unknown EQUAL 0)
      string(REGEX REPLACE ":.*" "" package "${package}")
      set(text "/usr/share/doc/${package}/copyright")
    else()
      execute_process(COMMAND rpm -qf --licensefiles "${header}" OUTPUT_VARIABLE texts ERROR_QUIET)
      string(REGEX REPLACE "\n.*" "" text "${texts}")
    endif()
  endif()
  if(EXISTS "${text}")
    file(REAL_PATH "${text}" text)
    install(FILES "${text}" DESTINATION ${SKBUILD_METADATA_DIR}/licenses RENAME ${name}.txt COMPONENT python)
  else()
    message(WARNING "The wheel lacks the licence of ${name}; put ${name}.txt into a folder, and name it by MILLRACE_LICENCES")
  endif()
endfunction()

if(MILLRACE_SYSTEM_LIBRARIES OR NOT SKBUILD_METADATA_DIR)
  return()
endif()
millrace_licence(libjpeg-turbo jpeglib.h)
millrace_licence(zlib zlib.h)
millrace_licence(highway hwy/highway.h)
millrace_licence(libdeflate libdeflate.h)
millrace_licence(libwebp webp/demux.h)
millrace_licence(zstd zstd.h)
millrace_licence(simdjson simdjson.h)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import importlib.metadata as m; print(next(f.locate() for f in m.files('pybind11') if f.name == 'LICENSE'))"
  OUTPUT_VARIABLE pybind11_licence OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(EXISTS "${pybind11_licence}")
  install(FILES "${pybind11_licence}" DESTINATION ${SKBUILD_METADATA_DIR}/licenses RENAME pybind11.txt COMPONENT python)
endif()
if(MILLRACE_HAVE_CUDA)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/cuda-runtime.txt "The CUDA runtime (libcudart_static ${CUDAToolkit_VERSION}) of NVIDIA is linked "
    "into millrace's module. Its licence is the End User License Agreement of the CUDA Toolkit,\nwhose attachment A lists it among what "
    "may be distributed with an application: https://docs.nvidia.com/cuda/eula/\n")
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cuda-runtime.txt DESTINATION ${SKBUILD_METADATA_DIR}/licenses COMPONENT python)
endif()
