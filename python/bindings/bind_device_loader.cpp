// DeviceLoader: image batches made on a device, as tensors there.
#include <functional>
#include <memory>
#include <string>

#include "bindings.h"
#include "device/chain_augmentation.h"
#include "device/kernel_launch.h"
#include "image_engine.h"
#include "interruptible.h"
#include "loader/device_loader.h"
#include "tensors/tensor_device.h"

namespace millrace::python {
namespace {

// Makes a decoder (nvJPEG) and the fused kernel's function. If `decoding` is a capsule over a std::function,
// calls that function instead.
loader::DeviceDecoding decoding_of(const py::object& decoding, int device) {
  if (py::isinstance<py::capsule>(decoding))
    return (*decoding.cast<py::capsule>().get_pointer<std::function<loader::DeviceDecoding()>>())();
  loader::DeviceDecoding result;
  result.decoder = device::GpuDecoder::open({device, to_text(decoding)});
  result.augment = [device](auto pictures, auto augmentations, auto mean, auto std,
                            const device::BatchImages& out, void* workspace, void* stream) {
    device::fused_augment(pictures, augmentations, mean, std, out, workspace, {device, stream});
  };
  return result;
}

struct Loader : ImageEngine<loader::DeviceLoader> {
  std::shared_ptr<tensors::TensorDevice> device;

  Loader(const py::object& images, int threads, int slots, const std::string& on_error, bool drop_last,
         const std::string& memory, const py::object& where, const py::object& decoding, bool balances,
         int ahead)
      : device(tensor_device_of(where)) {
    loader::DeviceLoaderOptions options;
    options.loader = {threads, slots, error_policy(on_error), drop_last, block_source(memory)};
    options.balances = balances;
    options.ahead = ahead;
    dataset = native_dataset(images);
    native = std::make_unique<loader::DeviceLoader>(dataset, options, device,
                                                    decoding_of(decoding, device->where().index));
  }
  py::object next(double timeout) {
    loader::DeviceBatch batch;
    const auto status =
        wait_interruptibly(timeout, [&](int slice_ms) { return native->next(batch, slice_ms); });
    if (status == loader::DeviceLoader::Status::end) return py::none();
    keys = std::move(batch.keys);
    const auto tensor = [this](const device::DeviceBlock& block, base::DType type,
                               std::vector<int64_t> sizes) {
      tensors::TensorField field;
      field.type = type;
      field.sizes = std::move(sizes);
      return py::reinterpret_steal<py::object>(device->tensor(block, field));
    };
    py::list views;
    for (const auto& [shape, images] : batch.views)
      views.append(tensor(images, batch.type, {batch.rows, shape.channels, shape.height, shape.width}));
    const py::object labels = tensor(batch.labels, base::DType::i64, {batch.rows});
    if (views.size() == 1) return py::make_tuple(views[0], labels);
    return py::make_tuple(views, labels);
  }

  py::dict stats() const {
    py::dict result = to_dict(native->stats());
    result["left_to_device"] = native->left_to_device();
    return result;
  }
};

}  // namespace

void bind_device_loader(py::module_& m) {
  m.def(
      "why_not_fused", [](const Pipeline& pipeline) { return device::why_not_fused(*pipeline.native); },
      py::arg("pipeline"));
  py::class_<Loader> engine(m, "DeviceLoader");
  engine.def(py::init<py::object, int, int, const std::string&, bool, const std::string&, py::object,
                      py::object, bool, int>(),
             py::arg("dataset"), py::arg("threads"), py::arg("slots"), py::arg("on_error"),
             py::arg("drop_last"), py::arg("memory"), py::arg("device"), py::arg("decoding"),
             py::arg("balances"), py::arg("ahead"));
  def_engine(engine);
  engine.def("clocks", [](const Loader& loader) { return to_list(loader.native->clocks()); });
}

}  // namespace millrace::python
