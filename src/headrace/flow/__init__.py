"""Flow control for anyone: channels, permits, rates, gates, draining. Standard library only; knows no receipts.

`x()` waits, `try_x()` does not and raises the refusal, `x_blocking()` is the same for threads. The test kit (virtual
time, seeded schedules) is in `headrace.flow.testing`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from headrace.flow.channel import channel
from headrace.flow.channel_statistics import ChannelStatistics
from headrace.flow.clock import Clock, LoopClock, MonotonicClock
from headrace.flow.drain import Drain, Drainable, DrainReport
from headrace.flow.errors import Closed, Empty, Ended, Expired, FlowError, Full, PermitSpent, Refusal, Shed
from headrace.flow.gate import Gate, GateState, GateStatistics, WaterMarks
from headrace.flow.gauges import Gauge, Gauges
from headrace.flow.permits import Ending, Permit, Permits, PermitStatistics
from headrace.flow.rate import Rate, RateLimit, RateStatistics, TokenBucket
from headrace.flow.receiver import Receiver
from headrace.flow.sender import Sender
from headrace.flow.sending import Sending, Slot
from headrace.flow.waiters import WaitLine

if TYPE_CHECKING:
    from headrace.flow.adaptive import AdaptiveLimit, AdaptivePermits, AimdRule, GradientRule, LimitBounds, LimitRule
    from headrace.flow.admission import Admission, Admitted, Decision
    from headrace.flow.admission_statistics import AdmissionStatistics
    from headrace.flow.drain_rate import DrainRate, RetryAfter
    from headrace.flow.fairness import FairTurns
    from headrace.flow.intake import Intake
    from headrace.flow.intake_statistics import IntakeStatistics
    from headrace.flow.ladder import ClassStatistics, Ladder, LadderStatistics
    from headrace.flow.ladder_order import ClassBounds
    from headrace.flow.remote import BackPressure, Pause, Remote, RemoteStatistics
    from headrace.flow.retry import RetryBudget, RetryPolicy, parse_retry_after
    from headrace.flow.shedding import ServiceClass, ShedLevel
    from headrace.flow.work import Batch, Lane, Work

__all__ = [
    "AdaptiveLimit",
    "AdaptivePermits",
    "Admission",
    "AdmissionStatistics",
    "Admitted",
    "AimdRule",
    "BackPressure",
    "Batch",
    "ChannelStatistics",
    "ClassBounds",
    "ClassStatistics",
    "Clock",
    "Closed",
    "Decision",
    "Drain",
    "DrainRate",
    "DrainReport",
    "Drainable",
    "Empty",
    "Ended",
    "Ending",
    "Expired",
    "FairTurns",
    "FlowError",
    "Full",
    "Gate",
    "GateState",
    "GateStatistics",
    "Gauge",
    "Gauges",
    "GradientRule",
    "Intake",
    "IntakeStatistics",
    "Ladder",
    "LadderStatistics",
    "Lane",
    "LimitBounds",
    "LimitRule",
    "LoopClock",
    "MonotonicClock",
    "Pause",
    "Permit",
    "PermitSpent",
    "PermitStatistics",
    "Permits",
    "Rate",
    "RateLimit",
    "RateStatistics",
    "Receiver",
    "Refusal",
    "Remote",
    "RemoteStatistics",
    "RetryAfter",
    "RetryBudget",
    "RetryPolicy",
    "Sender",
    "Sending",
    "ServiceClass",
    "Shed",
    "ShedLevel",
    "Slot",
    "TokenBucket",
    "WaitLine",
    "WaterMarks",
    "Work",
    "channel",
    "parse_retry_after",
]

# Loaded when they are asked for: workers and the command line start without them.
_LATER = {
    "adaptive": (
        "AdaptiveLimit",
        "AdaptivePermits",
        "AimdRule",
        "GradientRule",
        "LimitBounds",
        "LimitRule",
    ),
    "admission": (
        "Admission",
        "Admitted",
        "Decision",
    ),
    "admission_statistics": ("AdmissionStatistics",),
    "drain_rate": (
        "DrainRate",
        "RetryAfter",
    ),
    "fairness": ("FairTurns",),
    "intake": ("Intake",),
    "intake_statistics": ("IntakeStatistics",),
    "ladder": (
        "ClassStatistics",
        "Ladder",
        "LadderStatistics",
    ),
    "ladder_order": ("ClassBounds",),
    "remote": (
        "BackPressure",
        "Pause",
        "Remote",
        "RemoteStatistics",
    ),
    "retry": (
        "RetryBudget",
        "RetryPolicy",
        "parse_retry_after",
    ),
    "shedding": (
        "ServiceClass",
        "ShedLevel",
    ),
    "work": (
        "Batch",
        "Lane",
        "Work",
    ),
}
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
