// The steps of a chain together with what one sample does there: parameters matched with their transforms,
// and checked.
//
// Whoever gets a list from here may rely on it: every decision is there and fits the picture at its place.
// Pure, any thread.
#pragma once

#include <vector>

#include "transforms/chain.h"
#include "transforms/params.h"
#include "transforms/step_geometry.h"

namespace millrace::transforms {

struct Placed {
  const PictureStep* step;
  const OpParams* decided;  // null: nothing was drawn
  PictureSize in, out;
  uint32_t number = 0;  // in the list
};

struct Erasure {
  base::Rect box;             // in the output, not empty
  const RandomErasing* spec;  // the chain's
  uint64_t noise;
};

struct AddedNoise {
  const GaussianNoise* spec;   // the chain's; null: none is added
  const Normalize* normalize;  // what is done behind it; null: nothing
  uint64_t key;
};

// What is done to a row's numbers, once pixels have become numbers.
struct NumberSteps {
  AddedNoise noise{};
  std::vector<Erasure> erasures{};
  bool empty() const { return !noise.spec && erasures.empty(); }
};

// All throw Error(invalid_argument) when `params` do not belong to this chain and picture.
std::vector<Placed> place_steps(const Chain& chain, PictureSize stored, const SampleParams& params);
AddedNoise place_noise(const Chain& chain, const SampleParams& params);
std::vector<Erasure> place_erasures(const Chain& chain, PictureSize out, const SampleParams& params);

}  // namespace millrace::transforms
