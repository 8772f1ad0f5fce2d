// ImageDataset: what the engine reads, and single rows of it without the engine.
#include <cstring>
#include <mutex>

#include "bindings.h"
#include "codecs/image_header.h"
#include "gil_at_exit.h"
#include "loader/picture_rules.h"
#include "loader/worker.h"
#include "millrace/error.h"

namespace millrace::python {
namespace {

// Decodes by a Python callable, under the GIL.
class PythonFallback final : public loader::FallbackDecoder, public loader::PictureRules {
 public:
  // `function` may have attributes: quiet_pixels() (None: no limit), png_texts() (PngTextLimits' two),
  // check_size(width, height), identifies(bytes), and fault_of(exception), a PictureFault.
  explicit PythonFallback(py::object function) : function_(std::move(function)) {
    if (!py::hasattr(function_, "quiet_pixels")) return;
    asks_ = true;
    const py::object quiet = function_.attr("quiet_pixels")();
    most_quiet_pixels_ = quiet.is_none() ? INT64_MAX : quiet.cast<int64_t>();
    const py::tuple texts = function_.attr("png_texts")();
    png_texts_ = {texts[0].cast<int64_t>(), texts[1].cast<int64_t>()};
  }
  ~PythonFallback() override {
    if (!Py_IsInitialized() || interpreter_is_going()) {
      function_.release();  // the interpreter took its objects with it
      return;
    }
    py::gil_scoped_acquire gil;
    function_ = py::object();
  }

  void decode(std::span<const uint8_t> bytes, const std::string& path, transforms::PixelBuffer& out,
              int* orientation) const override {
    py::gil_scoped_acquire gil;
    try {
      const py::tuple result =
          function_(py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size()), to_path(path));
      const auto pixels = result[0].cast<py::array_t<uint8_t, py::array::c_style | py::array::forcecast>>();
      if (pixels.ndim() != 3 || pixels.shape(2) != 3 || pixels.shape(0) == 0 || pixels.shape(1) == 0)
        throw Error(ErrorKind::corrupt_data,
                    "decoding " + path + " gave no picture of shape (height, width, 3)", path);
      *orientation = result[1].cast<int>();
      const base::ImageView view =
          out.resize(static_cast<int32_t>(pixels.shape(1)), static_cast<int32_t>(pixels.shape(0)));
      const uint8_t* from = pixels.data();
      for (int32_t y = 0; y < view.height; ++y)
        for (int32_t x = 0; x < view.width; ++x, from += 3)
          std::memcpy(view.row(y) + x * base::kPixelBytes, from, 3);
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_Exception)) throw;  // KeyboardInterrupt speaks of the user, not of the file
      fail(error, path);
    }
  }

  int64_t most_quiet_pixels() const override { return most_quiet_pixels_; }
  codecs::PngTextLimits png_texts() const override { return png_texts_; }

  void check_size(int32_t width, int32_t height, const std::string& path) const override {
    if (!asks_) return;
    py::gil_scoped_acquire gil;
    try {
      function_.attr("check_size")(width, height);
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_Exception)) throw;
      fail(error, path);
    }
  }

  bool identifies(std::span<const uint8_t> bytes) const override {
    if (!asks_) return true;
    py::gil_scoped_acquire gil;
    return function_.attr("identifies")(py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size()))
        .cast<bool>();
  }

 private:
  // The error keeps text, not Python objects: it crosses to the consumer's thread and may outlive this
  // interpreter state.
  [[noreturn]] void fail(const py::error_already_set& error, const std::string& path) const {
    const std::string text = to_text(error.value());
    const int fault = asks_ ? function_.attr("fault_of")(error.value()).cast<int>() : int{codecs::kDamaged};
    throw Error(ErrorKind::corrupt_data, text.find(path) == std::string::npos ? path + ": " + text : text,
                path, -1, fault);
  }

  py::object function_;
  bool asks_ = false;
  int64_t most_quiet_pixels_ = codecs::kMaxPixels / 2;
  codecs::PngTextLimits png_texts_;
};

}  // namespace

struct Dataset {
  std::shared_ptr<const loader::ImageDataset> native;

  // Workers with warm buffers. try_lock, never lock: a fork may have copied the mutex while another thread
  // held it.
  std::mutex idle_mutex;
  std::vector<std::unique_ptr<loader::Worker>> idle;

  std::unique_ptr<loader::Worker> take_worker() {
    const std::unique_lock lock(idle_mutex, std::try_to_lock);
    if (!lock || idle.empty()) return std::make_unique<loader::Worker>(native, nullptr);
    auto worker = std::move(idle.back());
    idle.pop_back();
    return worker;
  }
  void put_worker(std::unique_ptr<loader::Worker> worker) {
    const std::unique_lock lock(idle_mutex, std::try_to_lock);
    if (lock && idle.size() < 4) idle.push_back(std::move(worker));
  }

  base::SampleKey key(int64_t index, const py::int_& seed, uint64_t epoch, uint32_t occurrence) const {
    const auto n = native->files->size();
    if (index < -n || index >= n)
      throw py::index_error("index " + std::to_string(index) + " is out of range for " + std::to_string(n) +
                            " samples");
    return make_key(seed, epoch, index < 0 ? index + n : index, occurrence);
  }

  void check_form(size_t form) const {
    const size_t forms = native->forms ? native->views.size() : 1;
    if (form >= forms)
      throw py::index_error("form " + std::to_string(form) + " is out of range for " + std::to_string(forms));
  }

  py::object row(int64_t index, const py::int_& seed, uint64_t epoch, uint32_t occurrence, bool interleaved,
                 size_t form) {
    check_form(form);
    const bool several = native->stacked || native->made_for(form).size() > 1;
    if (interleaved && several) throw py::value_error("interleaved rows are of datasets with one view");
    const base::SampleKey sample = key(index, seed, epoch, occurrence);
    auto worker = take_worker();
    transforms::OutputShape shape;
    {
      py::gil_scoped_release release;
      shape = worker->prepare(sample, form);
    }
    if (interleaved) shape = {shape.height, shape.width, shape.channels};
    void* data = nullptr;
    py::object tensor = new_row_tensor(shape, native->pipeline().output_type(), &data);
    {
      py::gil_scoped_release release;
      if (interleaved)
        worker->finish_interleaved(data);
      else
        worker->finish({static_cast<uint8_t*>(data)});
    }
    const auto parts = several ? worker->parts() : std::vector<transforms::OutputShape>{};
    put_worker(std::move(worker));
    if (!several) return tensor;
    if (native->stacked)
      return tensor.attr("view")(parts.size(), parts[0].channels, parts[0].height, parts[0].width);
    py::list lengths, views;
    for (const transforms::OutputShape& part : parts) lengths.append(part.elements());
    const py::list flat(tensor.attr("flatten")().attr("split")(lengths));
    for (size_t i = 0; i < parts.size(); ++i)
      views.append(flat[i].attr("view")(parts[i].channels, parts[i].height, parts[i].width).attr("clone")());
    return views;
  }

  py::list draw(int64_t index, const py::int_& seed, uint64_t epoch, uint32_t occurrence, size_t form) {
    check_form(form);
    const base::SampleKey sample = key(index, seed, epoch, occurrence);
    auto worker = take_worker();
    {
      py::gil_scoped_release release;
      worker->prepare(sample, form);
    }
    py::list result;
    for (const transforms::SampleParams& params : worker->params()) result.append(to_dicts(params));
    put_worker(std::move(worker));
    return native->made_for(form).size() == 1 ? py::list(result[0]) : result;
  }
};

std::shared_ptr<const loader::ImageDataset> native_dataset(const py::handle& dataset) {
  return dataset.cast<Dataset&>().native;
}

namespace {

loader::ModeRule mode_rule(const std::string& name) {
  if (name == "any") return loader::ModeRule::any;
  if (name == "rgb") return loader::ModeRule::rgb;
  if (name == "grey_or_rgb") return loader::ModeRule::grey_or_rgb;
  throw py::value_error("modes='" + name + "' is none of any, rgb, grey_or_rgb");
}

}  // namespace

void bind_dataset(py::module_& m) {
  using Labels = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;
  py::class_<Dataset>(m, "ImageDataset")
      .def(py::init([](const std::shared_ptr<sources::SampleFiles>& files, const Labels& labels,
                       const py::object& pipeline, const py::object& fallback, bool stacked, bool forms,
                       bool ragged, const std::string& modes) {
             if (labels.size() != 0 && labels.size() != files->size())
               throw py::value_error("there are " + std::to_string(files->size()) + " files but " +
                                     std::to_string(labels.size()) + " labels");
             auto native = std::make_shared<loader::ImageDataset>();
             native->files = files;
             native->labels.assign(labels.data(), labels.data() + labels.size());
             if (py::isinstance<py::list>(pipeline)) {
               for (const py::handle view : pipeline)
                 native->views.push_back(view.cast<const Pipeline&>().native);
             } else {
               native->views.push_back(pipeline.cast<const Pipeline&>().native);
             }
             native->stacked = stacked;
             native->forms = forms;
             native->ragged = ragged;
             native->modes = mode_rule(modes);
             static_cast<void>(native->shapes());
             if (!fallback.is_none()) native->fallback = std::make_shared<PythonFallback>(fallback);
             auto dataset = std::make_unique<Dataset>();
             dataset->native = std::move(native);
             return dataset;
           }),
           py::arg("files"), py::arg("labels"), py::arg("pipeline"), py::arg("fallback") = py::none(),
           py::arg("stacked") = false, py::arg("forms") = false, py::arg("ragged") = false,
           py::arg("modes") = "any")
      .def("__len__", [](const Dataset& d) { return d.native->files->size(); })
      .def("row", &Dataset::row, py::arg("index"), py::arg("seed"), py::arg("epoch"),
           py::arg("occurrence") = 0, py::arg("interleaved") = false, py::arg("form") = 0)
      .def("draw", &Dataset::draw, py::arg("index"), py::arg("seed"), py::arg("epoch"),
           py::arg("occurrence") = 0, py::arg("form") = 0);
}

}  // namespace millrace::python
