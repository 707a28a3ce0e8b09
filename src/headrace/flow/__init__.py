"""Flow control for anyone: channels, permits, rates, gates, draining. Standard library only; knows no receipts.

`x()` waits, `try_x()` does not and raises the refusal, `x_blocking()` is the same for threads. The test kit (virtual
time, seeded schedules) is in `headrace.flow.testing`.
"""

from headrace.flow.channel import ChannelStatistics, Receiver, Sender, channel
from headrace.flow.clock import Clock, LoopClock, MonotonicClock
from headrace.flow.drain import Drain, Drainable, DrainReport
from headrace.flow.errors import Closed, Empty, Ended, Expired, FlowError, Full, PermitSpent, Refusal, Shed
from headrace.flow.gate import Gate, GateState, GateStatistics, WaterMarks
from headrace.flow.gauges import Gauge, Gauges
from headrace.flow.permits import Ending, Permit, Permits, PermitStatistics
from headrace.flow.rate import Rate, RateLimit, RateStatistics, TokenBucket
from headrace.flow.sending import Sending, Slot
from headrace.flow.waiters import WaitLine

__all__ = [
    "ChannelStatistics",
    "Clock",
    "Closed",
    "Drain",
    "DrainReport",
    "Drainable",
    "Empty",
    "Ended",
    "Ending",
    "Expired",
    "FlowError",
    "Full",
    "Gate",
    "GateState",
    "GateStatistics",
    "Gauge",
    "Gauges",
    "LoopClock",
    "MonotonicClock",
    "Permit",
    "PermitSpent",
    "PermitStatistics",
    "Permits",
    "Rate",
    "RateLimit",
    "RateStatistics",
    "Receiver",
    "Refusal",
    "Sender",
    "Sending",
    "Shed",
    "Slot",
    "TokenBucket",
    "WaitLine",
    "WaterMarks",
    "channel",
]
