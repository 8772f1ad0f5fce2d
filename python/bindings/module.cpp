// millrace._core: the native half of millrace. Its functions are documented in python/millrace/_core.pyi.
#include "bindings.h"
#include "tensors/torch_api.h"

// No mod_gil_not_used(): interpreters without the GIL switch it on when they import this. No test has run on
// one of them, and dump_state() walks the frames of running threads.
PYBIND11_MODULE(_core, m) {
  namespace py = pybind11;
  using namespace millrace::python;
  limit_cpu_targets_by_environment();
  millrace::tensors::connect_to_torch();
  m.attr("__version__") = MILLRACE_VERSION;
  bind_errors(m);
  bind_io(m);
  bind_sources(m);
  bind_codecs(m);
  bind_pictures(m);
  bind_shards(m);
  bind_shard_samples(m);
  bind_pipeline(m);
  bind_dataset(m);
  bind_loader(m);
  bind_gather(m);
  bind_arrays(m);
  bind_machine(m);
  bind_ring(m);
  bind_samplers(m);
  bind_sequences(m);
  bind_device(m);
  bind_batch(m);
  bind_batch_memory(m);
  bind_gpu_decoder(m);
  bind_device_loader(m);
  bind_lines(m);
  bind_json(m);
  bind_history(m);
  bind_collate(m);
  bind_tuning(m);
  bind_stacks(m);
  bind_trace(m);
}
