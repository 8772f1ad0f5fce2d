// What one sample does at each step of a chain: its parameters matched with their transforms, and checked.
//
// Code that gets steps from here may rely on them: every decision is there and fits the picture at its place.
// Pure, any thread.
#pragma once

#include <vector>

#include "transforms/chain.h"
#include "transforms/params.h"
#include "transforms/picture_steps.h"

namespace millrace::transforms {

struct Erasure {
  base::Rect box;             // in the output, not empty
  const RandomErasing* spec;  // the chain's
  uint64_t noise;
};

struct AddedNoise {
  const GaussianNoise* spec;   // the chain's; null: none is added
  const Normalize* normalize;  // to be done after it; null: nothing
  uint64_t key;
};

// What is done to a row's numbers, once pixels have become numbers.
struct NumberSteps {
  AddedNoise noise{};
  std::vector<Erasure> erasures{};
  bool empty() const { return !noise.spec && erasures.empty(); }
};

// All throw Error(invalid_argument) when `params` do not belong to this chain and picture.
PictureSteps place_steps(const Chain& chain, PictureSize stored, const SampleParams& params);
AddedNoise place_noise(const Chain& chain, const SampleParams& params);
std::vector<Erasure> place_erasures(const Chain& chain, PictureSize out, const SampleParams& params);

}  // namespace millrace::transforms
