// The machine's share for this process, and the slot cache.
#include "bindings.h"
#include "core/numa.h"
#include "core/batch_ring.h"
#include "core/cpu_budget.h"

namespace millrace::python {

void bind_machine(py::module_& m) {
  m.def("numa_node_of", [](const std::string& pci_address) { return numa_node_of(pci_address); }, py::arg("pci_address"));
  m.def("cpu_budget", [] {
    const CpuBudget budget = cpu_budget();
    py::dict d;
    d["cpus"] = budget.cpus;
    d["threads"] = budget.threads;
    d["reason"] = budget.reason;
    return d;
  });
  m.def("empty_cache", &empty_slot_cache);
}

}  // namespace millrace::python
