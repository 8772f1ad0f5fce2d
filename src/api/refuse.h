// What the public interface says of an argument that cannot be.
#pragma once

#include <string>

#include "millrace/error.h"

namespace millrace::api {

[[noreturn]] inline void refuse(const std::string& rule) { throw Error(ErrorKind::invalid_argument, rule); }

}  // namespace millrace::api
