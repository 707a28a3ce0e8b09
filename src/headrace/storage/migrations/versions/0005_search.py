"""Search: the texts of receipts, their vectors, and how far the entries were taken in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward; there is no way back, a copy of the workspace is."""
    op.create_table(
        "search_progress",
        sa.Column("book_id", sa.Integer(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("text_version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["book_id"], ["books.id"]),
        sa.PrimaryKeyConstraint("book_id"),
    )
    op.create_table(
        "search_receipts",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("book_id", sa.Integer(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("text_sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("merchant", sa.Text(), nullable=True),
        sa.Column("merchant_letters", sa.Text(), nullable=True),
        sa.Column("issue_date", sa.String(length=10), nullable=True),
        sa.Column("total_1e4", sa.BigInteger(), nullable=True),
        sa.Column("currency", sa.Text(), nullable=True),
        sa.Column("verdict", sa.String(length=12), nullable=True),
        sa.Column("embedded_by", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["book_id"], ["books.id"]),
        sa.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_index("search_receipts_by_entry", "search_receipts", ["book_id", "sequence"], unique=True)
    op.create_index("search_receipts_embedded", "search_receipts", ["embedded_by", "number"])
    op.create_table(
        "embeddings",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("text_sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["number"], ["search_receipts.number"]),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("embeddings_by_change", "embeddings", ["change"], unique=True)
    op.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS search_words USING fts5("
        "text, content='search_receipts', content_rowid='number', tokenize='unicode61 remove_diacritics 2')"
    )
