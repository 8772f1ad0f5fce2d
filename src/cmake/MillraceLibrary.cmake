# libmillrace: the module api and all below it, as libmillrace.so and libmillrace.a. Targets that link either name it millrace::millrace;
# in this project that is the shared one, where both are built.

# Into millrace_objects and millrace_externals: the objects of a module and of all below it, and the libraries that they need.
function(millrace_gather module)
  get_property(seen GLOBAL PROPERTY millrace_gathered)
  if(module IN_LIST seen)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY millrace_gathered ${module})
  get_target_property(type millrace_${module} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    set_property(GLOBAL APPEND PROPERTY millrace_objects $<TARGET_OBJECTS:millrace_${module}>)
  endif()
  get_property(links GLOBAL PROPERTY millrace_links_of_${module})
  set_property(GLOBAL APPEND PROPERTY millrace_externals ${links})
  get_property(uses GLOBAL PROPERTY millrace_uses_of_${module})
  foreach(used IN LISTS uses)
    millrace_gather(${used})
  endforeach()
endfunction()

function(millrace_library_target target)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME millrace EXPORT_NAME millrace LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  if(MILLRACE_SANITIZE)
    target_link_options(${target} PRIVATE -fsanitize=${MILLRACE_SANITIZE})
  else()
    target_link_options(${target} PRIVATE -Wl,-z,defs)  # a missing symbol is an error now, not when a program starts
  endif()
  if(NOT TARGET millrace::millrace)
    add_library(millrace::millrace ALIAS ${target})
  endif()
endfunction()

foreach(module IN ITEMS api cuda)
  millrace_gather(${module})
endforeach()
get_property(objects GLOBAL PROPERTY millrace_objects)
get_property(externals GLOBAL PROPERTY millrace_externals)
list(APPEND externals ${CMAKE_DL_LIBS})
list(REMOVE_DUPLICATES externals)

if(MILLRACE_SHARED)
  # Of the modules below, what these two use: GPU kernels, say, only where the interface has a way to them.
  add_library(millrace_shared SHARED $<TARGET_OBJECTS:millrace_api> $<TARGET_OBJECTS:millrace_base>)
  target_link_libraries(millrace_shared PRIVATE millrace_api millrace_cuda ${CMAKE_DL_LIBS})
  # Only symbols marked MILLRACE_API are visible, and of these only names of millrace leave the library: no templates of std that it
  # instantiates, and nothing of archives inside it.
  set(names ${PROJECT_SOURCE_DIR}/src/cmake/millrace.map)
  target_link_options(millrace_shared PRIVATE -Wl,--version-script=${names})
  set_target_properties(millrace_shared PROPERTIES SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINK_DEPENDS ${names})
  if(NOT SKBUILD)  # a wheel has no links: the one file has the name that programs look for
    set_target_properties(millrace_shared PROPERTIES VERSION ${PROJECT_VERSION})
  endif()
  millrace_library_target(millrace_shared)
endif()

if(MILLRACE_STATIC)
  add_library(millrace_static STATIC ${objects})
  list(TRANSFORM externals REPLACE "(.+)" "$<LINK_ONLY:\\1>")
  target_link_libraries(millrace_static INTERFACE "$<BUILD_INTERFACE:${externals}>" $<INSTALL_INTERFACE:millrace::externals>)
  millrace_library_target(millrace_static)
endif()

# Programs that find Torch before they add this project have the adapters of torch.h, too.
if(TARGET millrace::millrace AND TORCH_LIBRARIES AND NOT TARGET millrace_torch)
  add_library(millrace_torch INTERFACE)
  add_library(millrace::torch ALIAS millrace_torch)
  target_link_libraries(millrace_torch INTERFACE millrace::millrace ${TORCH_LIBRARIES})
endif()
