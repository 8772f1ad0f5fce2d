// What LoaderOptions require, and what follows from them.
#pragma once

#include "millrace/loader.h"

namespace millrace::api {

// Throws Error(invalid_argument) that names the option and the rule.
const LoaderOptions& checked_options(const LoaderOptions& options, const Dataset& dataset);
// Of what set_limits() takes; as above.
void check_limits(int threads, int batches);

// The order of an epoch; empty for a stream.
BatchSampler sampler_of(const Dataset& dataset, const LoaderOptions& options);
// Batches that all threads together make ahead; without threads the one that is asked for.
int ahead_of(const LoaderOptions& options);

}  // namespace millrace::api
