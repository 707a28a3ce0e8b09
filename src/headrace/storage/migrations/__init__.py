"""The history of the tables, one file a step; `upgrade` brings a store to the newest."""

from __future__ import annotations

from sqlalchemy import Connection


def upgrade(connection: Connection) -> None:
    """Brings the schema up to date, in a transaction for each step; an interrupted upgrade is simply done again."""
    # Alembic takes longer to import than the rest of the store: only those who need it pay.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "headrace.storage:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
