// GpuDecoder: nvJPEG for Python. The files of a call are held until the device has read them.
#include <array>
#include <memory>
#include <string_view>

#include "bindings.h"
#include "device/gpu_decoder.h"
#include "millrace/error.h"

namespace millrace::python {
namespace {

class Decoder {
 public:
  Decoder(int device, const py::str& path, size_t ceiling) {
    std::string library = to_text(path);
    const py::gil_scoped_release release;
    native_ = device::GpuDecoder::open({device, std::move(library), ceiling});
  }

  bool has_hardware() const { return native_->has_hardware(); }

  size_t plan(const std::vector<py::bytes>& files, const std::vector<std::array<int32_t, 4>>& regions) {
    if (files.size() != regions.size())
      throw Error(ErrorKind::invalid_argument, std::to_string(regions.size()) + " regions were given for " +
                                                   std::to_string(files.size()) +
                                                   " files; give one for each");
    {
      const py::gil_scoped_release release;
      native_->wait();
    }
    files_ = files;
    requests_.clear();
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string_view bytes(files_[i]);
      const auto& [left, top, width, height] = regions[i];
      requests_.push_back(
          {{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, {left, top, width, height}});
    }
    const py::gil_scoped_release release;
    return native_->plan(requests_, results_);
  }

  py::list decode(uintptr_t memory, uintptr_t stream) {
    {
      const py::gil_scoped_release release;
      native_->decode(requests_, results_, reinterpret_cast<void*>(memory), reinterpret_cast<void*>(stream));
    }
    py::list results;
    for (const device::JpegResult& r : results_)
      results.append(py::make_tuple(r.offset, r.width, r.height, r.pitch_bytes, r.problem));
    return results;
  }

 private:
  std::vector<py::bytes> files_;  // outlives the decoder, which waits for the device at its end
  std::vector<device::JpegRequest> requests_;
  std::vector<device::JpegResult> results_;
  std::unique_ptr<device::GpuDecoder> native_;
};

}  // namespace

void bind_gpu_decoder(py::module_& m) {
  py::class_<Decoder>(m, "GpuDecoder")
      .def(py::init<int, const py::str&, size_t>(), py::arg("device"), py::arg("library"),
           py::arg("memory_ceiling_bytes"))
      .def_property_readonly("has_hardware", &Decoder::has_hardware)
      .def("plan", &Decoder::plan, py::arg("files"), py::arg("regions"))
      .def("decode", &Decoder::decode, py::arg("memory"), py::arg("stream"));
}

}  // namespace millrace::python
