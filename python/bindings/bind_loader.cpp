// Loader: the engine's consumer side.
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string_view>

#include "bindings.h"
#include "image_engine.h"
#include "interruptible.h"
#include "loader/data_loader.h"
#include "tensors/tensor.h"
#include "tensors/torch_blocks.h"

namespace millrace::python {
namespace {

// Returns a tuple of the rows' tensors, (c, h, w) each; for several views, a list of such tuples.
py::object ragged_of(loader::Batch& batch, size_t views) {
  std::vector<std::vector<tensors::LeasePart>> parts(1 + batch.further.size());  // by block
  for (const loader::RaggedRow& row : batch.ragged) {
    size_t offset = row.offset;
    for (const transforms::OutputShape& part : row.parts) {
      parts[row.block].push_back({offset, {part.channels, part.height, part.width}});
      offset += static_cast<size_t>(part.elements()) * base::dtype_bytes(batch.type);
    }
  }
  std::vector<std::deque<py::object>> made(parts.size());
  for (size_t block = 0; block < parts.size(); ++block) {
    for (PyObject* tensor :
         tensors::tensors_from_lease(std::move(batch.block(block)), parts[block], batch.type))
      made[block].push_back(py::reinterpret_steal<py::object>(tensor));
  }
  std::vector<py::tuple> by_view(views);
  for (py::tuple& rows : by_view) rows = py::tuple(batch.ragged.size());
  for (size_t i = 0; i < batch.ragged.size(); ++i)
    for (size_t view = 0; view < batch.ragged[i].parts.size(); ++view) {
      std::deque<py::object>& next = made[batch.ragged[i].block];
      by_view[view][i] = std::move(next.front());
      next.pop_front();
    }
  return views == 1 ? py::object(by_view[0]) : py::cast(by_view);
}

// Returns a tensor (n, c, h, w). For several views of each picture: a list of these, or (n, views, c, h, w).
py::object images_of(loader::Batch& batch, const loader::ImageDataset& dataset) {
  if (!batch.ragged.empty()) return ragged_of(batch, dataset.made_for(0).size());
  const auto sizes = [&](const transforms::OutputShape& shape) {
    return std::vector<int64_t>{batch.rows, shape.channels, shape.height, shape.width};
  };
  if (dataset.stacked) {
    std::vector<int64_t> stack = sizes(dataset.shapes().front());
    stack.insert(stack.begin() + 1, static_cast<int64_t>(dataset.views.size()));
    return py::reinterpret_steal<py::object>(
        tensors::tensor_from_lease(std::move(batch.images), stack, batch.type));
  }
  if (batch.parts.empty())
    return py::reinterpret_steal<py::object>(
        tensors::tensor_from_lease(std::move(batch.images), sizes(batch.shape), batch.type));
  std::vector<tensors::LeasePart> parts;
  size_t offset = 0;
  for (const transforms::OutputShape& part : batch.parts) {
    parts.push_back({offset, sizes(part)});
    offset += static_cast<size_t>(batch.block_rows * part.channels) * static_cast<size_t>(part.height) *
              static_cast<size_t>(part.width) * base::dtype_bytes(batch.type);
  }
  py::list views;
  for (PyObject* tensor : tensors::tensors_from_lease(std::move(batch.images), parts, batch.type))
    views.append(py::reinterpret_steal<py::object>(tensor));
  return views;
}

struct Loader : ImageEngine<loader::DataLoader> {
  std::vector<loader::SkippedRow> skipped;  // of the batch that next() gave last

  Loader(const py::object& images, int threads, int slots, const std::string& on_error, bool drop_last,
         const std::string& memory) {
    dataset = native_dataset(images);
    native = loader::DataLoader::create(
        dataset, {threads, slots, error_policy(on_error), drop_last, block_source(memory)});
  }

  py::object next(double timeout) {
    loader::Batch batch;
    const auto status =
        wait_interruptibly(timeout, [&](int slice_ms) { return native->next(batch, slice_ms); });
    if (status == loader::DataLoader::Status::end) return py::none();
    skipped = std::move(batch.skipped);
    keys = std::move(batch.keys);
    py::object images = images_of(batch, *dataset);
    void* data = nullptr;
    auto labels =
        py::reinterpret_steal<py::object>(tensors::new_tensor({batch.rows}, base::DType::i64, &data));
    std::memcpy(data, batch.labels.data(), batch.labels.size() * sizeof(int64_t));
    return py::make_tuple(std::move(images), std::move(labels));
  }

  void submit_form(const py::object& indices, size_t form) {
    auto list = make_indices(indices);
    py::gil_scoped_release release;
    native->submit(std::move(list), {}, form);
  }

  // `box`: (left, top, width, height) in pixels, or None.
  void submit_mixed(const py::object& indices, std::vector<int32_t> partners, float own, float other,
                    const py::object& box) {
    auto list = make_indices(indices);
    loader::BatchMix mix{{own, other}, std::move(partners)};
    if (!box.is_none()) {
      const auto [left, top, width, height] = box.cast<std::array<int32_t, 4>>();
      mix.mix.box = base::Rect{left, top, width, height};
    }
    py::gil_scoped_release release;
    native->submit(std::move(list), std::move(mix));
  }

  py::dict stats() const { return to_dict(native->stats()); }
};

}  // namespace

loader::ErrorPolicy error_policy(const std::string& name) {
  if (name == "raise") return loader::ErrorPolicy::raise;
  if (name == "skip") return loader::ErrorPolicy::skip;
  if (name == "replace") return loader::ErrorPolicy::replace;
  if (name == "leave") return loader::ErrorPolicy::leave;
  throw py::value_error("on_error='" + name + "' is unknown; use 'raise', 'skip', 'replace' or 'leave'");
}

py::dict to_dict(const loader::SampleError& error) {
  py::dict result;
  result["index"] = error.index;
  result["path"] = to_path(error.path);
  result["offset"] = error.offset;
  result["reason"] = to_path(error.reason);
  return result;
}

py::dict to_dict(const loader::LoaderStats& s) {
  py::dict seconds;
  seconds["read"] = s.read_seconds;
  seconds["decode"] = s.decode_seconds;
  seconds["transform"] = s.transform_seconds;
  seconds["collate"] = s.collate_seconds;
  py::list errors;
  for (const loader::SampleError& error : s.errors) errors.append(to_dict(error));
  py::dict result;
  result["samples"] = s.samples;
  result["batches"] = s.batches;
  result["bytes"] = s.bytes;
  result["seconds"] = seconds;
  result["wait_seconds"] = s.wait_seconds;
  result["slots"] = s.slots;
  result["overflow_slots"] = s.overflow_slots;
  result["errors"] = errors;
  result["left_out"] = s.left_out;
  return result;
}

core::BlockSource block_source(const std::string& memory) {
  constexpr std::string_view kNode = "page-locked on node ";
  if (memory == "system") return {};
  if (memory == "torch" || memory == "page-locked") return tensors::torch_blocks(memory == "page-locked", -1);
  if (memory.starts_with(kNode)) return tensors::torch_blocks(true, std::atoi(memory.c_str() + kNode.size()));
  throw py::value_error("memory='" + memory +
                        "' is unknown; use 'system', 'torch', 'page-locked' or 'page-locked on node N'");
}

std::vector<int64_t> make_indices(const py::object& indices) {
  if (py::isinstance<py::array>(indices)) {
    const auto array = py::cast<py::array_t<int64_t, py::array::c_style>>(indices);
    return {array.data(), array.data() + array.size()};
  }
  const auto items =
      py::reinterpret_steal<py::object>(PySequence_Fast(indices.ptr(), "indices must be a sequence of ints"));
  if (!items) throw py::error_already_set();
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.ptr());
  std::vector<int64_t> result(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const auto number =
        py::reinterpret_steal<py::object>(PyNumber_Index(PySequence_Fast_GET_ITEM(items.ptr(), i)));
    if (!number) throw py::error_already_set();
    result[static_cast<size_t>(i)] = PyLong_AsLongLong(number.ptr());
    if (PyErr_Occurred()) throw py::error_already_set();
  }
  return result;
}

void bind_loader(py::module_& m) {
  py::class_<Loader> engine(m, "Loader");
  engine.def(py::init<py::object, int, int, const std::string&, bool, const std::string&>(),
             py::arg("dataset"), py::arg("threads"), py::arg("slots") = 3, py::arg("on_error") = "raise",
             py::arg("drop_last") = false, py::arg("memory") = "system");
  def_engine(engine);
  engine.def("submit_form", &Loader::submit_form, py::arg("indices"), py::arg("form"));
  engine.def("submit_mixed", &Loader::submit_mixed, py::arg("indices"), py::arg("partners"), py::arg("own"),
             py::arg("other"), py::arg("box") = py::none());
  engine.def_property_readonly("mixes",
                               [](const Loader& loader) { return loader.dataset->mixer() != nullptr; });
  engine.def(
      "set_limits", [](Loader& loader, int threads, int slots) { loader.native->set_limits(threads, slots); },
      py::arg("threads"), py::arg("slots"));
  engine.def("clocks", [](const Loader& loader) { return to_list(loader.native->clocks()); });
  engine.def_property_readonly("skipped", [](const Loader& loader) {
    py::list result;
    for (const loader::SkippedRow& hole : loader.skipped)
      result.append(py::make_tuple(hole.row, to_dict(hole.error)));
    return result;
  });
}

}  // namespace millrace::python
