// SavedState: a loader's state that was loaded and checked, and the values that a state is written from.
//
// The keys and their meaning are those of Python's DataLoader.state_dict() (python/millrace/_loader/states):
// torchdata's, and "millrace" for values that those have no place for. Plain values; each thread its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/json_value.h"

namespace millrace::api {

// The consumer's place in an epoch: after the list handed out last.
struct Place {
  int64_t lists = 0, samples = 0;  // handed out, of this rank
  int64_t position = -1;           // of the sampler; -1: no list was handed out
  int64_t batches = 0;             // as lists; a resumed epoch's count
  int64_t left_out = 0;            // samples that OnError::skip left out of this epoch
};

// What a state says of the run, but for what the samplers say (SamplerState).
struct RunState {
  int workers = 0;
  bool finished = false;  // taken after an epoch: the next one begins
  std::optional<int64_t> base_seed;
  uint64_t engine_epoch = 0;
  bool workers_stay = false;  // Python's persistent_workers: one base seed for all epochs of the run
  int64_t number = -1;        // of the epoch, over all of the run; -1: before the first
  std::optional<uint64_t> sampler_epoch;
  int ranks = 1;
  std::string generator;       // the loader's, as text; empty: the sampler's state has it
  bool elastic = false;        // merged from all ranks, perhaps of another number
  bool counts_epochs = false;  // the dataset does, in Python
  Place place;
  std::vector<std::vector<int64_t>> again;  // see IndexCursor::again()
  json::Value sampler;  // "_sampler_iter_state"; null before the first list and after an epoch
  json::Value fingerprint;
  json::Value dataset, fetcher;  // of streams: "dataset_state", "fetcher_state"
};

// The dataset, sampler and options that a state belongs to.
json::Value fingerprint(std::string_view dataset, int64_t length, const std::string& sampler,
                        std::optional<int64_t> batch_size, bool drop_last);

std::string written(const RunState& state);  // with its checksum
// Throws StateError for text that is no loader's state, is damaged or lacks a part, and for a state that only
// Python can go on with.
RunState read_state(std::string_view text);

}  // namespace millrace::api
