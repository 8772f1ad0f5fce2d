# What others use of the planner; imported when a loader is first planned.

from .plan import Plan as Plan
from .plan import make_plan as make_plan
from .plan import order_advice as order_advice
from .stages import Stage as Stage
from .streams import seen_as_inline as seen_as_inline
