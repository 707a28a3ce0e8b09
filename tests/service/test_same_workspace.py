"""The commands and `run` work on a workspace that the service wrote, and the service on one of theirs."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from service_support import BATCH, DEADLINE_S, done, jpeg, send, serving
from sqlalchemy import create_engine

from headrace.storage import migrations
from headrace.storage.sqlite import SqliteStore


def headrace(*arguments: str, code: int = 0) -> str:
    told = subprocess.run([sys.executable, "-m", "headrace", *arguments], capture_output=True, text=True, check=False)
    assert told.returncode == code, told.stderr
    return told.stdout


NOBODY = ""
"""The client where there are no keys; documents of `run` are nobody's, too, and compared with these."""


def folder_of(tmp_path: Path) -> Path:
    scans = tmp_path / "scans"
    scans.mkdir()
    for n in range(5):
        (scans / f"r{n}.jpg").write_bytes(jpeg(n))
    return scans


def test_the_commands_work_on_what_the_service_wrote(tmp_path: Path) -> None:
    ws = str(tmp_path / "ws")

    async def main() -> str:
        async with serving(tmp_path / "ws") as reception:
            batch = await reception.open_batch(NOBODY, BATCH, key="march")
            for n in range(3):
                await send(reception, jpeg(n), NOBODY, batch_id=batch.batch_id, filename=f"r{n}.jpg")
            await reception.close_batch(NOBODY, batch.batch_id)
            one = await send(reception, jpeg("one"), NOBODY, filename="one.jpg")
            view = await done(reception, one)
            assert await reception.more_results(batch.batch_id, 2, DEADLINE_S)
            await reception.correct(NOBODY, one.document_id, {"language": "de"}, view.version, "eva")
            await reception.approve(NOBODY, one.document_id, "eva")
            return one.document_id

    name = asyncio.run(main())
    assert "6" in headrace("verify", "--workspace", ws)
    status = json.loads(headrace("status", "--json", "--workspace", ws))
    assert [(batch["done"], batch["holds"]) for batch in status["batches"]] == [(3, True), (1, True)]
    assert name in headrace("show", name, "--json", "--workspace", ws)
    lines = headrace("export", "--workspace", ws).splitlines()
    assert {json.loads(line)["kind"] for line in lines} >= {"receipt"}
    scans = folder_of(tmp_path)
    run = ["run", str(scans), "--engine", "null", "--workspace", ws, "--workers", "1"]
    out = headrace(*run, "-o", str(tmp_path / "out.jsonl"))
    assert out == ""
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert kinds == ["duplicate"] * 3 + ["receipt"] * 2
    headrace("verify", "--workspace", ws)


def test_a_workspace_of_the_first_tables_is_brought_up_to_date_and_goes_on(tmp_path: Path) -> None:
    """Written with the first migration only, as an older headrace did; then `run` and the service work on it."""
    old = tmp_path / "old"
    old.mkdir()
    engine = create_engine(f"sqlite:///{old / 'headrace.db'}")
    with engine.connect() as connection:
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", "headrace.storage:migrations")
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.exec_driver_sql("PRAGMA user_version = 1")
        connection.commit()
    engine.dispose()
    assert migrations is not None
    with sqlite3.connect(old / "headrace.db") as plain:
        plain.execute(f"INSERT INTO books VALUES (1, 'main', 0, '{'0' * 64}')")
    plain.close()
    scans = folder_of(tmp_path)
    headrace("run", str(scans), "--engine", "null", "--workspace", str(old), "--workers", "1", "-o", str(old / "o"))

    async def main() -> None:
        async with serving(old) as reception:
            view = await done(reception, await send(reception, jpeg(1), NOBODY))
            assert view.kind == "duplicate"
            first = await reception.document(None, view.duplicate_of["document_id"])
            assert first is not None
            assert first.filename.endswith("r1.jpg")
            assert await reception.document("acme", first.document_id) is None
            approved = await reception.approve(None, first.document_id, "eva")
            assert approved.review == "approved"

    asyncio.run(main())
    headrace("verify", "--workspace", str(old))
    with SqliteStore.read(old) as store:
        assert store.books()[0].sequence == 7
    shutil.rmtree(old)
