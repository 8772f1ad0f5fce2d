// Operation<T>: everything the engine knows about one transform of a chain, T its struct in transform_spec.h.
//
// Each is a specialisation of static members, in a file of its own in this folder, named in operations.h:
//   name, key                name in messages, and in Python's dicts; name_of(t) if it depends on arguments
//   fields(f, t)             t's members for dicts: f("p", t.p), or f("p?", t.p) if dicts may leave it out
//   check(t, check)          refuses arguments; the first error is the one reported
//   plan(t, decided, in, to) adds its PictureSteps for a picture of size `in`, for CPU and GPU
// Optional:
//   fixed_size(t, in)        if it changes the size: the new size, if all pictures get the same one; `in`:
//                            the size before it, if known
//   draw(t, draw)            if anything is random: writes draw.decided
//   decides(t)               if only some of its forms draw
//   fits(t, decided, in)     whether a decision is one that draw() could have made
//   describe(f, decided)     the decision's members for dicts, as fields()
//   moves_tensors(t, before) whether it does the same after ToTensor, and Normalize, as before
// A draw is a function of (key, view, position in the chain): the order of draws inside draw() is a promise.
#pragma once

#include <array>
#include <optional>
#include <tuple>

#include "base/philox.h"
#include "millrace/error.h"
#include "transforms/chain.h"
#include "transforms/ops/check.h"
#include "transforms/params.h"
#include "transforms/picture_size.h"
#include "transforms/picture_steps.h"

namespace millrace::transforms {

template <class T>
struct Operation;

// The names of an enumeration's values in dicts, in its order.
template <class Enum>
inline constexpr std::array<const char*, 0> kNamesOf{};
template <>
inline constexpr std::array kNamesOf<Interpolation>{"nearest", "bilinear", "bicubic",
                                                    "lanczos", "box",      "hamming"};
template <>
inline constexpr std::array kNamesOf<PaddingMode>{"constant", "edge", "reflect", "symmetric"};

// The draw for one picture at one transform.
struct Draw {
  PictureSize in;
  int orientation;
  base::Philox random;
  OpParams& decided;

  // Draws nothing if `p` is 1.
  bool applies(double p) { return decided.applied = p >= 1 || random.uniform() < p; }
  double uniform(const Range& range) { return random.uniform(range.min, range.max); }
  template <class List>
  auto one_of(const List& list) {
    const auto count = static_cast<int64_t>(list.size());
    return list[count == 1 ? 0 : static_cast<size_t>(random.integer(0, count))];
  }
};

// The chain before a transform that comes after ToTensor. Moving whole pixels is the same there; computing
// or inventing pixels is not. A padding of zeros is a black byte before Normalize and no byte after it; a
// padding has no noise.
struct TensorSoFar {
  bool normalized, noisy;
  bool keeps_border(PaddingMode mode, const std::array<uint8_t, 3>& fill) const {
    return !noisy && (mode != PaddingMode::constant || (fill == std::array<uint8_t, 3>{} && !normalized));
  }
};

inline bool inside(const base::Rect& box, PictureSize size) {
  return box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 &&
         box.width <= size.width - box.left && box.height <= size.height - box.top;
}

// Positions stay finite numbers wherever a map is applied.
template <size_t kCount>
bool computable(const std::array<double, kCount>& inverse) {
  for (const double v : inverse)
    if (!(v > -1e100 && v < 1e100)) return false;
  return true;
}

// All of the picture, mirrored.
inline MoveStep flip_of(PictureSize in, bool horizontal, bool vertical) {
  return {{0, 0, in.width, in.height}, horizontal, vertical};
}

}  // namespace millrace::transforms
