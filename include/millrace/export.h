// MILLRACE_API: marks what a shared libmillrace shows; everything else is hidden. MILLRACE_PRIVATE: what
// stays inside, of a class that is shown.
#pragma once

#if !defined(__cpp_exceptions)
#error "millrace tells errors by exceptions (millrace/error.h): compile without -fno-exceptions"
#endif

#define MILLRACE_API __attribute__((visibility("default")))
#define MILLRACE_PRIVATE __attribute__((visibility("hidden")))
