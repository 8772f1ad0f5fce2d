// GaussianBlur: torchvision's, by a kernel of weights. (Pillow's of the same name is a step of a policy.)
#pragma once

#include "transforms/blur_kernels.h"
#include "transforms/ops/operation.h"

namespace millrace::transforms {

template <>
struct Operation<GaussianBlur> {
  static constexpr const char *name = "GaussianBlur", *key = "gaussian_blur";

  static void fields(auto& f, auto& t) {
    f("kernel_size", t.kernel_width, t.kernel_height)("sigma", t.sigma)("p", t.p);
  }
  static void check(const GaussianBlur& t, const Check& check) {
    const auto odd = [](int32_t size) { return size > 0 && size % 2 == 1 && size <= 9999; };
    check.require(odd(t.kernel_width) && odd(t.kernel_height),
                  "Kernel size value should be an odd and positive number below 10000");
    check.range("sigma", t.sigma, 0, Check::kAny);
    check.probability(t.p);
    check.require(t.sigma.min > 0, "sigma values should be positive and of the form (min, max)");
  }
  static void draw(const GaussianBlur& t, Draw& draw) {
    if (!draw.applies(t.p)) return;
    if (t.kernel_width / 2 >= draw.in.width || t.kernel_height / 2 >= draw.in.height)
      throw Error(ErrorKind::invalid_argument,
                  "GaussianBlur: Padding size should be less than the corresponding input dimension, but the "
                  "kernel of " +
                      text({t.kernel_width, t.kernel_height}) + " reaches over a picture of " +
                      text(draw.in) + " (height, width); use a smaller kernel_size or resize first");
    draw.decided.sigma = draw.uniform(t.sigma);
  }
  static bool fits(const GaussianBlur&, const OpParams& decided, PictureSize) {
    return !decided.applied || decided.sigma > 0;
  }
  static void plan(const GaussianBlur& t, const OpParams& decided, PictureSize, PictureSteps& to) {
    if (!decided.applied) return;
    BlurStep step;
    weigh_blur(decided.sigma, t.kernel_width, step.x);
    weigh_blur(decided.sigma, t.kernel_height, step.y);
    to.push_back(std::move(step));
  }
  static void describe(auto& f, const OpParams& decided) {
    f("applied", decided.applied);
    if (decided.applied) f("sigma", decided.sigma);
  }
};

}  // namespace millrace::transforms
