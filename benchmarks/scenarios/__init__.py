"""What is measured: each scenario says what every loader has to deliver, so that all of them do the same
work.
"""

from __future__ import annotations

from benchmarks.scenarios.imagenet import IMAGENET_TRAIN, IMAGENET_VAL, ImageScenario
from benchmarks.scenarios.tars import TAR_TRAIN, TAR_VAL

OF_FILES = (IMAGENET_TRAIN.name, IMAGENET_VAL.name)
SCENARIOS: dict[str, ImageScenario] = {s.name: s for s in (IMAGENET_TRAIN, IMAGENET_VAL, TAR_TRAIN, TAR_VAL)}
