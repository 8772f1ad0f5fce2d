// _fake_device: the fake device as a Python module, for the tests of what lies above it. Its tensors are CPU
// tensors over the fake's memory; the host is its consumer, so a stream that waits for an event makes the
// host wait.
#include <pybind11/pybind11.h>

#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <deque>
#include <unordered_map>
#include <vector>

#include "fake_decoder.h"
#include "fake_device.h"
#include "torch_bridge/tensor_device.h"

namespace py = pybind11;

namespace millrace::device {
namespace {

class FakeTensorDevice final : public torch_bridge::TensorDevice {
 public:
  explicit FakeTensorDevice(FakeDevice::Options options) : fake(std::make_shared<FakeDevice>(options)) {}

  at::Device where() const override { return at::kCPU; }
  at::Tensor tensor(const DeviceBlock& block, const torch_bridge::TensorField& field) override {
    const auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(field.type));
    const auto keep = [memory = block.memory](void*) {};
    known_[block.data()] = block.memory;
    return field.strides.empty() ? at::from_blob(block.data(), field.sizes, keep, options)
                                 : at::from_blob(block.data(), field.sizes, field.strides, keep, options);
  }
  void used_on(const at::Tensor& tensor, StreamId stream) override {
    const auto found = known_.find(tensor.const_data_ptr());
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

// Of an accelerator of torch's no more than a pool of streams, as CUDA has one: it gives a different one each
// time, 32 in turn.
struct StreamPool final : c10::impl::DeviceGuardImplInterface {
  at::DeviceType type() const override { return at::kPrivateUse1; }
  at::Device exchangeDevice(at::Device) const override { return getDevice(); }
  at::Device getDevice() const override { return {at::kPrivateUse1, 0}; }
  void setDevice(at::Device) const override {}
  void uncheckedSetDevice(at::Device) const noexcept override {}
  at::Stream getStream(at::Device device) const override { return at::Stream(at::Stream::UNSAFE, device, 0); }
  at::Stream exchangeStream(at::Stream stream) const override { return stream; }
  at::DeviceIndex deviceCount() const noexcept override { return 1; }
  at::Stream getStreamFromGlobalPool(at::Device device, bool) const override {
    static int64_t given = 0;
    return at::Stream(at::Stream::UNSAFE, device, 1 + given++ % 32);
  }
};

}  // namespace
}  // namespace millrace::device

PYBIND11_MODULE(_fake_device, m) {
  using millrace::device::FakeTensorDevice;
  py::module_::import("torch");
  py::class_<FakeTensorDevice, std::shared_ptr<FakeTensorDevice>>(m, "FakeDevice")
      .def(py::init([](uint32_t seed, size_t memory_bytes) {
             return std::make_shared<FakeTensorDevice>(millrace::device::FakeDevice::Options{
                 .seed = seed, .threads = false, .memory_bytes = memory_bytes, .host_bytes = SIZE_MAX});
           }),
           py::arg("seed") = 1, py::arg("memory_bytes") = SIZE_MAX)
      .def_property_readonly(
          "capsule",
          [](const std::shared_ptr<FakeTensorDevice>& device) {
            return py::capsule(
                new std::shared_ptr<millrace::torch_bridge::TensorDevice>(device), [](void* p) {
                  delete static_cast<std::shared_ptr<millrace::torch_bridge::TensorDevice>*>(p);
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
  m.def("register_stream_pool", [] {  // as torch's "privateuseone:0", for as long as the process lives
    c10::impl::DeviceGuardImplRegistrar(at::kPrivateUse1, new millrace::device::StreamPool);
  });
}
