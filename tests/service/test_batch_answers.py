"""Answers of batches are kept whole or not at all, across restarts, and in bounded room."""

from __future__ import annotations

import asyncio
import io
import time
from pathlib import Path

from headrace.service.batch_answers import BatchAnswers
from headrace.service.views import ServiceLimits


def answers(folder: Path, most_bytes: int = 1 << 20) -> BatchAnswers:
    made = BatchAnswers(folder / "answers", ServiceLimits(batch_answers_bytes=most_bytes))
    made.load()
    return made


def keep(kept: BatchAnswers, batch_id: int, content: bytes) -> None:
    asyncio.run(kept.keep(batch_id, {"items_accepted": batch_id}, io.BytesIO(content)))


def items_of(kept: BatchAnswers, batch_id: int) -> bytes | None:
    found = asyncio.run(kept.find(batch_id))
    if found is None:
        return None
    told, file = found
    with file:
        assert told == {"items_accepted": batch_id}
        return file.read()


def test_an_answer_is_found_again_also_by_the_next_process(tmp_path: Path):
    kept = answers(tmp_path)
    keep(kept, 7, b"{},{}")
    assert items_of(kept, 7) == b"{},{}"
    assert items_of(kept, 8) is None
    (tmp_path / "answers" / "9.half").write_bytes(b"{")
    again = answers(tmp_path)
    assert items_of(again, 7) == b"{},{}"
    assert again.bound().used == kept.bound().used == 4096
    assert [path.name for path in (tmp_path / "answers").iterdir()] == ["7"]


def test_of_more_than_there_is_room_for_the_oldest_are_forgotten(tmp_path: Path):
    kept = answers(tmp_path, 20_000)
    for batch_id in range(1, 9):
        keep(kept, batch_id, b"x" * 5000)
    assert [items_of(kept, batch_id) is not None for batch_id in range(1, 9)] == [False] * 4 + [True] * 4
    keep(kept, 9, b"x" * 30_000)
    assert items_of(kept, 9) is None, "larger than all the room"
    assert kept.bound().used <= 20_000
    keep(kept, 8, b"y" * 5000)  # the same batch again, when it was read again
    assert items_of(kept, 8) == b"y" * 5000
    assert kept.bound().used <= 20_000
    kept.forget(time.time() + 1)
    assert kept.bound().used == 0
    assert list((tmp_path / "answers").iterdir()) == []


def test_a_torn_answer_is_none(tmp_path: Path):
    kept = answers(tmp_path)
    for batch_id, content in enumerate((b"", b"{", b'{"items_accepted":1}\n', b'{"bytes":9}\nx', b"[]\n"), 1):
        (tmp_path / "answers").mkdir(exist_ok=True)
        (tmp_path / "answers" / str(batch_id)).write_bytes(content)
        assert items_of(kept, batch_id) is None
