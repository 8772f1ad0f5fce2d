#include "transforms/geometry_draws.h"

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>

#include "transforms/affine_matrix.h"

namespace millrace::transforms {
namespace {

// torch.rand(1): a float.
float unit(base::Philox& random) { return static_cast<float>(random.next_u32() >> 8) * 0x1p-24f; }

// As torchvision draws it, in floats.
float between(double low, double high, base::Philox& random) {
  return static_cast<float>(low) + unit(random) * static_cast<float>(high - low);
}

// A distance from 0 to `room`, which is negative where the frame is larger than the picture.
int32_t place(int32_t room, base::Philox& random) {
  const auto drawn = static_cast<int32_t>(random.integer(0, std::abs(room) + 1));
  return room < 0 ? -drawn : drawn;
}

}  // namespace

base::Rect draw_frame(const Frame& t, PictureSize in, base::Philox& random) {
  if (t.kind == Frame::Kind::anywhere) {
    const int32_t top = place(in.height - t.height, random), left = place(in.width - t.width, random);
    return {left, top, t.width, t.height};
  }
  const float side = between(t.side_min, t.side_max, random);
  const auto more_x = static_cast<int32_t>(static_cast<float>(in.width) * side) - in.width,
             more_y = static_cast<int32_t>(static_cast<float>(in.height) * side) - in.height;
  const float left = unit(random) * static_cast<float>(more_x),
              top = unit(random) * static_cast<float>(more_y);
  const PictureSize full = padded(in, {0, 0, more_x, more_y});
  return {-static_cast<int32_t>(left), -static_cast<int32_t>(top), full.width, full.height};
}

void draw_resize(const DrawnResize& t, PictureSize in, base::Philox& random, OpParams& decided) {
  DrawnSize drawn;
  const auto one_of = [&](const auto& list) {
    return list[list.size() == 1 ? 0 : static_cast<size_t>(random.integer(0, std::ssize(list)))];
  };
  switch (t.kind) {
    case DrawnResize::Kind::shortest: drawn.size = one_of(t.sizes); break;
    case DrawnResize::Kind::between:
      drawn.size = static_cast<int32_t>(random.integer(t.sizes[0], t.sizes[1]));
      break;
    case DrawnResize::Kind::jitter: drawn.scale = between(t.scale.min, t.scale.max, random); break;
    case DrawnResize::Kind::keep_ratio:
      if (t.scale_p > 0 && random.uniform() < t.scale_p) {
        drawn.scale = random.uniform(t.scale.min, t.scale.max);
        if (t.scale_is_area) drawn.scale = 1 / std::sqrt(drawn.scale);
      }
      if (t.aspect_p > 0 && random.uniform() < t.aspect_p)
        drawn.aspect = std::exp(random.uniform(std::log(t.aspect.min), std::log(t.aspect.max)));
      break;
  }
  const PictureSize size = resized_size(t, in, drawn);
  decided.box = {0, 0, size.width, size.height};
  decided.interpolation = one_of(t.interpolations);
}

PerspectiveParams draw_perspective(const RandomPerspective& t, PictureSize in, base::Philox& random) {
  const auto reach = [&](int32_t side) { return static_cast<int32_t>(t.distortion_scale * (side / 2)) + 1; };
  const int32_t reach_x = reach(in.width), reach_y = reach(in.height);
  PerspectiveParams made;
  for (size_t corner = 0; corner < made.corners.size(); ++corner) {
    const int32_t from_x = corner == 1 || corner == 2 ? in.width - reach_x : 0,
                  from_y = corner >= 2 ? in.height - reach_y : 0;
    made.corners[corner][0] = static_cast<int32_t>(random.integer(from_x, from_x + reach_x));
    made.corners[corner][1] = static_cast<int32_t>(random.integer(from_y, from_y + reach_y));
  }
  made.inverse = perspective_inverse(made.corners, in);
  return made;
}

}  // namespace millrace::transforms
