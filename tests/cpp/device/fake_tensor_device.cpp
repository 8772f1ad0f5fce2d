// _fake_device: the fake device as a Python module, for the tests of what lies above it. Its tensors are CPU
// tensors over the fake's memory; the host is its consumer, so a stream that waits for an event makes the
// host wait.
#include <pybind11/pybind11.h>

#include <deque>
#include <unordered_map>
#include <vector>

#include "fake_decoder.h"
#include "fake_device.h"
#include "tensors/tensor_device.h"
#include "tensors/tensor_view.h"
#include "tensors/torch_api.h"

namespace py = pybind11;

namespace millrace::device {
namespace {

class FakeTensorDevice final : public tensors::TensorDevice {
 public:
  explicit FakeTensorDevice(FakeDevice::Options options) : fake(std::make_shared<FakeDevice>(options)) {}

  Place where() const override { return {0, -1}; }
  bool holds(PyObject* tensor) const override {
    tensors::TensorView view;
    return tensors::read_tensor(tensor, view);
  }
  PyObject* tensor(const DeviceBlock& block, const tensors::TensorField& field) override {
    known_[block.data()] = block.memory;
    return tensors::make_tensor(block.data(), field.sizes, field.strides, field.type, block.memory);
  }
  void used_on(PyObject* tensor, StreamId stream) override {
    tensors::TensorView view;
    if (!tensors::read_tensor(tensor, view)) return;
    const auto found = known_.find(view.data);
    if (found == known_.end()) return;
    if (const auto memory = found->second.lock()) fake->used_on(*memory, stream), ++marked;
  }
  Current enter(Current current) override {
    if (current.stream != fake->current_stream())
      fake->finish();  // Python code runs on the host, not behind the copies
    const StreamId before = fake->current_stream();
    fake->set_current_stream(current.stream);
    return {current.device_index, before};
  }
  std::string lock_failure() const override { return failure; }

  StreamId new_stream() override { return fake->new_stream(); }
  StreamId current_stream() override { return fake->current_stream(); }
  void* native_stream(StreamId stream) override { return fake->native_stream(stream); }
  std::unique_ptr<DeviceEvent> new_event() override { return fake->new_event(); }
  void record(DeviceEvent& event, StreamId stream) override { fake->record(event, stream); }
  void wait(StreamId, DeviceEvent& event) override { fake->synchronize(event); }
  bool is_done(DeviceEvent& event) override { return fake->is_done(event); }
  void synchronize(DeviceEvent& event) override { fake->synchronize(event); }
  std::unique_ptr<DeviceMemory> allocate(size_t bytes, StreamId stream) override {
    return fake->allocate(bytes, stream);
  }
  void used_on(DeviceMemory& memory, StreamId stream) override { fake->used_on(memory, stream); }
  std::unique_ptr<HostMemory> allocate_host(size_t bytes) override { return fake->allocate_host(bytes); }
  void copy_to_device(void* to, const void* from, size_t bytes, StreamId stream) override {
    fake->copy_to_device(to, from, bytes, stream);
  }

  // What a batch's own to() may do: a copy from the host on the consumer's stream, done late.
  void read_later(const void* from, size_t bytes) {
    read_.emplace_back(bytes);
    fake->copy_to_device(read_.back().data(), from, bytes, fake->current_stream());
  }

  const std::shared_ptr<FakeDevice> fake;
  std::string failure;
  int64_t marked = 0;
  const std::shared_ptr<FakeDecoder::Counts> counts = std::make_shared<FakeDecoder::Counts>();

 private:
  std::unordered_map<const void*, std::weak_ptr<DeviceMemory>> known_;
  std::deque<std::vector<uint8_t>> read_;
};

}  // namespace
}  // namespace millrace::device

PYBIND11_MODULE(_fake_device, m) {
  using millrace::device::FakeTensorDevice;
  millrace::tensors::connect_to_torch();
  py::class_<FakeTensorDevice, std::shared_ptr<FakeTensorDevice>>(m, "FakeDevice")
      .def(py::init([](uint32_t seed, size_t memory_bytes) {
             return std::make_shared<FakeTensorDevice>(millrace::device::FakeDevice::Options{
                 .seed = seed, .threads = false, .memory_bytes = memory_bytes, .host_bytes = SIZE_MAX});
           }),
           py::arg("seed") = 1, py::arg("memory_bytes") = SIZE_MAX)
      .def_property_readonly("capsule",
                             [](const std::shared_ptr<FakeTensorDevice>& device) {
                               return py::capsule(
                                   new std::shared_ptr<millrace::tensors::TensorDevice>(device), [](void* p) {
                                     delete static_cast<std::shared_ptr<millrace::tensors::TensorDevice>*>(p);
                                   });
                             })
      .def("read_later", [](FakeTensorDevice& d, size_t address,
                            size_t bytes) { d.read_later(reinterpret_cast<const void*>(address), bytes); })
      // refuses: of this many files each, the decoder takes all but one; 0: all
      .def(
          "decoding",
          [](const std::shared_ptr<FakeTensorDevice>& device, int64_t refuses) {
            const auto make = [device, refuses] {
              millrace::device::FakeDecoder::Options options;
              if (refuses > 0)
                options.refuses = [refuses](auto bytes) {
                  return static_cast<int64_t>(bytes.size()) % refuses == 0;
                };
              return millrace::device::fake_decoding(device->fake, options, device->counts);
            };
            return py::capsule(new std::function<millrace::loader::DeviceDecoding()>(make), [](void* p) {
              delete static_cast<std::function<millrace::loader::DeviceDecoding()>*>(p);
            });
          },
          py::arg("refuses") = 0)
      .def_property_readonly("decoded", [](FakeTensorDevice& d) { return d.counts->decoded.load(); })
      .def_property_readonly("refused", [](FakeTensorDevice& d) { return d.counts->refused.load(); })
      .def("finish", [](FakeTensorDevice& d) { d.fake->finish(); })
      .def_property_readonly("changed_sources", [](FakeTensorDevice& d) { return d.fake->changed_sources(); })
      .def_property_readonly("allocations", [](FakeTensorDevice& d) { return d.fake->allocations(); })
      .def_property_readonly("host_allocations",
                             [](FakeTensorDevice& d) { return d.fake->host_allocations(); })
      .def_property_readonly("copies", [](FakeTensorDevice& d) { return d.fake->copies(); })
      .def_readonly("marked", &FakeTensorDevice::marked)
      .def_readwrite("lock_failure", &FakeTensorDevice::failure);
}
