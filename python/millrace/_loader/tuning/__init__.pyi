# What others use of autotune; imported by the first loader with an argument that is "auto".

from .budget import Budget as Budget
from .controller import Controller as Controller
from .tuning import Room as Room
from .tuning import Tuning as Tuning
from .tuning import tuning_lines as tuning_lines
from .tuning import tuning_of as tuning_of
from .windows import Bounds as Bounds
from .windows import Setting as Setting
