// The steps of a chain for one sample: its parameters, matched with their transforms and checked.
//
// Callers may rely on the steps: every decision is there and fits the picture at its place. Pure, any thread.
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
  const Normalize* normalize;  // applied after the noise; null: none
  uint64_t key;
};

// The steps on a row's numbers, after its pixels have become numbers.
struct NumberSteps {
  AddedNoise noise{};
  std::vector<Erasure> erasures{};
  bool empty() const { return !noise.spec && erasures.empty(); }
};

// All throw Error(invalid_argument) when `params` do not belong to this chain and picture.
// `placed`: replaced; its memory is kept.
void place_steps(const Chain& chain, PictureSize stored, const SampleParams& params, PictureSteps& placed);
AddedNoise place_noise(const Chain& chain, const SampleParams& params);
std::vector<Erasure> place_erasures(const Chain& chain, PictureSize out, const SampleParams& params);

}  // namespace millrace::transforms
