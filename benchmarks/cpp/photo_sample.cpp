#include "photo_sample.h"

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include <jpeglib.h>

namespace {

struct Failure {
  jpeg_error_mgr manager;
  std::jmp_buf back;
};

// uint8 [height, width, 3].
at::Tensor decoded(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  jpeg_decompress_struct info{};
  Failure failure{};
  info.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = [](j_common_ptr self) {
    std::longjmp(reinterpret_cast<Failure*>(self->err)->back, 1);
  };
  at::Tensor picture;
  if (setjmp(failure.back) != 0) {
    jpeg_destroy_decompress(&info);
    throw std::runtime_error(path + ": not a JPEG");
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  picture = at::empty({info.output_height, info.output_width, 3}, at::kByte);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = picture.data_ptr<uint8_t>() + size_t{info.output_scanline} * info.output_width * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return picture;
}

struct Part {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

// torchvision's RandomResizedCrop: ten tries, then the middle of the picture.
Part random_part(int64_t height, int64_t width, std::mt19937& random) {
  std::uniform_real_distribution<double> scale(0.08, 1.0), log_ratio(std::log(3.0 / 4), std::log(4.0 / 3));
  for (int i = 0; i < 10; ++i) {
    const double area = scale(random) * static_cast<double>(height * width),
                 ratio = std::exp(log_ratio(random));
    const Part part{0, 0, std::lround(std::sqrt(area / ratio)), std::lround(std::sqrt(area * ratio))};
    if (part.height > height || part.width > width || part.height < 1 || part.width < 1) continue;
    const auto at_most = [&](int64_t most) {
      return std::uniform_int_distribution<int64_t>(0, most)(random);
    };
    return {at_most(height - part.height), at_most(width - part.width), part.height, part.width};
  }
  const int64_t side = std::min(height, width);
  return {(height - side) / 2, (width - side) / 2, side, side};
}

}  // namespace

at::Tensor photo_sample(const std::string& path, std::mt19937& random) {
  static const at::Tensor mean = at::tensor({0.485F, 0.456F, 0.406F}).view({3, 1, 1});
  static const at::Tensor deviation = at::tensor({0.229F, 0.224F, 0.225F}).view({3, 1, 1});
  const at::Tensor picture = decoded(path);
  const Part part = random_part(picture.size(0), picture.size(1), random);
  // Bytes whose channels lie last: the quickest of libtorch's ways to resize.
  at::Tensor pixels = at::_upsample_bilinear2d_aa(picture.narrow(0, part.top, part.height)
                                                      .narrow(1, part.left, part.width)
                                                      .permute({2, 0, 1})
                                                      .unsqueeze(0),
                                                  {224, 224}, false)[0];
  if (std::bernoulli_distribution(0.5)(random)) pixels = pixels.flip(2);
  return pixels.to(at::kFloat, false, false, at::MemoryFormat::Contiguous)
      .div_(255)
      .sub_(mean)
      .div_(deviation);
}
