// ImageEngine: what the bindings of the two image engines share, the one whose batches lie on the host and the one of a device's.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "bindings.h"

namespace millrace::python {

template <class Native>
struct ImageEngine {
  std::unique_ptr<Native> native;

  ~ImageEngine() {
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
      .def("stats", &Engine::stats);
}

}  // namespace millrace::python
