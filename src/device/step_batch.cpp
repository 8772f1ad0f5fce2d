#include "device/step_batch.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "device/pass_kernels.h"

namespace millrace::device {
namespace {

size_t to_vectors(size_t bytes) { return (bytes + 15) / 16 * 16; }

// Which kernel runs a pass; a round's launches come in this order.
enum class Runner : uint8_t { pixels, maps, resizes, blurs, counts, tables };
constexpr Runner kRunners[] = {Runner::pixels, Runner::maps,   Runner::resizes,
                               Runner::blurs,  Runner::counts, Runner::tables};

Runner runner_of(PassKind kind) {
  switch (kind) {
    case PassKind::bilinear:
    case PassKind::bicubic:
    case PassKind::bilinear_perspective:
    case PassKind::bicubic_perspective: return Runner::maps;
    case PassKind::resize_weights:
    case PassKind::resize_across:
    case PassKind::resize_down: return Runner::resizes;
    case PassKind::box_across:
    case PassKind::box_down:
    case PassKind::weigh_down:
    case PassKind::weigh_across: return Runner::blurs;
    case PassKind::count_grey:
    case PassKind::count_channels: return Runner::counts;
    case PassKind::contrast_table:
    case PassKind::autocontrast_table:
    case PassKind::equalize_table: return Runner::tables;
    default: return Runner::pixels;
  }
}

void run_passes(Runner runner, const PassKernel& passes, const Place& place) {
  switch (runner) {
    case Runner::pixels: return launch(PixelKernel{passes}, place);
    case Runner::maps: return launch(MapKernel{passes}, place);
    case Runner::resizes: return launch(ResizeKernel{passes}, place);
    case Runner::blurs: return launch(BlurKernel{passes}, place);
    case Runner::counts: return count_levels(CountKernel{passes}, place);
    case Runner::tables: return launch(TableKernel{passes}, place);
  }
}

void upload(const void* from, size_t bytes, uint8_t* to, const Place& place) {
  UploadKernel kernel{};
  kernel.samples = {0, 1};
  for (size_t done = 0; done < bytes; done += sizeof(kernel.words)) {
    const size_t part = std::min(sizeof(kernel.words), bytes - done);
    kernel.to = reinterpret_cast<uint32_t*>(to + done);
    kernel.count = static_cast<int32_t>(part / sizeof(uint32_t));
    std::memcpy(kernel.words, static_cast<const uint8_t*>(from) + done, part);
    launch(kernel, place);
  }
}

}  // namespace

static_assert(alignof(Pass) <= 16 && sizeof(Pass) % alignof(Levels) == 0 &&
                  sizeof(Levels) % alignof(float) == 0,
              "one behind the other, to_vectors");
static_assert(std::is_trivially_copyable_v<Pass>, "uploaded as words");

void StepBatch::add(int32_t sample, transforms::PictureSize first, std::span<const PictureStep> steps) {
  Picture& p = pictures_.emplace_back(Picture{sample, first, passes_of(first, steps), 0, 0, 0, 0, 0});
  const auto pixels = static_cast<size_t>(p.made.slot_pixels);
  p.pixels = picture_bytes_;
  picture_bytes_ += to_vectors(pixels * static_cast<size_t>(p.made.slots) * sizeof(uint32_t));
  p.sums = picture_bytes_;
  if (p.made.sums) picture_bytes_ += to_vectors(3 * pixels * sizeof(float));
  p.levels = levels_;
  levels_ += static_cast<size_t>(p.made.levels);
  p.weights = weights_;
  weights_ += p.made.weights.size();
  p.table = table_entries_;
  table_entries_ += static_cast<size_t>(p.made.table_entries);
  passes_ += p.made.passes.size() + 1;
}

size_t StepBatch::levels_begin() const { return picture_bytes_ + passes_ * sizeof(Pass); }
size_t StepBatch::weights_begin() const { return levels_begin() + levels_ * sizeof(Levels); }
size_t StepBatch::tables_begin() const { return weights_begin() + weights_ * sizeof(float); }
size_t StepBatch::bytes() const { return to_vectors(tables_begin() + table_entries_ * sizeof(int32_t)); }

uint32_t* StepBatch::picture(size_t n, void* memory) const {
  return reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(memory) + pictures_[n].pixels);
}

Pass StepBatch::placed(const Picture& picture, const PicturePasses::Planned& planned, uint8_t* memory) const {
  Pass p = planned.pass;
  p.sample = picture.sample;
  p.pictures = reinterpret_cast<uint32_t*>(memory + picture.pixels);
  p.slot_pixels = picture.made.slot_pixels;
  if (picture.made.sums) p.sums = reinterpret_cast<float*>(memory + picture.sums);
  if (planned.levels >= 0)
    p.levels = reinterpret_cast<Levels*>(memory + levels_begin()) + picture.levels + planned.levels;
  if (planned.weights >= 0)
    p.weights = reinterpret_cast<const float*>(memory + weights_begin()) + picture.weights + planned.weights;
  if (planned.table >= 0)
    p.table = reinterpret_cast<int32_t*>(memory + tables_begin()) + picture.table + planned.table;
  return p;
}

void StepBatch::run(void* workspace, StoreKernel store, const Place& place) const {
  if (empty()) return;
  auto* const memory = static_cast<uint8_t*>(workspace);
  auto* const on_device = reinterpret_cast<const Pass*>(memory + picture_bytes_);

  struct Launch {
    Runner runner;
    PassKernel passes;
  };
  std::vector<Launch> launches;
  std::vector<Pass> passes;
  passes.reserve(passes_);
  const auto list_of = [&](size_t begin) {
    PassKernel list{on_device + begin, {0, static_cast<int32_t>(passes.size() - begin)}, 0};
    for (size_t i = begin; i < passes.size(); ++i)
      list.most_groups = std::max(list.most_groups, passes[i].groups());
    return list;
  };
  size_t rounds = 0;
  for (const Picture& picture : pictures_) rounds = std::max(rounds, picture.made.passes.size());
  for (size_t round = 0; round < rounds; ++round)
    for (const Runner runner : kRunners) {
      const size_t begin = passes.size();
      for (const Picture& picture : pictures_)
        if (round < picture.made.passes.size() && runner_of(picture.made.passes[round].pass.kind) == runner)
          passes.push_back(placed(picture, picture.made.passes[round], memory));
      if (passes.size() > begin) launches.push_back({runner, list_of(begin)});
    }
  const size_t stores = passes.size();
  for (const Picture& picture : pictures_) {
    Pass& p = passes.emplace_back(placed(picture, {}, memory));
    p.kind = PassKind::store;
    p.from = picture.made.result;
    p.width = store.out.w, p.height = store.out.h;
  }
  upload(passes.data(), passes.size() * sizeof(Pass), memory + picture_bytes_, place);
  std::vector<float> weights;
  for (const Picture& picture : pictures_)
    weights.insert(weights.end(), picture.made.weights.begin(), picture.made.weights.end());
  upload(weights.data(), weights.size() * sizeof(float), memory + weights_begin(), place);
  if (levels_ > 0)
    launch(ClearKernel{reinterpret_cast<uint32_t*>(memory + levels_begin()),
                       {0, 1},
                       static_cast<int64_t>(levels_ * sizeof(Levels) / sizeof(uint32_t))},
           place);
  for (const Launch& each : launches) run_passes(each.runner, each.passes, place);
  static_cast<PassKernel&>(store) = list_of(stores);
  launch(store, place);
}

}  // namespace millrace::device
