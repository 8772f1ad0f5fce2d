#include "loader/device_batches.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "trace/range.h"
#include "transforms/chain.h"

namespace millrace::loader {
namespace {

std::vector<double> of_three(const std::vector<double>& values) {
  return values.size() == 1 ? std::vector<double>(device::kMaxChannels, values.front()) : values;
}

}  // namespace

DeviceBatches::DeviceBatches(const Views& views, std::shared_ptr<device::Device> device,
                             DeviceDecoding decoding, std::shared_ptr<DecodeShare> share)
    : device_(std::move(device)), share_(std::move(share)), copier_(device_), decoding_(std::move(decoding)) {
  for (const auto& view : views) {
    Normalization& made = normalizations_.emplace_back();
    if (const auto& normalize = view->chain().normalize)
      made = {of_three(normalize->mean), of_three(normalize->std)};
  }
}

std::vector<int64_t> DeviceBatches::decode(BatchTask& task) {
  decoded_ = {};
  decoded_.start_ns = base::now_ns();
  const auto asides = std::make_shared<std::vector<std::unique_ptr<RowAside>>>(std::move(task.asides));
  task.asides.clear();
  std::vector<int64_t> rows, again;
  std::vector<device::JpegRequest> requests;
  for (int64_t row = 0; row < std::min(task.rows(), static_cast<int64_t>(asides->size())); ++row) {
    const auto* picture = static_cast<const LeftPicture*>((*asides)[static_cast<size_t>(row)].get());
    if (picture == nullptr) continue;
    rows.push_back(row);
    requests.push_back({picture->file.bytes(), picture->region});
  }
  if (rows.empty()) return again;

  const trace::TraceRange range("decode on device");
  copier_.keep(asides);  // before anything is queued: what follows may throw with a part of it under way
  std::vector<device::JpegResult> results;
  const size_t bytes = decoding_.decoder->plan(requests, results);
  decoded_.memory = device_->allocate(bytes, copier_.stream());
  decoding_.decoder->decode(requests, results, decoded_.memory->data(),
                            device_->native_stream(copier_.stream()));
  decoded_.ticket = copier_.seal();

  decoded_.pictures.resize(static_cast<size_t>(task.rows()));
  decoded_.augmentations.assign(normalizations_.size(),
                                std::vector<device::Augmentation>(static_cast<size_t>(task.rows())));
  for (size_t i = 0; i < rows.size(); ++i) {
    const device::JpegResult& result = results[i];
    if (!result.problem.empty()) {
      again.push_back(rows[i]);
      continue;
    }
    const auto row = static_cast<size_t>(rows[i]);
    decoded_.pictures[row] = {static_cast<const uint8_t*>(decoded_.memory->data()) + result.offset,
                              result.width, result.height, result.pitch_bytes, 3};
    auto& left = static_cast<LeftPicture&>(*(*asides)[row]);
    for (size_t v = 0; v < left.views.size(); ++v) decoded_.augmentations[v][row] = std::move(left.views[v]);
    ++decoded_.count;
  }
  return again;
}

device::BatchCopier::Ticket DeviceBatches::finish(Batch batch, DeviceBatch& out) {
  const trace::TraceRange range("batch on device");
  const int64_t start = base::now_ns();
  out.id = batch.id;
  out.rows = batch.rows;
  out.type = batch.type;
  out.keys = std::move(batch.keys);
  const device::HostBlock labels{batch.labels.data(), batch.labels.size() * sizeof(int64_t), nullptr, false};
  out.labels = copier_.copy({&labels, 1}).front();
  const auto slot = std::make_shared<core::Lease>(std::move(batch.images));
  copier_.keep(slot);
  const std::vector<transforms::OutputShape> shapes =
      batch.parts.empty() ? std::vector{batch.shape} : batch.parts;
  size_t from = 0;
  for (const transforms::OutputShape& shape : shapes) {
    const size_t row_bytes = static_cast<size_t>(shape.elements()) * base::dtype_bytes(batch.type);
    DeviceBatch::View& view = out.views.emplace_back();
    view.shape = shape;
    view.images = {device_->allocate(static_cast<size_t>(batch.rows) * row_bytes, copier_.stream()), 0};
    fill(out.views.size() - 1, *slot, from,
         {view.images.data(), batch.type, batch.rows, shape.channels, shape.height, shape.width, false});
    from += static_cast<size_t>(batch.block_rows) * row_bytes;
  }
  const device::BatchCopier::Ticket ticket = copier_.seal();
  const OnStream mine{decoded_.ticket, ticket, decoded_.count, batch.rows, decoded_.start_ns, start};
  land();
  on_stream_ = mine;
  return ticket;
}

void DeviceBatches::fill(size_t view, const core::Lease& slot, size_t from, const device::BatchImages& rows) {
  const size_t row_bytes = static_cast<size_t>(rows.element(1, 0, 0)) * device::element_bytes(rows.type);
  for (int64_t first = 0, end = 0; first < rows.n;
       first = end) {  // runs of rows that come from the same side
    while (end < rows.n && is_decoded(end) == is_decoded(first)) ++end;
    const size_t offset = static_cast<size_t>(first) * row_bytes;
    if (is_decoded(first))
      augment(view, first, end, rows);
    else
      device_->copy_to_device(static_cast<uint8_t*>(rows.data) + offset, slot.data() + from + offset,
                              static_cast<size_t>(end - first) * row_bytes, copier_.stream());
  }
}

// Rows `first` to `end` of the batch, all decoded.
void DeviceBatches::augment(size_t view, int64_t first, int64_t end, const device::BatchImages& batch) {
  const auto count = static_cast<size_t>(end - first);
  const std::span pictures = std::span(decoded_.pictures).subspan(static_cast<size_t>(first), count);
  const std::span augmentations =
      std::span(decoded_.augmentations[view]).subspan(static_cast<size_t>(first), count);
  const auto workspace =
      device_->allocate(device::fused_workspace_bytes(augmentations, batch.h, batch.w), copier_.stream());
  device::BatchImages rows = batch;
  rows.data =
      static_cast<uint8_t*>(batch.data) + batch.element(first, 0, 0) * device::element_bytes(batch.type);
  rows.n = end - first;
  const auto& [mean, std] = normalizations_[view];
  decoding_.augment(pictures, augmentations, mean, std, rows, workspace->data(),
                    device_->native_stream(copier_.stream()));
}

void DeviceBatches::land() noexcept {
  if (!on_stream_) return;
  const OnStream done = *std::exchange(on_stream_, std::nullopt);
  try {
    if (done.decoded) copier_.wait(done.decoded);
    const int64_t decoded = base::now_ns();
    copier_.wait(done.ticket);
    const int64_t now = base::now_ns(), rest_start = done.decoded ? decoded : last_end_ns_;
    share_->device_took(decoded - std::max(done.start_ns, last_end_ns_), done.pictures,
                        now - std::max(done.rest_start_ns, rest_start), done.rows);
    last_end_ns_ = now;
    copier_.reap();
  } catch (...) {  // the device is lost: the next call on it throws, where a caller can take the error
  }
}

void DeviceBatches::close() {
  forget();
  on_stream_.reset();
  copier_.close();
}

}  // namespace millrace::loader
