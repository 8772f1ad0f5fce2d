// The version of these headers, and of the library that is linked. Below 1.0 a minor version may change both
// API and ABI, and the library's file name (SONAME) says so: libmillrace.so.0.1.
#pragma once

#define MILLRACE_VERSION_MAJOR 0
#define MILLRACE_VERSION_MINOR 1
#define MILLRACE_VERSION_PATCH 0

#include "millrace/export.h"

namespace millrace {

MILLRACE_API const char* version();  // "0.1.0"

}  // namespace millrace
