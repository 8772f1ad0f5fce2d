// What one crop + resize + normalise costs, in microseconds of one core: whole pipelines, augmentations, and
// the passes one by one.
//
// Usage: resize_bench [target [rounds]]   target: a Highway target name (AVX3, AVX2, SSE4, ...): pretend that
// the machine has nothing better.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
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

// Every case is called in turn, round after round, so that all share the machine's good and bad moments. Of
// its calls the lowest shows the code, the median the code among its neighbours.
class Cases {
 public:
  void add(std::string name, std::function<void()> work) {
    cases_.push_back({std::move(name), std::move(work), {}});
  }

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round)
      for (Case& c : cases_)
        for (int i = 0; i < 3; ++i) {
          const double begin = cpu_us();
          c.work();
          c.calls.push_back(cpu_us() - begin);
        }
    for (Case& c : cases_) {
      std::sort(c.calls.begin(), c.calls.end());
      std::printf("%-62s %7.1f us  (median %.1f)\n", c.name.c_str(), c.calls.front(),
                  c.calls[c.calls.size() / 2]);
    }
  }

 private:
  struct Case {
    std::string name;
    std::function<void()> work;
    std::vector<double> calls;
  };
  std::vector<Case> cases_;
};

struct Picture {
  std::vector<uint8_t> pixels;
  base::ImageView view;
  Picture(int32_t width, int32_t height) : pixels(size_t(width) * height * base::kPixelBytes) {
    std::mt19937 random(1);
    for (uint8_t& p : pixels) p = static_cast<uint8_t>(random());
    view = {pixels.data(), width, height, width * base::kPixelBytes};
  }
};

// A pipeline with all it needs; `rows_in_flight` output rows are written in turn, as a ring of batches is.
class PipelineCase {
 public:
  PipelineCase(std::vector<TransformSpec> chain, int32_t width, int32_t height, size_t rows_in_flight)
      : pipeline_(transforms::ImagePipeline::create(std::move(chain))), picture_(width, height),
        rows_in_flight_(rows_in_flight), params_(pipeline_->draw(width, height, 1, base::SampleKey{})) {
    const auto need = pipeline_->plan(width, height, params_, *scratch_);
    region_ = {picture_.view.row(need.region.top) + need.region.left * base::kPixelBytes, need.region.width,
               need.region.height, picture_.view.stride_bytes};
    row_bytes_ =
        size_t(3) * need.shape.height * need.shape.width * base::dtype_bytes(pipeline_->output_type());
    memory_.resize(row_bytes_ * rows_in_flight + 64);
  }
  void operator()() {
    uint8_t* first = memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
    pipeline_->plan(picture_.view.width, picture_.view.height, params_, *scratch_);
    pipeline_->apply(region_, *scratch_, first + row_++ % rows_in_flight_ * row_bytes_);
  }

 private:
  std::unique_ptr<transforms::ImagePipeline> pipeline_;
  std::unique_ptr<transforms::ImagePipeline::Scratch, void (*)(transforms::ImagePipeline::Scratch*)>
      scratch_ = transforms::ImagePipeline::make_scratch();
  Picture picture_;
  size_t rows_in_flight_, row_bytes_ = 0, row_ = 0;
  transforms::SampleParams params_;
  base::ImageView region_;
  std::vector<uint8_t> memory_;
};

// The passes of one bilinear resize, each over the whole picture.
struct PassCase {
  static constexpr int32_t kWidth = 340, kHeight = 310, kOut = 224, kRing = 8;
  Picture picture{kWidth, kHeight};
  std::vector<int32_t> outputs;
  transforms::Taps x, y;
  transforms::PixelBuffer ring_buffer, out_buffer;
  base::ImageView ring = ring_buffer.resize(kOut, kRing), out = out_buffer.resize(kOut, 1);
  transforms::ValueTable table =
      transforms::make_value_table(ToTensor{}, Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}});
  std::vector<float> planes;

  PassCase() : outputs(kOut), planes(size_t(3) * kOut * kOut) {
    for (int32_t i = 0; i < kOut; ++i) outputs[i] = i;
    table.math_is_exact = transforms::math_gives_table(table);
    weights();
  }
  void weights() {
    transforms::make_taps({Interpolation::bilinear, kWidth, kOut, outputs, 0, kWidth, false}, x);
    transforms::make_taps({Interpolation::bilinear, kHeight, kOut, outputs, 0, kHeight, false}, y);
  }
  void horizontal() {
    for (int32_t r = 0; r < kHeight; r += transforms::kRowGroup) {
      const uint8_t* in[transforms::kRowGroup];
      uint8_t* to[transforms::kRowGroup];
      const int n = std::min(transforms::kRowGroup, kHeight - r);
      for (int i = 0; i < n; ++i) in[i] = picture.view.row(r + i), to[i] = ring.row((r + i) % kRing);
      transforms::resample_rows(in, n, x, to);
    }
  }
  void vertical(bool to_planes) {
    for (int32_t r = 0; r < kOut; ++r) {
      const uint8_t* in[64];
      for (int t = 0; t < 2 * y.pairs; ++t) in[t] = ring.row((y.start[r] + t) % kRing);
      if (to_planes)
        transforms::blend_to_planes(in, y.of(r).data(), y.pairs, kOut, table, at(r).data());
      else
        transforms::blend_rows(in, y.of(r).data(), y.pairs, kOut, out.row(0));
    }
  }
  void store() {
    for (int32_t r = 0; r < kOut; ++r) transforms::store_row(ring.row(r % kRing), kOut, table, at(r).data());
  }
  std::array<void*, 3> at(int32_t r) {
    float* first = planes.data() + size_t(r) * kOut;
    return {first, first + kOut * kOut, first + 2 * kOut * kOut};
  }
};

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
  const auto train = [&](Interpolation interpolation) {
    return std::vector<TransformSpec>{Resize{.height = 224, .width = 224, .interpolation = interpolation},
                                      HorizontalFlip{}, ToTensor{}, normalize};
  };
  Cases cases;
  const auto pipeline = [&](const char* name, std::vector<TransformSpec> chain, int32_t width, int32_t height,
                            size_t rows) {
    cases.add(name, [c = std::make_shared<PipelineCase>(std::move(chain), width, height, rows)] { (*c)(); });
  };
  pipeline("340 x 310 -> 224, f32 normalised, into one row", train(Interpolation::bilinear), 340, 310, 1);
  pipeline("340 x 310 -> 224, f32 normalised, into 128 rows in turn", train(Interpolation::bilinear), 340,
           310, 128);
  pipeline("160 x 150 -> 224, f32 normalised, 128 rows", train(Interpolation::bilinear), 160, 150, 128);
  pipeline("230 x 300 -> 224, f32 normalised, 128 rows (vertical first)", train(Interpolation::bilinear), 230,
           300, 128);
  pipeline("340 x 310 -> 224, f32 normalised, 128 rows, bicubic", train(Interpolation::bicubic), 340, 310,
           128);
  pipeline("340 x 310 -> 224, u8, 128 rows", {Resize{.height = 224, .width = 224}, ToTensor{OutputType::u8}},
           340, 310, 128);
  pipeline("500 x 375, Resize(256), CenterCrop(224), f32, 128 rows",
           {Resize{.height = 256}, CenterCrop{224, 224}, ToTensor{}, normalize}, 500, 375, 128);
  const auto augment = [&](const char* name, const TransformSpec& spec) {
    pipeline(name, {spec, ToTensor{OutputType::u8}}, 224, 224, 128);
  };
  augment("224 x 224, ColorJitter, u8",
          ColorJitter{Range{0.6, 1.4}, Range{0.6, 1.4}, Range{0.6, 1.4}, Range{-0.1, 0.1}});
  augment("224 x 224, RandomGrayscale, u8", RandomGrayscale{1});
  augment("224 x 224, RandomRotation, nearest, u8", RandomRotation{{20, 21}, Interpolation::nearest});
  augment("224 x 224, RandomRotation, bilinear, u8", RandomRotation{{20, 21}, Interpolation::bilinear});
  augment("224 x 224, RandomRotation, bicubic, u8", RandomRotation{{20, 21}, Interpolation::bicubic});
  augment("224 x 224, GaussianBlur(5), u8", GaussianBlur{5, 5});
  augment("224 x 224, GaussianBlur(23), u8", GaussianBlur{23, 23});
  const auto passes = std::make_shared<PassCase>();
  std::printf("arithmetic equals the table: %s\n", passes->table.math_is_exact ? "yes" : "no");
  cases.add("  weights of both axes, 340 x 310 -> 224", [=] { passes->weights(); });
  cases.add("  horizontal pass", [=] { passes->horizontal(); });
  cases.add("  vertical pass to bytes", [=] { passes->vertical(false); });
  cases.add("  bytes to normalised f32 planes", [=] { passes->store(); });
  cases.add("  vertical pass to normalised f32 planes", [=] { passes->vertical(true); });
  cases.run(argc > 2 ? std::atoi(argv[2]) : 500);
}
