#include "tensors/tensor_copier.h"

#include <pybind11/pybind11.h>

#include <utility>

#include "core/fork_guard.h"
#include "tensors/python_keeper.h"
#include "tensors/tensor_device.h"
#include "tensors/tensor_view.h"

namespace millrace::tensors {
namespace {

namespace py = pybind11;

// Smaller ones are not worth asking the driver about: they travel together, through staging memory.
constexpr size_t kAskFrom = core::kSmallFieldBytes;

// What keeps a tensor's memory, and drops it on any thread without the GIL.
device::HostBlock block_of(const TensorSpan& span, py::handle tensor) {
  device::HostBlock block{span.data(), span.size_bytes(), nullptr, false};
  if (block.bytes < kAskFrom || span.is_copy() || !py::cast<bool>(tensor.attr("is_pinned")())) return block;
  block.page_locked = true;
  block.keeper = keep_object(py::object(tensor.attr("untyped_storage")()).release().ptr());
  return block;
}

}  // namespace

struct TensorCopier::Impl {
  explicit Impl(std::shared_ptr<TensorDevice> to) : device(std::move(to)), copier(device) {}
  const uint64_t generation = core::fork_generation();
  const std::shared_ptr<TensorDevice> device;
  device::BatchCopier copier;
  TensorDevice::Current before{};  // enter()
};

TensorCopier::TensorCopier(std::shared_ptr<TensorDevice> device)
    : impl_(std::make_unique<Impl>(std::move(device))) {}
TensorCopier::~TensorCopier() {
  if (impl_->generation != core::fork_generation()) {
    static_cast<void>(impl_.release());
    return;
  }
  const py::gil_scoped_release release;  // it waits
  impl_.reset();
}

std::vector<PyObject*> TensorCopier::copy(const std::vector<PyObject*>& tensors) {
  std::vector<TensorSpan> spans;
  std::vector<device::HostBlock> blocks;
  for (PyObject* object : tensors) {
    const TensorSpan& span = spans.emplace_back(object);
    blocks.push_back(block_of(span, object));
  }
  std::vector<device::DeviceBlock> copied;
  {
    const py::gil_scoped_release release;
    copied = impl_->copier.copy(blocks);
    blocks.clear();
  }
  std::vector<PyObject*> result;
  for (size_t i = 0; i < copied.size(); ++i)
    result.push_back(impl_->device->tensor(copied[i], spans[i].field()));
  return result;
}

device::BatchCopier::Ticket TensorCopier::seal() {
  const py::gil_scoped_release release;
  return impl_->copier.seal();
}

void TensorCopier::hand_out(const device::BatchCopier::Ticket& ticket,
                            const std::vector<PyObject*>& tensors) {
  device::StreamId consumer = 0;
  {
    const py::gil_scoped_release release;
    consumer = impl_->device->current_stream();
    impl_->copier.hand_out(ticket, {}, consumer);
  }
  for (PyObject* tensor : tensors)
    if (impl_->device->holds(tensor)) impl_->device->used_on(tensor, consumer);
}

device::BatchCopier::Ticket TensorCopier::record() {
  const py::gil_scoped_release release;
  return impl_->copier.record(impl_->device->current_stream());
}

void TensorCopier::wait_for(const device::BatchCopier::Ticket& ticket) {
  if (impl_->generation != core::fork_generation()) return;
  const py::gil_scoped_release release;
  impl_->copier.wait_for(ticket);
}

void TensorCopier::enter() {
  impl_->before = impl_->device->enter({impl_->device->where().index, impl_->copier.stream()});
}
void TensorCopier::leave() { impl_->device->enter(impl_->before); }

void TensorCopier::close() {
  if (impl_->generation == core::fork_generation()) impl_->copier.close();
}

device::StreamId TensorCopier::stream() const { return impl_->copier.stream(); }
int TensorCopier::device_index() const { return impl_->device->where().index; }
int TensorCopier::device_type() const { return impl_->device->where().type; }
std::string TensorCopier::lock_failure() const { return impl_->device->lock_failure(); }

}  // namespace millrace::tensors
