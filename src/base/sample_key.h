// SampleKey (millrace/sample_key.h) under the engine's name.
//
// A native stage never keeps a generator: it asks Philox (philox.h) for the numbers of (key, op).
#pragma once

#include "millrace/sample_key.h"

namespace millrace::base {

using millrace::SampleKey;

}  // namespace millrace::base
