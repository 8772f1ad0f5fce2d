// Everything that millrace offers to C++ programs, but for what needs other headers: torch.h and dlpack.h.
#pragma once

#include "millrace/arrays.h"          // IWYU pragma: export
#include "millrace/augment_policy.h"  // IWYU pragma: export
#include "millrace/batch.h"           // IWYU pragma: export
#include "millrace/dataset.h"         // IWYU pragma: export
#include "millrace/dtype.h"           // IWYU pragma: export
#include "millrace/error.h"           // IWYU pragma: export
#include "millrace/export.h"          // IWYU pragma: export
#include "millrace/image_folder.h"    // IWYU pragma: export
#include "millrace/interpolation.h"   // IWYU pragma: export
#include "millrace/loader.h"          // IWYU pragma: export
#include "millrace/sample_key.h"      // IWYU pragma: export
#include "millrace/samplers.h"        // IWYU pragma: export
#include "millrace/shards.h"          // IWYU pragma: export
#include "millrace/state.h"           // IWYU pragma: export
#include "millrace/tokens.h"          // IWYU pragma: export
#include "millrace/transform_spec.h"  // IWYU pragma: export
#include "millrace/transforms.h"      // IWYU pragma: export
#include "millrace/version.h"         // IWYU pragma: export
