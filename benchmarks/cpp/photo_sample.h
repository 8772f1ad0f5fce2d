// A photo for training, as a program that uses libtorch alone would make it.
#pragma once

#include <ATen/ATen.h>

#include <random>
#include <string>

// The file, decoded by libjpeg; a random part of it, 8 to 100 % of its area, resized to 224 x 224 with
// antialiasing, mirrored half of the time, normalised: float [3, 224, 224]. Throws std::runtime_error for
// files that are not JPEGs.
at::Tensor photo_sample(const std::string& path, std::mt19937& random);
