"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward; there is no way back, a copy of the workspace is."""
    op.create_table(
        "books",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("entry_hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "document_ids",
        sa.Column("document_id", sa.String(length=32), nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("document_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "batches",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("book_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("today", sa.String(length=10), nullable=False),
        sa.Column("settings_json", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("listed", sa.Boolean(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.Column("accepted", sa.BigInteger(), nullable=False),
        sa.Column("succeeded", sa.BigInteger(), nullable=False),
        sa.Column("partial", sa.BigInteger(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("in_flight", sa.BigInteger(), nullable=False),
        sa.Column("needs_review", sa.BigInteger(), nullable=False),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["book_id"],
            ["books.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("batches_by_key", "batches", ["key", "id"], unique=False)
    op.create_table(
        "first_seen",
        sa.Column("book_id", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["book_id"],
            ["books.id"],
        ),
        sa.PrimaryKeyConstraint("book_id", "sha256"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "documents",
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("path", sa.LargeBinary(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("mtime_ns", sa.BigInteger(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("replay_of", sa.String(length=32), nullable=True),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_failure", sa.Text(), nullable=True),
        sa.Column("elapsed_s", sa.Float(), nullable=True),
        sa.Column("telemetry", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["batches.id"],
        ),
        sa.PrimaryKeyConstraint("batch_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "listings",
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("source_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_position", sa.BigInteger(), nullable=False),
        sa.Column("last_position", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["batches.id"],
        ),
        sa.PrimaryKeyConstraint("batch_id", "source_index"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "samples",
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("rss_bytes", sa.BigInteger(), nullable=False),
        sa.Column("window_used", sa.Integer(), nullable=False),
        sa.Column("in_flight_bytes", sa.BigInteger(), nullable=False),
        sa.Column("documents_done", sa.BigInteger(), nullable=False),
        sa.Column("documents_per_s", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id"],
            ["batches.id"],
        ),
        sa.PrimaryKeyConstraint("batch_id", "number"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "dead_letters",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("failure", sa.Text(), nullable=False),
        sa.Column("retriable", sa.Boolean(), nullable=False),
        sa.Column("blob_sha256", sa.String(length=64), nullable=True),
        sa.Column("failed_at", sa.Float(), nullable=False),
        sa.Column("replayed_in", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["batch_id", "position"],
            ["documents.batch_id", "documents.position"],
        ),
        sa.ForeignKeyConstraint(
            ["replayed_in"],
            ["batches.id"],
        ),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("dead_letters_by_document", "dead_letters", ["batch_id", "position"], unique=True)
    op.create_table(
        "entries",
        sa.Column("book_id", sa.Integer(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("prev_hash", sa.String(length=64), nullable=False),
        sa.Column("entry_hash", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["batch_id", "position"],
            ["documents.batch_id", "documents.position"],
        ),
        sa.ForeignKeyConstraint(
            ["book_id"],
            ["books.id"],
        ),
        sa.PrimaryKeyConstraint("book_id", "sequence"),
    )
    op.create_index("entries_by_batch", "entries", ["batch_id", "sequence"], unique=False)
    op.create_index("entries_by_document", "entries", ["batch_id", "position"], unique=True)
