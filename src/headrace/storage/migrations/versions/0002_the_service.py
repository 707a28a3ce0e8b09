"""The service: whose documents are whose, keys, events, reviews; entries that amend another one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward; there is no way back, a copy of the workspace is."""
    op.add_column("entries", sa.Column("amends", sa.Boolean(), nullable=False, server_default=sa.text("0")))
    op.drop_index("entries_by_document", "entries")
    op.create_index(
        "entries_by_document", "entries", ["batch_id", "position"], unique=True, sqlite_where=sa.text("amends = 0")
    )
    op.create_index(
        "entries_amending", "entries", ["batch_id", "position", "sequence"], sqlite_where=sa.text("amends = 1")
    )
    op.create_table(
        "submissions",
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("class", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("accepted_at", sa.Float(), nullable=False),
        sa.Column("lease", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("cancelled_by", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["batch_id", "position"], ["documents.batch_id", "documents.position"]),
        sa.PrimaryKeyConstraint("batch_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_index("submissions_by_content", "submissions", ["sha256", "client"])
    op.create_index("submissions_waiting", "submissions", ["batch_id", "position"], sqlite_where=sa.text("lease < 2"))
    op.create_table(
        "open_batches",
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("class", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"]),
        sa.PrimaryKeyConstraint("batch_id"),
    )
    op.create_index(
        "open_batches_by_key",
        "open_batches",
        ["client", "key"],
        unique=True,
        sqlite_where=sa.text("key IS NOT NULL"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("key", "client"),
        sqlite_with_rowid=False,
    )
    op.create_index("idempotency_keys_by_age", "idempotency_keys", ["used_at"])
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(length=30), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("document_id", sa.String(length=32), nullable=True),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "reviews",
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("decision", sa.String(length=12), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["batch_id", "position"], ["documents.batch_id", "documents.position"]),
        sa.PrimaryKeyConstraint("batch_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "drains",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
