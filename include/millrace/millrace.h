// Everything that millrace offers to C++ programs.
#pragma once

#include "millrace/augment_policy.h"  // IWYU pragma: export
#include "millrace/error.h"           // IWYU pragma: export
#include "millrace/interpolation.h"   // IWYU pragma: export
#include "millrace/transform_spec.h"  // IWYU pragma: export
