"""Which classes are refused at the present load: a fixed order, with hysteresis at each rung. Arithmetic only.

    NOTHING     -- background at its high mark --->  BACKGROUND   <-- background at its low mark ---  back to NOTHING
    BACKGROUND  -- batch at its high mark -------->  BATCH        <-- batch at its low mark --------  back to BACKGROUND
    BATCH       -- interactive at its high mark -->  EVERYTHING   <-- interactive at its low mark --  back to BATCH

The level is named after the highest class that is refused. It moves one rung at a time along `LADDER`, so a class is
never refused while a lower one is taken.

What presses on a class is the largest of: the load that was reported from outside; how full the lines of the classes
above it are (its own line has a bound of its own); and how much of its promised longest wait the oldest has used up, in
its own class and those above. So a lower class always feels at least what a higher one feels.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Mapping
from typing import NamedTuple

from headrace.flow.gate import GateState, WaterMarks


class ServiceClass(enum.IntEnum):
    """How urgent something is: INTERACTIVE > BATCH > BACKGROUND. The lower number is served first and refused last."""

    INTERACTIVE = 0
    BATCH = 1
    BACKGROUND = 2


class ShedLevel(enum.IntEnum):
    """The highest class that is refused; all below it are too."""

    NOTHING = 0
    BACKGROUND = 1
    BATCH = 2
    EVERYTHING = 3

    def refuses(self, class_: ServiceClass) -> bool:
        """Whether this class is refused at this level."""
        return class_ + self >= len(ServiceClass)


class Rung(NamedTuple):
    """One step of the ladder: its class is taken at `below` and refused at `above`."""

    below: ShedLevel
    class_: ServiceClass
    above: ShedLevel


LADDER = (
    Rung(ShedLevel.NOTHING, ServiceClass.BACKGROUND, ShedLevel.BACKGROUND),
    Rung(ShedLevel.BACKGROUND, ServiceClass.BATCH, ShedLevel.BATCH),
    Rung(ShedLevel.BATCH, ServiceClass.INTERACTIVE, ShedLevel.EVERYTHING),
)
_UP = {rung.below: rung for rung in LADDER}
_DOWN = {rung.above: rung for rung in LADDER}

# Fractions: of a line that is full, of a promised wait that is used up, of the load that was reported.
DEFAULT_MARKS: Mapping[ServiceClass, WaterMarks] = {
    ServiceClass.BACKGROUND: WaterMarks(0.5, 0.25),
    ServiceClass.BATCH: WaterMarks(0.75, 0.5),
    ServiceClass.INTERACTIVE: WaterMarks(0.95, 0.75),
}


class ClassLoad(NamedTuple):
    """What the line of one class looks like.

    Attributes:
        fill: how full it is, 0 to 1.
        age: how long the oldest eligible entry has waited, as a fraction of the longest wait promised to its class.
    """

    fill: float = 0.0
    age: float = 0.0


def pressure_on(class_: ServiceClass, classes: Mapping[ServiceClass, ClassLoad], load: float = 0.0) -> float:
    """How hard the load presses on `class_`, as a fraction; see the top of this file."""
    pressure = load
    for other, its in classes.items():
        if other <= class_ and its.age > pressure:
            pressure = its.age
        if other < class_ and its.fill > pressure:
            pressure = its.fill
    return pressure


def presses_most(class_: ServiceClass, classes: Mapping[ServiceClass, ClassLoad], load: float = 0.0) -> str:
    """What it is that presses on `class_` the most, in words."""
    pressure = pressure_on(class_, classes, load)
    for other, its in classes.items():
        if other <= class_ and its.age == pressure:
            return f"the longest wait of {other.name.lower()}"
        if other < class_ and its.fill == pressure:
            return f"the line of {other.name.lower()}"
    return "the reported load"


class Shedding:
    """The level, and why it is that one.

    Args:
        marks: for each class, the pressure from which it is refused and the one at which it is taken again.

    Raises:
        ValueError: a class has no marks, or a higher class would be refused before a lower one.
    """

    __slots__ = ("_marks", "because", "changes", "level", "since")

    def __init__(self, marks: Mapping[ServiceClass, WaterMarks] = DEFAULT_MARKS, *, now: float = 0.0) -> None:
        if set(marks) != set(ServiceClass):
            raise ValueError("each class needs its marks")
        for lower, higher in itertools.pairwise(LADDER):
            if not marks[lower.class_].high_water <= marks[higher.class_].high_water:
                raise ValueError(f"{lower.class_.name} must not be refused at a higher mark than {higher.class_.name}")
        self._marks = marks
        self.level = ShedLevel.NOTHING
        self.since = now
        self.because = "nothing presses"
        self.changes = 0

    def marks_of(self, class_: ServiceClass) -> WaterMarks:
        """The marks of one class."""
        return self._marks[class_]

    def update(self, classes: Mapping[ServiceClass, ClassLoad], now: float, load: float = 0.0) -> ShedLevel:
        """Walks up or down the ladder as far as the load asks, and returns the level."""
        while (rung := _UP.get(self.level)) and self._says(rung, GateState.OPEN, classes, load) is GateState.CLOSED:
            self._step(rung, rung.above, classes, load, now)
        # A walk up ends where the next rung holds; the one just taken is over its high mark, so this does not undo it.
        while (rung := _DOWN.get(self.level)) and self._says(rung, GateState.CLOSED, classes, load) is GateState.OPEN:
            self._step(rung, rung.below, classes, load, now)
        return self.level

    def explain(self, now: float) -> str:
        """The level, why, and since when, in one sentence."""
        refused = [class_.name.lower() for class_ in reversed(ServiceClass) if self.level.refuses(class_)]
        said = f"refuses {' and '.join(refused)}" if refused else "refuses no class"
        return f"{said} since {max(0.0, now - self.since):.1f} s: {self.because}"

    def _says(self, rung: Rung, state: GateState, classes: Mapping[ServiceClass, ClassLoad], load: float) -> GateState:
        return self._marks[rung.class_].next_state(state, pressure_on(rung.class_, classes, load))

    def _step(
        self, rung: Rung, level: ShedLevel, classes: Mapping[ServiceClass, ClassLoad], load: float, now: float
    ) -> None:
        pressure, marks = pressure_on(rung.class_, classes, load), self._marks[rung.class_]
        mark = f">= {marks.high_water:.0%}" if level is rung.above else f"<= {marks.low_water:.0%}"
        presses = presses_most(rung.class_, classes, load)
        self.because = f"{presses} is at {pressure:.0%} ({mark} for {rung.class_.name.lower()})"
        self.level = level
        self.since = now
        self.changes += 1
