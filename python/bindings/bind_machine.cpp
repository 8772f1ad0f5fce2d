// This process's share of the machine, its instruction sets, the slot cache, and the end of this process
// after the end of another one.
#include <cstdlib>

#include "bindings.h"
#include "base/cpu_targets.h"
#include "core/numa.h"
#include "core/batch_ring.h"
#include "core/cpu_budget.h"
#include "core/end_with_process.h"
#include "json/json_targets.h"

namespace millrace::python {

void limit_cpu_targets(std::string_view newest) {
  base::limit_cpu_targets(newest);
  json::follow_cpu_targets();
}

void limit_cpu_targets_by_environment() {
  const char* newest = std::getenv("MILLRACE_CPU_TARGETS");
  if (newest == nullptr || *newest == '\0') return;
  try {
    limit_cpu_targets(newest);
  } catch (const std::invalid_argument& error) {
    throw py::import_error("MILLRACE_CPU_TARGETS=" + std::string(newest) + ": " + error.what() +
                           "; give one of them, or unset the variable");
  }
}

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
  m.def("cpu_targets", &base::cpu_targets);
  m.def("limit_cpu_targets", &limit_cpu_targets, py::arg("newest"));
  m.def("json_target", &json::json_target);
  m.def("empty_cache", &core::empty_slot_cache);
  m.def("end_with_process", &core::end_with_process, py::arg("process"), py::arg("grace_ms"));
}

}  // namespace millrace::python
