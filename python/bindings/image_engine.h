// ImageEngine: the common part of the bindings of the two image engines, with batches on the host or on a
// device.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "gil_at_exit.h"

namespace millrace::python {

template <class Native>
struct ImageEngine {
  std::unique_ptr<Native> native;
  std::shared_ptr<const loader::ImageDataset> dataset;
  std::vector<loader::RowKey> keys;  // of the batch that next() gave last

  ~ImageEngine() {
    if (interpreter_is_going()) {  // what its end did not close may have a worker that waits for the GIL for
                                   // ever
      static_cast<void>(native.release());
      return;
    }
    // Joining waits for workers, and a worker may be waiting for the GIL inside a fallback decode.
    py::gil_scoped_release release;
    native.reset();
  }

  void start_epoch(const py::int_& seed, uint64_t epoch) {
    const uint64_t bits = make_key(seed, epoch, 0, 0).seed;
    py::gil_scoped_release release;
    native->start_epoch(bits, epoch);
  }

  void submit(const py::object& indices) {
    auto list = make_indices(indices);
    py::gil_scoped_release release;
    native->submit(std::move(list));
  }

  void skip(const py::object& indices) {
    const auto list = make_indices(indices);
    py::gil_scoped_release release;
    native->skip(list);
  }

  // (files' indices, which occurrence of each this was, or None where each was the first)
  py::tuple last_keys() const {
    const auto rows = static_cast<py::ssize_t>(keys.size());
    py::array_t<int64_t> indices(rows);
    py::array_t<uint32_t> occurrences(rows);
    bool repeats = false;
    for (size_t i = 0; i < keys.size(); ++i) {
      indices.mutable_data()[i] = keys[i].index;
      occurrences.mutable_data()[i] = keys[i].occurrence;
      repeats |= keys[i].occurrence != 0;
    }
    return py::make_tuple(std::move(indices), repeats ? py::object(std::move(occurrences)) : py::none());
  }

  py::dict snapshot() const {
    const auto now = [this] {
      py::gil_scoped_release release;
      return native->snapshot();
    }();
    constexpr std::array<const char*, 3> kDoing{"idle", "read", "make"};
    py::list threads;
    for (const loader::LoaderSnapshot::Thread& thread : now.threads) {
      py::dict entry;
      entry["doing"] = kDoing[static_cast<size_t>(thread.doing)];
      entry["seconds"] = thread.seconds;
      if (thread.doing != trace::Doing::nothing) {
        entry["index"] = thread.index;
        entry["sample_seconds"] = thread.sample_seconds;
        entry["path"] = to_path(name_of(thread.index));
      }
      threads.append(std::move(entry));
    }
    py::dict result;
    result["threads"] = std::move(threads);
    result["outstanding"] = now.outstanding;
    result["claimed"] = now.claimed;
    result["complete"] = now.complete;
    result["unfinished_rows"] = now.unfinished;
    result["slots"] = now.slots;
    result["free_slots"] = now.free_slots;
    return result;
  }

  std::string name_of(int64_t index) const {
    try {
      return dataset->files->name(index);
    } catch (const std::exception&) {  // done meanwhile
      return {};
    }
  }

  void close() {
    py::gil_scoped_release release;
    native->close();
  }
};

// The methods of an engine that derives from ImageEngine and has next() and stats() of its own.
template <class Engine>
void def_engine(py::class_<Engine>& engine) {
  engine.def("start_epoch", &Engine::start_epoch, py::arg("seed"), py::arg("epoch"))
      .def("submit", &Engine::submit, py::arg("indices"))
      .def("skip", &Engine::skip, py::arg("indices"))
      .def("end_epoch", [](Engine& e) { e.native->end_epoch(); })
      .def("next", &Engine::next, py::arg("timeout") = 0.0)
      .def("close", &Engine::close)
      .def_property_readonly("keys", &Engine::last_keys)
      .def("snapshot", &Engine::snapshot)
      .def("stats", &Engine::stats);
}

}  // namespace millrace::python
