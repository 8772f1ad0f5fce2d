"""millrace: torch's DataLoader with a native engine under it.

>>> from millrace import DataLoader            # instead of torch.utils.data
"""

import torch  # first: the libraries that _core needs come with it

from ._common.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    """
    millrace_tools.advice: Advice Suggestion
    millrace_tools.bench: bench
    millrace_tools.doctor.attainable: need_of
    millrace_tools.doctor.examination: examine
    millrace_tools.drift: DriftAlarm DriftError DriftOptions DriftProfile DriftWarning watch
    millrace_tools.estimate: Estimate estimate
    millrace_tools.pack.packer: pack
    millrace_tools.pack.pictures: transcode_jpeg
    millrace_tools.rank_report: rank_report
    millrace_tools.report.metrics: prometheus serve_metrics
    millrace_tools.report.report: Report
    torch.utils.data: default_collate default_convert get_worker_info
    .: datasets errors samplers stores transforms
    ._core: cpu_budget empty_cache nvtx
    ._history.recorder: BatchHistory
    ._loader.states: gather_state merge_states
    ._replay.replaying: replay
    ._replay.signals: dump_on_signal
    .collate: Pad
    .dataloader: DataLoader
    .errors: CorruptDataError StateError UnavailableError
    .frozen_list: FrozenList frozen
    .installation: install uninstall
    .prefetch: DevicePrefetcher
    """,
)

__version__ = "0.1.0"
#: For CMAKE_PREFIX_PATH: find_package(millrace) finds the C++ library there that a wheel has inside.
cmake_prefix_path = __path__[0]
