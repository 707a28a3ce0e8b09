"""Which classes are refused: the table, the order, the hysteresis."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.flow.gate import WaterMarks
from headrace.flow.shedding import DEFAULT_MARKS, LADDER, ClassLoad, ServiceClass, Shedding, ShedLevel, pressure_on

INTERACTIVE, BATCH, BACKGROUND = ServiceClass
NOTHING, NO_BACKGROUND, NO_BATCH, EVERYTHING = ShedLevel


@pytest.mark.parametrize(
    ("level", "refused"),
    [
        (NOTHING, []),
        (NO_BACKGROUND, [BACKGROUND]),
        (NO_BATCH, [BATCH, BACKGROUND]),
        (EVERYTHING, [INTERACTIVE, BATCH, BACKGROUND]),
    ],
)
def test_each_level_refuses_its_class_and_all_below(level: ShedLevel, refused: list[ServiceClass]) -> None:
    assert [class_ for class_ in ServiceClass if level.refuses(class_)] == refused


@pytest.mark.parametrize(
    ("loads", "levels"),
    [
        # up one after the other, and down one after the other at lower marks
        ([0.0, 0.49, 0.5, 0.74, 0.75, 0.94, 0.95, 1.0], [0, 0, 1, 1, 2, 2, 3, 3]),
        ([1.0, 0.76, 0.75, 0.51, 0.5, 0.26, 0.25, 0.0], [3, 3, 2, 2, 1, 1, 0, 0]),
        # in between nothing changes, however often it swings
        ([0.5, 0.26, 0.49, 0.26, 0.49], [1, 1, 1, 1, 1]),
        # a jump walks all the way
        ([1.0, 0.0, 1.0], [3, 0, 3]),
    ],
)
def test_the_level_follows_the_load_with_hysteresis_at_each_rung(loads: list[float], levels: list[int]) -> None:
    shedding = Shedding()
    assert [shedding.update({}, float(i), load) for i, load in enumerate(loads)] == levels


@pytest.mark.parametrize(
    ("classes", "refused"),
    [
        ({INTERACTIVE: ClassLoad(fill=0.6)}, [BACKGROUND]),
        ({INTERACTIVE: ClassLoad(fill=0.8)}, [BATCH, BACKGROUND]),
        ({INTERACTIVE: ClassLoad(fill=1.0)}, [BATCH, BACKGROUND]),  # its own line has a bound of its own
        ({BATCH: ClassLoad(fill=1.0)}, [BACKGROUND]),
        ({BACKGROUND: ClassLoad(fill=1.0)}, []),
        ({BACKGROUND: ClassLoad(age=0.6)}, [BACKGROUND]),
        ({BACKGROUND: ClassLoad(age=3.0)}, [BACKGROUND]),  # the age of a lower class refuses no higher one
        ({BATCH: ClassLoad(age=0.8)}, [BATCH, BACKGROUND]),
        ({INTERACTIVE: ClassLoad(age=0.96)}, [INTERACTIVE, BATCH, BACKGROUND]),
    ],
)
def test_a_class_feels_the_fill_above_it_and_the_ages_from_itself_up(
    classes: dict[ServiceClass, ClassLoad], refused: list[ServiceClass]
) -> None:
    level = Shedding().update(classes, 0.0)
    assert [class_ for class_ in ServiceClass if level.refuses(class_)] == refused


parts = st.floats(0.0, 1.2)


@given(st.lists(st.tuples(parts, *[st.tuples(parts, parts)] * 3), max_size=30))
@settings(max_examples=200, deadline=None)
def test_no_class_is_refused_while_a_lower_one_is_taken_and_marks_are_obeyed(
    steps: list[tuple[float, tuple[float, float], tuple[float, float], tuple[float, float]]],
) -> None:
    shedding = Shedding()
    for now, (load, *pairs) in enumerate(steps):
        classes = {class_: ClassLoad(*pair) for class_, pair in zip(ServiceClass, pairs, strict=True)}
        before = shedding.level
        level = shedding.update(classes, float(now), load)
        refused = [level.refuses(class_) for class_ in ServiceClass]
        assert refused == sorted(refused)
        for class_ in ServiceClass:
            value, marks = pressure_on(class_, classes, load), DEFAULT_MARKS[class_]
            if level.refuses(class_) != before.refuses(class_):
                assert value >= marks.high_water if level.refuses(class_) else value <= marks.low_water
        lowest = pressure_on(BACKGROUND, classes, load)
        assert not (lowest >= DEFAULT_MARKS[BACKGROUND].high_water and not level.refuses(BACKGROUND))


def test_it_says_what_presses_and_since_when() -> None:
    shedding = Shedding(now=10.0)
    assert shedding.explain(12.0) == "refuses no class since 2.0 s: nothing presses"
    shedding.update({INTERACTIVE: ClassLoad(fill=0.8)}, 20.0)
    said = shedding.explain(25.0)
    assert said == "refuses background and batch since 5.0 s: the line of interactive is at 80% (>= 75% for batch)"
    assert shedding.changes == 2


def test_the_table_is_one_walk_from_nothing_to_everything() -> None:
    assert [rung.below for rung in LADDER] == [NOTHING, NO_BACKGROUND, NO_BATCH]
    assert [rung.above for rung in LADDER] == [NO_BACKGROUND, NO_BATCH, EVERYTHING]
    assert [rung.class_ for rung in LADDER] == [BACKGROUND, BATCH, INTERACTIVE]


def test_marks_that_would_refuse_a_higher_class_first_stop_the_start() -> None:
    with pytest.raises(ValueError, match="BACKGROUND must not be refused at a higher mark than BATCH"):
        Shedding({**DEFAULT_MARKS, BACKGROUND: WaterMarks(0.9, 0.1)})
    with pytest.raises(ValueError, match="each class"):
        Shedding({BATCH: WaterMarks(0.9, 0.1)})
