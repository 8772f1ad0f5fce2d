# The public names of millrace, and where each comes from when it is asked for.

from millrace_tools.advice import Advice as Advice
from millrace_tools.advice import Suggestion as Suggestion
from millrace_tools.bench import bench as bench
from millrace_tools.doctor.attainable import need_of as need_of
from millrace_tools.doctor.examination import examine as examine
from millrace_tools.drift import DriftAlarm as DriftAlarm
from millrace_tools.drift import DriftError as DriftError
from millrace_tools.drift import DriftOptions as DriftOptions
from millrace_tools.drift import DriftProfile as DriftProfile
from millrace_tools.drift import DriftWarning as DriftWarning
from millrace_tools.drift import watch as watch
from millrace_tools.estimate import Estimate as Estimate
from millrace_tools.estimate import estimate as estimate
from millrace_tools.pack.packer import pack as pack
from millrace_tools.pack.pictures import transcode_jpeg as transcode_jpeg
from millrace_tools.rank_report import rank_report as rank_report
from millrace_tools.report.metrics import prometheus as prometheus
from millrace_tools.report.metrics import serve_metrics as serve_metrics
from millrace_tools.report.report import Report as Report
from torch.utils.data import default_collate as default_collate
from torch.utils.data import default_convert as default_convert
from torch.utils.data import get_worker_info as get_worker_info

from . import datasets as datasets
from . import errors as errors
from . import samplers as samplers
from . import stores as stores
from . import transforms as transforms
from ._core import cpu_budget as cpu_budget
from ._core import empty_cache as empty_cache
from ._core import nvtx as nvtx
from ._history.recorder import BatchHistory as BatchHistory
from ._loader.states import gather_state as gather_state
from ._loader.states import merge_states as merge_states
from ._replay.replaying import replay as replay
from ._replay.signals import dump_on_signal as dump_on_signal
from .collate import Pad as Pad
from .dataloader import DataLoader as DataLoader
from .errors import CorruptDataError as CorruptDataError
from .errors import StateError as StateError
from .errors import UnavailableError as UnavailableError
from .frozen_list import FrozenList as FrozenList
from .frozen_list import frozen as frozen
from .installation import install as install
from .installation import uninstall as uninstall
from .prefetch import DevicePrefetcher as DevicePrefetcher

__version__: str
cmake_prefix_path: str
