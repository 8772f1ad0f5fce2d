// The machine's share for this process, the slot cache, and whose end ends this process.
#include "bindings.h"
#include "core/numa.h"
#include "core/batch_ring.h"
#include "core/cpu_budget.h"
#include "core/end_with_process.h"

namespace millrace::python {

void bind_machine(py::module_& m) {
  m.def(
      "numa_node_of", [](const std::string& pci_address) { return core::numa_node_of(pci_address); },
      py::arg("pci_address"));
  m.def("cpu_budget", [] {
    const core::CpuBudget budget = core::cpu_budget();
    py::dict d;
    d["cpus"] = budget.cpus;
    d["threads"] = budget.threads;
    d["reason"] = budget.reason;
    return d;
  });
  m.def("empty_cache", &core::empty_slot_cache);
  m.def("end_with_process", &core::end_with_process, py::arg("process"), py::arg("grace_ms"));
}

}  // namespace millrace::python
