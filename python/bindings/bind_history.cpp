// Helpers of the history recorder: hashes of rows, and a byte written when a signal comes.
#include "base/xxh64.h"
#include "bindings.h"
#include "core/signal_wake.h"
#include "millrace/error.h"

namespace millrace::python {

void bind_history(py::module_& m) {
  using Bytes = py::array_t<uint8_t, py::array::c_style>;
  m.def(
      "hash_rows",
      [](const Bytes& rows) {
        if (rows.ndim() != 2) throw py::value_error("hash_rows() takes bytes of shape (rows, bytes)");
        const auto count = static_cast<size_t>(rows.shape(0)), size = static_cast<size_t>(rows.shape(1));
        py::array_t<uint64_t> hashes(rows.shape(0));
        const uint8_t* from = rows.data();
        uint64_t* const to = hashes.mutable_data();
        py::gil_scoped_release release;
        for (size_t row = 0; row < count; ++row) to[row] = base::xxh64({from + row * size, size});
        return hashes;
      },
      py::arg("rows").noconvert());
  m.def("wake_on_signal", &core::wake_on_signal, py::arg("signal"), py::arg("fd"));
  m.def("unwake_on_signal", &core::unwake_on_signal, py::arg("signal"));
}

}  // namespace millrace::python
