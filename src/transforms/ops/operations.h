// The list of Operations, one for each type of TransformVariant.
#pragma once

#include <type_traits>
#include <utility>

#include "transforms/ops/augment_policy.h"
#include "transforms/ops/center_crop.h"
#include "transforms/ops/color_jitter.h"
#include "transforms/ops/drawn_resize.h"
#include "transforms/ops/exif_transpose.h"
#include "transforms/ops/flips.h"
#include "transforms/ops/frame.h"
#include "transforms/ops/gaussian_noise.h"
#include "transforms/ops/grayscale.h"
#include "transforms/ops/operation.h"
#include "transforms/ops/photometric_distort.h"
#include "transforms/ops/random_affine.h"
#include "transforms/ops/random_choice.h"
#include "transforms/ops/random_crop.h"
#include "transforms/ops/random_erasing.h"
#include "transforms/ops/random_perspective.h"
#include "transforms/ops/random_resized_crop.h"
#include "transforms/ops/random_rotation.h"
#include "transforms/ops/resize.h"
#include "transforms/ops/to_tensor.h"
#include "transforms/ops/torch_blur.h"

namespace millrace::transforms {

// Calls `use` with each type of TransformVariant in turn, as std::type_identity, until it returns true.
template <class Use>
bool any_transform(Use&& use) {
  return [&]<class... Types>(std::type_identity<std::variant<Types...>>) {
    return (use(std::type_identity<Types>{}) || ...);
  }(std::type_identity<TransformVariant>{});
}

inline const OpParams kNoDecision{};  // of transforms that draw nothing

// Whether the transform changes pictures; the others form the chain's end.
template <class T>
inline constexpr bool kChangesPictures =
    requires(const T& t, PictureSteps& to) { Operation<T>::plan(t, OpParams{}, PictureSize{}, to); };

template <class T>
bool decides(const T& t) {
  if constexpr (requires { Operation<T>::decides(t); })
    return Operation<T>::decides(t);
  else
    return requires(Draw& draw) { Operation<T>::draw(t, draw); };
}

template <class T>
const char* name_of(const T& t) {
  if constexpr (requires { Operation<T>::name_of(t); })
    return Operation<T>::name_of(t);
  else
    return Operation<T>::name;
}

}  // namespace millrace::transforms
