"""A snapshot of a run as lines of text: pure, so that every width and every odd value can be tested by a table."""

from __future__ import annotations

import math
from typing import NamedTuple

from headrace.cli.formats import columns, counted, duration, number, readable_bytes, readable_rate, share_bar, shorten
from headrace.ingest.snapshot import Phase, Snapshot


class Part(NamedTuple):
    """A piece of a line and how it is to look; styles are Rich's."""

    text: str
    style: str = ""


Line = tuple[Part, ...]

_GAP = "   "
_BAR, _SMALL_BAR = 24, 10
_NEARLY_FULL = 0.9


def plain(line: Line) -> str:
    """The line without its looks."""
    return "".join(part.text for part in line)


def panel_lines(snapshot: Snapshot, width: int) -> tuple[Line, ...]:
    """The panel's lines, none wider than `width`; what does not fit is left out, the least important first."""
    return (
        _fit(_headway(snapshot, width), width),
        _fit(_counts(snapshot), width),
        _fit(_flight(snapshot, width), width),
        _fit(_machine(snapshot, width), width),
        _slowest(snapshot, width),
    )


def log_line(snapshot: Snapshot) -> str:
    """The same in one plain line, for logs and pipes."""
    parts = [
        f"{snapshot.phase}: {_of_total(snapshot)} documents{_percent(snapshot, ' ({})')}",
        counted(snapshot.pages, "page"),
        f"{readable_rate(snapshot.per_second)}/s",
        f"{_time_left(snapshot)}" if snapshot.phase is not Phase.DONE else "",
        f"{number(snapshot.failures)} failed",
        counted(snapshot.duplicates, "duplicate"),
        f"window {snapshot.window_used}/{snapshot.window_limit}",
        f"in flight {readable_bytes(snapshot.bytes_in_flight)}/{readable_bytes(snapshot.byte_budget)}",
        f"oldest {duration(snapshot.oldest_age_s)}" if snapshot.window_used else "",
        f"RSS {readable_bytes(snapshot.rss_bytes)}/{readable_bytes(snapshot.rss_ceiling_bytes)}",
        f"workers {snapshot.workers_busy}/{snapshot.workers}",
        counted(snapshot.restarts, "restart") if snapshot.restarts else "",
        f"slowest {shorten(snapshot.slowest_uri, 48)}{_page(snapshot)} {duration(snapshot.slowest_age_s)}"
        if snapshot.slowest_uri
        else "",
    ]
    return ", ".join(part for part in parts if part)


def share_done(snapshot: Snapshot) -> float | None:
    """How much is done, 0..1; None while the total is not known."""
    if snapshot.documents_total is None:
        return None
    if snapshot.documents_total == 0:
        return 1.0 if snapshot.total_is_final else None
    return min(1.0, snapshot.documents_done / snapshot.documents_total)


def _headway(snapshot: Snapshot, width: int) -> list[Line]:
    share = share_done(snapshot)
    bar = Part(
        share_bar(share or 0.0, 1.0, _BAR if width >= 76 else _SMALL_BAR), "green" if share is not None else "dim"
    )
    headway: list[Line] = [(Part(_of_total(snapshot), "bold"), Part(_percent(snapshot, " {}")))]
    if width >= 70:
        headway.insert(0, (bar,))
    headway.append((Part(f"{readable_rate(snapshot.per_second)}/s"),))
    if snapshot.phase is not Phase.DONE:
        headway.append((Part(_time_left(snapshot)),))
    return headway


def _counts(snapshot: Snapshot) -> list[Line]:
    return [
        (Part(f"failed {number(snapshot.failures)}", "bold red" if snapshot.failures else ""),),
        (Part(f"duplicates {number(snapshot.duplicates)}"),),
        (Part(f"pages {number(snapshot.pages)}"),),
        (Part(f"restarts {number(snapshot.restarts)}", "yellow" if snapshot.restarts else ""),),
    ]


def _flight(snapshot: Snapshot, width: int) -> list[Line]:
    bars = width >= 76
    flight = [
        _gauge("window", snapshot.window_used, snapshot.window_limit, bars, number, full_is_bad=False),
        _gauge("bytes", snapshot.bytes_in_flight, snapshot.byte_budget, False, readable_bytes, full_is_bad=False),
    ]
    if snapshot.window_used:
        flight.append((Part(f"oldest {duration(snapshot.oldest_age_s)}"),))
    return flight


def _machine(snapshot: Snapshot, width: int) -> list[Line]:
    return [
        _gauge("RSS", snapshot.rss_bytes, snapshot.rss_ceiling_bytes, width >= 50, readable_bytes, full_is_bad=True),
        (Part(f"workers {snapshot.workers_busy}/{snapshot.workers} busy"),),
    ]


def _slowest(snapshot: Snapshot, width: int) -> Line:
    if snapshot.slowest_uri is None:
        return _fit([(Part("slowest -", "dim"),)], width)
    age = f"{_page(snapshot)} {duration(snapshot.slowest_age_s)}"
    room = width - len("slowest ") - len(age)
    return _fit([(Part("slowest "), Part(shorten(snapshot.slowest_uri, max(1, room)), "cyan"), Part(age))], width)


def _page(snapshot: Snapshot) -> str:
    """Where the slowest document is, when it has pages enough for that to be news."""
    if snapshot.slowest_pages < 2:
        return ""
    page = min(snapshot.slowest_pages_done + 1, snapshot.slowest_pages)
    return f" page {number(page)} of {number(snapshot.slowest_pages)}"


def _gauge(name: str, used: int, limit: int, bar: bool, unit: object, *, full_is_bad: bool) -> Line:
    show = unit if callable(unit) else str
    nearly = limit > 0 and used / limit >= _NEARLY_FULL
    style = "bold red" if nearly and full_is_bad else "yellow" if nearly else ""
    drawn = f"{share_bar(used, limit, _SMALL_BAR)} " if bar else ""
    return (Part(f"{name} "), Part(drawn, style or "green"), Part(f"{show(used)} / {show(limit)}", style))


def _of_total(snapshot: Snapshot) -> str:
    done = number(snapshot.documents_done)
    if snapshot.documents_total is None:
        return f"{done} / ?"
    return f"{done} / {number(snapshot.documents_total)}{'' if snapshot.total_is_final else '+'}"


def _percent(snapshot: Snapshot, form: str) -> str:
    share = share_done(snapshot)
    if share is None or not snapshot.total_is_final:
        return ""
    # Rounded down: 100 % is said when the last document is on disk, not before.
    return form.format(f"{math.floor(share * 1000) / 10:.1f}%")


def _time_left(snapshot: Snapshot) -> str:
    if snapshot.eta_s is None or not math.isfinite(snapshot.eta_s):
        return "time left ?"
    return f"{duration(max(0.0, snapshot.eta_s))} left"


def _fit(pieces: list[Line], width: int) -> Line:
    """Pieces with gaps between them, as many as fit; a first piece that does not fit is cut."""
    fitted: list[Part] = []
    used = 0
    for piece in pieces:
        gap = _GAP if fitted else ""
        needed = columns(gap) + columns(plain(piece))
        if used + needed > width:
            if not fitted:
                return (Part(shorten(plain(piece), width), piece[0].style),)
            break
        fitted += [Part(gap)] * bool(gap) + list(piece)
        used += needed
    return tuple(fitted)
