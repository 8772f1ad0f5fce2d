// The accelerators of torch, through its device-neutral Python interface: torch.Stream, torch.Event,
// torch.accelerator, record_stream(), non_blocking copies.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "millrace/error.h"
#include "tensors/python_keeper.h"
#include "tensors/tensor_device.h"
#include "tensors/tensor_view.h"
#include "tensors/torch_api.h"

namespace millrace::tensors {
namespace {

namespace py = pybind11;

py::handle torch() { return torch_api().torch; }

// A Python object that may be dropped on any thread.
class Kept {
 public:
  explicit Kept(py::object object) : object_(object.ptr()), keeper_(keep_object(object.release().ptr())) {}
  py::handle get() const { return object_; }

 private:
  py::handle object_;
  std::shared_ptr<const void> keeper_;
};

struct TorchEvent : device::DeviceEvent {
  explicit TorchEvent(py::object made) : event(std::move(made)) {}
  const Kept event;  // done, for torch too, until it is recorded
};

uint8_t* address_of(const py::object& tensor) {
  return reinterpret_cast<uint8_t*>(py::cast<uintptr_t>(tensor.attr("data_ptr")()));
}

struct TorchMemory : device::DeviceMemory {
  explicit TorchMemory(py::object memory) : address(address_of(memory)), bytes(std::move(memory)) {}
  void* data() const override { return address; }
  void* const address;
  const Kept bytes;  // a tensor
};

struct TorchHostMemory : device::HostMemory {
  explicit TorchHostMemory(py::object memory) : address(address_of(memory)), bytes(std::move(memory)) {}
  uint8_t* data() const override { return address; }
  uint8_t* const address;
  const Kept bytes;
};

py::object new_bytes(size_t bytes, const py::object& device, bool page_locked = false) {
  return torch().attr("empty")(bytes, py::arg("dtype") = torch().attr("uint8"), py::arg("device") = device,
                               py::arg("pin_memory") = page_locked);
}

// From here to the end, what the calling thread queues goes to the stream.
class OnStream {
 public:
  explicit OnStream(py::object stream) : stream_(std::move(stream)) { stream_.attr("__enter__")(); }
  ~OnStream() {
    const py::error_scope kept;  // an error may be on its way
    PyObject* result = PyObject_CallMethod(stream_.ptr(), "__exit__", "OOO", Py_None, Py_None, Py_None);
    if (result == nullptr) PyErr_WriteUnraisable(stream_.ptr());
    Py_XDECREF(result);
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  const py::object stream_;
};

// Streams that no copier uses at present. A stream is used again, because torch's allocator gives memory that
// was freed on one stream to that one only: a new stream for each epoch would take new device memory for
// each.
class IdleStreams {
 public:
  bool take(const std::string& device, device::StreamId& stream) {
    const std::lock_guard lock(mutex_);
    std::vector<device::StreamId>& idle = idle_[device];
    if (idle.empty()) return false;
    stream = idle.back();
    idle.pop_back();
    return true;
  }
  void put(const std::string& device, const std::vector<device::StreamId>& streams) {
    const std::lock_guard lock(mutex_);
    std::vector<device::StreamId>& idle = idle_[device];
    idle.insert(idle.end(), streams.begin(), streams.end());
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<device::StreamId>> idle_;
};
IdleStreams& idle_streams =
    *new IdleStreams;  // never destroyed: copiers may end after static destructors ran

class TorchDevice final : public TensorDevice {
 public:
  explicit TorchDevice(const std::string& name)
      : name_(name), device_(torch().attr("device")(name)),
        place_{type_of(device_.get()), py::cast<int>(device_.get().attr("index"))} {}
  ~TorchDevice() override { idle_streams.put(name_, streams_); }

  Place where() const override { return place_; }
  device::StreamId new_stream() override {
    device::StreamId id = 0;
    if (!idle_streams.take(name_, id)) {
      const py::gil_scoped_acquire gil;
      id = py::cast<device::StreamId>(torch().attr("Stream")(py::arg("device") = device()).attr("stream_id"));
    }
    return streams_.emplace_back(id);
  }
  device::StreamId current_stream() override {
    const py::gil_scoped_acquire gil;
    return py::cast<device::StreamId>(
        torch().attr("accelerator").attr("current_stream")(device()).attr("stream_id"));
  }
  void* native_stream(device::StreamId id) override {
    const py::gil_scoped_acquire gil;
    const py::object of = stream(id);
    if (py::hasattr(of, "native_handle")) return address(of.attr("native_handle"));
    return address(torch()
                       .attr("cuda")
                       .attr("Stream")(py::arg("stream_id") = id, py::arg("device_index") = place_.index,
                                       py::arg("device_type") = place_.type)
                       .attr("cuda_stream"));
  }

  Current enter(Current current) override {
    const py::object accelerator = torch().attr("accelerator");
    const Current before{py::cast<int>(accelerator.attr("current_device_index")()), current_stream()};
    accelerator.attr("set_stream")(stream(current.stream));
    accelerator.attr("set_device_index")(current.device_index);
    return before;
  }

  std::unique_ptr<device::DeviceEvent> new_event() override {
    const py::gil_scoped_acquire gil;
    return std::make_unique<TorchEvent>(torch().attr("Event")(py::arg("device") = device()));
  }
  void record(device::DeviceEvent& event, device::StreamId on) override {
    const py::gil_scoped_acquire gil;
    of(event).attr("record")(stream(on));
  }
  void wait(device::StreamId waiting, device::DeviceEvent& event) override {
    const py::gil_scoped_acquire gil;
    of(event).attr("wait")(stream(waiting));
  }
  bool is_done(device::DeviceEvent& event) override {
    const py::gil_scoped_acquire gil;
    return py::cast<bool>(of(event).attr("query")());
  }
  void synchronize(device::DeviceEvent& event) override {
    const py::gil_scoped_acquire gil;
    of(event).attr("synchronize")();  // which lets go of the GIL
  }

  std::unique_ptr<device::DeviceMemory> allocate(size_t bytes, device::StreamId on) override {
    const py::gil_scoped_acquire gil;
    const OnStream guard(stream(on));
    py::object memory = new_bytes(bytes, device());
    exchanged_ = exchange_device(memory.ptr());
    return std::make_unique<TorchMemory>(std::move(memory));
  }
  void used_on(device::DeviceMemory& memory, device::StreamId by) override {
    const py::gil_scoped_acquire gil;
    used_on(bytes_of(memory).ptr(), by);
  }
  void used_on(PyObject* tensor, device::StreamId by) override {
    py::handle(tensor).attr("record_stream")(stream(by));
  }

  // torch's allocator of page-locked memory keeps what it has, so only the first batches ask the system.
  std::unique_ptr<device::HostMemory> allocate_host(size_t bytes) override {
    const py::gil_scoped_acquire gil;
    const py::object host = py::str("cpu");
    if (lock_failure().empty()) {
      try {
        return std::make_unique<TorchHostMemory>(new_bytes(bytes, host, true));
      } catch (py::error_already_set& error) {
        if (!error.matches(PyExc_RuntimeError)) throw;
        const std::lock_guard lock(mutex_);
        lock_failure_ = py::cast<std::string>(py::str(error.value()));
      }
    }
    return std::make_unique<TorchHostMemory>(new_bytes(bytes, host));
  }
  std::string lock_failure() const override {
    const std::lock_guard lock(mutex_);
    return lock_failure_;
  }

  void copy_to_device(void* to, const void* from, size_t bytes, device::StreamId on) override {
    if (bytes == 0) return;
    const py::gil_scoped_acquire gil;
    const OnStream guard(stream(on));
    const auto size = static_cast<int64_t>(bytes);
    const auto target = py::reinterpret_steal<py::object>(
        make_tensor(to, {&size, 1}, {}, base::DType::u8, nullptr, exchanged_));
    const auto source = py::reinterpret_steal<py::object>(
        make_tensor(const_cast<void*>(from), {&size, 1}, {}, base::DType::u8, nullptr));
    target.attr("copy_")(source, py::arg("non_blocking") = true);
  }

  bool holds(PyObject* tensor) const override {
    const py::handle t(tensor);
    return py::object(t.attr("device")).equal(device()) && t.attr("layout").is(torch().attr("strided"));
  }

  // A tensor of its own over the storage, and no view: views share a version counter, so writing into one
  // field in place would spoil what autograd saved of another.
  PyObject* tensor(const device::DeviceBlock& block, const TensorField& field) override {
    const py::object made = torch().attr("empty")(
        0, py::arg("dtype") = torch().attr(base::dtype_name(field.type)), py::arg("device") = device());
    const py::object storage = bytes_of(*block.memory).attr("untyped_storage")();
    const size_t offset = block.offset / base::dtype_bytes(field.type);
    const py::tuple sizes(py::cast(field.sizes));
    const py::object over =
        field.strides.empty() ? made.attr("set_")(storage, offset, sizes)
                              : made.attr("set_")(storage, offset, sizes, py::tuple(py::cast(field.strides)));
    return py::object(over).release().ptr();
  }

 private:
  static void* address(const py::object& number) {
    return reinterpret_cast<void*>(py::cast<uintptr_t>(number));
  }
  static py::handle of(device::DeviceEvent& event) { return static_cast<TorchEvent&>(event).event.get(); }
  static py::handle bytes_of(const device::DeviceMemory& memory) {
    return static_cast<const TorchMemory&>(memory).bytes.get();
  }
  // torch's own of a type of device. Only streams show it.
  static int type_of(py::handle device) {
    return py::cast<int>(torch().attr("accelerator").attr("current_stream")(device).attr("device_type"));
  }

  py::object device() const { return py::reinterpret_borrow<py::object>(device_.get()); }
  py::object stream(device::StreamId id) const {
    return torch().attr("Stream")(py::arg("stream_id") = id, py::arg("device_index") = place_.index,
                                  py::arg("device_type") = place_.type);
  }

  const std::string name_;
  const Kept device_;
  const Place place_;
  dlpack::Device exchanged_ = dlpack::kHost;  // this device, as of the first allocate()
  std::vector<device::StreamId> streams_;     // given back at the end
  mutable std::mutex mutex_;                  // guards what follows
  std::string lock_failure_;
};

}  // namespace

std::shared_ptr<TensorDevice> torch_device(const std::string& name) {
  return std::make_shared<TorchDevice>(name);
}

}  // namespace millrace::tensors
