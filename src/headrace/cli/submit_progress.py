"""Progress of `headrace submit`: one line that is written over on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Protocol, Self

from headrace.cli.formats import cut, duration, number, readable_rate
from headrace.cli.progress import LINE_EVERY_S, Display

_LIVE_EVERY_S = 0.5
_RATE_OVER = 40  # moments that the rate is measured over


@dataclass(slots=True)
class Tally:
    """The numbers. given = sent + known + refused, as far as it is decided.

    Attributes:
        total: how many documents there are; None while nobody knows.
        later: how often the service said "later".
        follows, results, failed: whether results are followed, how many came, and how many of them are failures.
        all_sent: whether there is nothing left to send.
    """

    follows: bool = False
    total: int | None = None
    given: int = 0
    sent: int = 0
    sent_bytes: int = 0
    known: int = 0
    refused: int = 0
    results: int = 0
    failed: int = 0
    later: int = 0
    all_sent: bool = False

    @property
    def done(self) -> int:
        """What counts as headway: results where they are followed, else what was given."""
        return self.results + self.refused if self.follows else self.given

    @property
    def all(self) -> int | None:
        """What `done` is when everything is done; None while nobody knows."""
        return self.given if self.all_sent else self.total


class _Service(Protocol):
    @property
    def later(self) -> int: ...
    @property
    def pause_s(self) -> float: ...


class SubmitProgress:
    """Shows the tally on standard error; a context manager. A lost terminal ends the display, not the work."""

    def __init__(self, display: str, tally: Tally) -> None:
        self._display = Display(display)
        self._tally = tally
        self._moments: deque[tuple[float, int]] = deque(maxlen=_RATE_OVER)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._display is Display.LIVE:
            self._write("\r\x1b[K")

    async def keep_showing(self, service: _Service) -> None:
        """Shows it again and again, until cancelled."""
        every_s = _LIVE_EVERY_S if self._display is Display.LIVE else LINE_EVERY_S
        while self._display is not Display.OFF:
            await asyncio.sleep(every_s)
            self._tally.later = service.later
            self._show(service.pause_s)

    def note(self, text: str) -> None:
        """Says one thing that happened."""
        if self._display is Display.JSON:
            self._write(json.dumps({"event": "note", "message": text}) + "\n")
        elif self._display is not Display.OFF:
            start = "\r\x1b[K" if self._display is Display.LIVE else ""
            self._write(f"{start}headrace: {text}\n")

    def _show(self, pause_s: float) -> None:
        self._moments.append((time.monotonic(), self._tally.done))
        per_second, left_s = self._speed()
        if self._display is Display.JSON:
            told = asdict(self._tally) | {"per_second": per_second, "eta_s": left_s, "pause_s": pause_s}
            self._write(json.dumps({"event": "progress"} | told) + "\n")
            return
        line = progress_line(self._tally, per_second, left_s, pause_s)
        self._write(f"\r\x1b[K{cut(line, _columns())}" if self._display is Display.LIVE else f"{line}\n")

    def _speed(self) -> tuple[float, float | None]:
        (began, then), (now, done) = self._moments[0], self._moments[-1]
        per_second = (done - then) / (now - began) if now > began else 0.0
        whole = self._tally.all
        return per_second, (max(0, whole - done) / per_second if whole is not None and per_second > 0 else None)

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            self._display = Display.OFF


def progress_line(tally: Tally, per_second: float, left_s: float | None, pause_s: float) -> str:
    """The tally in one line."""
    of = "" if tally.all is None else f" / {number(tally.all)}"
    handed_in = f"handed in {number(tally.given)}"
    parts = [
        f"{handed_in}, results {number(tally.results)}{of}" if tally.follows else f"{handed_in}{of}",
        f"{readable_rate(per_second)}/s",
        "time left ?" if left_s is None else f"{duration(left_s)} left",
        f"{number(tally.known)} there already" if tally.known else "",
        f"{number(tally.refused)} not taken" if tally.refused else "",
        f"{number(tally.failed)} failed" if tally.failed else "",
        f"later {number(tally.later)} x" if tally.later else "",
        f"waiting {duration(pause_s)}" if pause_s else "",
    ]
    return ", ".join(part for part in parts if part)


def _columns() -> int:
    import shutil

    return max(20, shutil.get_terminal_size().columns - 1)
