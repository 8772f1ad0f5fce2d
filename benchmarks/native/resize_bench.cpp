// What one crop + resize + normalise costs, in microseconds of one core: whole pipelines, and the passes one by one.
//
// Usage: resize_bench [target]   target: a Highway target name (AVX2, SSE4, ...) to pretend that the machine has nothing better;
//                                "scalar" times the scalar reference kernels.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "transforms/image_pipeline.h"
#include "transforms/kernels.h"
#include "transforms/pixel_buffer.h"

namespace {

using namespace millrace;

double cpu_us() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

// The lowest and the median of many calls: the first is the code, the second the code among its neighbours.
void report(const char* name, const std::function<void()>& work) {
  std::vector<double> calls;
  for (int i = 0; i < 1000; ++i) {
    const double begin = cpu_us();
    work();
    calls.push_back(cpu_us() - begin);
  }
  std::sort(calls.begin(), calls.end());
  std::printf("%-58s %8.1f us  (median %.1f)\n", name, calls.front(), calls[calls.size() / 2]);
}

struct Picture {
  std::vector<uint8_t> pixels;
  ImageView view;
  Picture(int32_t width, int32_t height) : pixels(size_t(width) * height * kPixelBytes) {
    std::mt19937 random(1);
    for (uint8_t& p : pixels) p = static_cast<uint8_t>(random());
    view = {pixels.data(), width, height, width * kPixelBytes};
  }
};

void bench_pipeline(const char* name, std::vector<TransformSpec> chain, int32_t width, int32_t height, size_t rows_in_flight) {
  const auto pipeline = ImagePipeline::create(std::move(chain));
  const auto scratch = ImagePipeline::make_scratch();
  const Picture picture(width, height);
  const SampleParams params = pipeline->draw(width, height, 1, SampleKey{});
  const auto need = pipeline->plan(width, height, params, *scratch);
  ImageView region = picture.view;
  region.data = picture.view.row(need.region.top) + need.region.left * kPixelBytes;
  region.width = need.region.width;
  region.height = need.region.height;
  const size_t row_bytes = size_t(3) * need.shape.height * need.shape.width * dtype_bytes(pipeline->output_type());
  std::vector<uint8_t> memory(row_bytes * rows_in_flight + 64);
  uint8_t* first = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  size_t row = 0;
  report(name, [&] {
    pipeline->plan(width, height, params, *scratch);
    pipeline->apply(region, *scratch, first + row++ % rows_in_flight * row_bytes);
  });
}

void bench_passes(int32_t width, int32_t height, int32_t out_width, int32_t out_height) {
  std::printf("passes of %d x %d -> %d x %d (width x height)\n", width, height, out_width, out_height);
  const Picture picture(width, height);
  std::vector<int32_t> columns(out_width), rows(out_height);
  for (int32_t i = 0; i < out_width; ++i) columns[i] = i;
  for (int32_t i = 0; i < out_height; ++i) rows[i] = i;
  Taps x, y;
  const auto taps = [&] {
    make_taps({Interpolation::bilinear, width, out_width, columns, 0, width, false}, x);
    make_taps({Interpolation::bilinear, height, out_height, rows, 0, height, false}, y);
  };
  report("  weights of both axes", taps);
  PixelBuffer ring_buffer;
  const ImageView ring = ring_buffer.view(out_width, 8);
  report("  horizontal, all rows", [&] {
    for (int32_t r = 0; r < height; r += kRowGroup) {
      const uint8_t* in[kRowGroup];
      uint8_t* out[kRowGroup];
      const int n = std::min(kRowGroup, height - r);
      for (int i = 0; i < n; ++i) in[i] = picture.view.row(r + i), out[i] = ring.row(i);
      resample_rows(in, n, x, out);
    }
  });
  PixelBuffer out_buffer;
  const ImageView out = out_buffer.view(out_width, 1);
  report("  vertical, all rows", [&] {
    for (int32_t r = 0; r < out_height; ++r) {
      const uint8_t* in[64];
      for (int t = 0; t < 2 * y.pairs; ++t) in[t] = ring.row((y.start[r] + t) % 8);
      blend_rows(in, y.of(r).data(), y.pairs, out_width, out.row(0));
    }
  });
  ValueTable table = make_value_table(ToTensor{}, Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}});
  table.math_is_exact = math_gives_table(table);
  std::vector<float> planes(size_t(3) * out_width * out_height);
  report("  bytes to normalised f32 planes, all rows", [&] {
    for (int32_t r = 0; r < out_height; ++r) {
      float* first = planes.data() + size_t(r) * out_width;
      void* const at[3] = {first, first + out_width * out_height, first + 2 * out_width * out_height};
      store_row(ring.row(r % 8), out_width, table, at);
    }
  });
  std::printf("  arithmetic equals the table: %s\n", table.math_is_exact ? "yes" : "no");
}

void restrict_to(const std::string& name) {
  for (int64_t target = 1; target != 0; target <<= 1)
    if (name == hwy::TargetName(target)) {
      // Better targets have lower bits.
      hwy::DisableTargets(target - 1);
      return;
    }
  std::fprintf(stderr, "no target named %s\n", name.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) restrict_to(argv[1]);
  const Normalize normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  const RandomResizedCrop box{.height = 224, .width = 224, .scale_min = 1, .scale_max = 1, .ratio_min = 0.01, .ratio_max = 100};
  const auto train = [&](RandomResizedCrop crop) {
    return std::vector<TransformSpec>{Resize{.height = crop.height, .width = crop.width, .interpolation = crop.interpolation},
                                      HorizontalFlip{}, ToTensor{}, normalize};
  };
  bench_pipeline("train: 340 x 310 -> 224, f32 normalised, one hot row", train(box), 340, 310, 1);
  bench_pipeline("train: 340 x 310 -> 224, f32 normalised, 128 rows", train(box), 340, 310, 128);
  bench_pipeline("train: 160 x 150 -> 224 (upscale), 128 rows", train(box), 160, 150, 128);
  bench_pipeline("train: 230 x 300 -> 224 (vertical first), 128 rows", train(box), 230, 300, 128);
  bench_pipeline("train: 340 x 310 -> 224, u8, 128 rows", {Resize{.height = 224, .width = 224}, ToTensor{OutputType::u8}}, 340, 310, 128);
  RandomResizedCrop bicubic = box;
  bicubic.interpolation = Interpolation::bicubic;
  bench_pipeline("train: 340 x 310 -> 224, bicubic, 128 rows", train(bicubic), 340, 310, 128);
  bench_pipeline("val: 500 x 375, Resize(256), CenterCrop(224), 128 rows",
                 {Resize{.height = 256}, CenterCrop{224, 224}, ToTensor{}, normalize}, 500, 375, 128);
  bench_passes(340, 310, 224, 224);
}
