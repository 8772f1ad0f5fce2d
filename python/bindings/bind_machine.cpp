// The machine's share for this process, torch's permutation, and the slot cache.
#include <algorithm>

#include "bindings.h"
#include "core/batch_ring.h"
#include "core/cpu_budget.h"
#include "samplers/random_permutation.h"

namespace millrace::python {

void bind_machine(py::module_& m) {
  m.def("cpu_budget", [] {
    const CpuBudget budget = cpu_budget();
    py::dict d;
    d["cpus"] = budget.cpus;
    d["threads"] = budget.threads;
    d["reason"] = budget.reason;
    return d;
  });
  m.def("empty_cache", &empty_slot_cache);
  py::class_<RandomPermutation>(m, "RandomPermutation")
      .def(py::init<int64_t, uint64_t>(), py::arg("n"), py::arg("seed"))
      .def("take", [](RandomPermutation& permutation, int64_t count) {
        std::vector<int64_t> taken(static_cast<size_t>(std::max<int64_t>(count, 0)));
        taken.resize(permutation.take(taken));
        return py::array_t<int64_t>(static_cast<py::ssize_t>(taken.size()), taken.data());
      }, py::arg("count"));
}

}  // namespace millrace::python
