#include "api/loader_options.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/refuse.h"
#include "api/sampler_impl.h"

namespace millrace::api {
namespace {

constexpr int kMostThreads = 4096;
constexpr int kMostAhead = 1 << 20;         // batches, of all threads
constexpr int64_t kMostStreamed = 1 << 24;  // samples of a batch from a stream without a known end

// "threads should be 1 to 4096, but is 0"
void check_range(const char* name, int64_t value, int64_t least, int64_t most, const char* more = "") {
  if (value < least || value > most)
    refuse(std::string(name) + " should be " + std::to_string(least) + " to " + std::to_string(most) +
           ", but is " + std::to_string(value) + more);
}

}  // namespace

const LoaderOptions& checked_options(const LoaderOptions& options, const Dataset& dataset) {
  const bool streams = dataset.size() < 0;
  check_range("batch_size", options.batch_size, 1, streams ? kMostStreamed : kMostSamples);
  check_range("threads", options.threads, 0, kMostThreads, "; 0 works in the thread that calls next()");
  check_range("prefetch", options.prefetch, 1, kMostAhead / std::max(1, options.threads),
              "; it is for each thread, and all together make at most 2^20 batches ahead");
  if (options.batch_sampler &&
      (options.batch_size != 1 || options.shuffle || options.sampler || options.drop_last))
    refuse(
        "batch_sampler makes whole batches, so it excludes batch_size, shuffle, sampler and drop_last; leave "
        "them out");
  if (options.sampler && options.shuffle)
    refuse("sampler says the order, so it excludes shuffle; leave one of them out");
  if (options.equal_steps && streams)
    refuse(
        "a stream does not know how many batches it has, so a loader over it has no equal_steps; leave them "
        "out");
  if (options.equal_steps && options.equal_steps->steps < 0)
    refuse("equal_steps->steps should be 0 or more, but is " + std::to_string(options.equal_steps->steps));
  if (streams && (options.shuffle || options.sampler || options.batch_sampler))
    refuse(
        "a stream has an order of its own, so a loader over it has no shuffle, sampler or batch_sampler; "
        "leave them out, and shuffle by the stream's options");
  return options;
}

BatchSampler sampler_of(const Dataset& dataset, const LoaderOptions& options) {
  if (dataset.size() < 0) return {};
  if (options.batch_sampler) {
    options.batch_sampler->size();  // refuses an empty one
    return *options.batch_sampler;
  }
  Sampler sampler = options.sampler   ? *options.sampler
                    : options.shuffle ? random_sampler(dataset.size())
                                      : sequential_sampler(dataset.size());
  return batches_of(std::move(sampler), options.batch_size, options.drop_last);
}

int ahead_of(const LoaderOptions& options) { return options.prefetch * std::max(1, options.threads); }

void check_limits(int threads, int batches) {
  check_range("set_limits(): threads", threads, 1, kMostThreads);
  check_range("set_limits(): batches", batches, 1, kMostAhead);
}

}  // namespace millrace::api
