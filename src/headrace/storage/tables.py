"""The tables, for every SQL store. What changes here changes in a migration too; a test compares the two.

books ──< batches ──< documents ──1 entries        one entry for each document, at most
              │            ├────1 dead_letters     failed documents
              │            └────1 document_ids     id -> batch, position
              │            ├────1 submissions      whose it is, and who works on it (service)
              │            └────1 reviews          what a person decided, last
              ├──< listings                        sources whose names have their positions
              ├──< samples                         time series for the report
              └────1 open_batches                  owner of a batch that takes documents one by one (service)
books ──< first_seen                               digest of bytes or of a purchase -> the first receipt with it

For the service: idempotency_keys (client, key -> document), events (what happened, in order), drains (reports).

webhooks ──< webhook_messages                      who is told of events, and what was not delivered yet

For search, all of it made from the entries and made again when it is lost:

books ──1 search_progress                          how far its entries were taken in
search_receipts ──1 embeddings                     the text of a receipt, what it is filtered by; its vector
search_words                                       full-text index (FTS5) over the texts of search_receipts
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
    text,
)

SCHEMA_VERSION = 5
"""The number of migrations; kept in the file's `user_version`, so that a current store opens without Alembic."""

REVISION = f"{SCHEMA_VERSION:04d}"
"""What Alembic calls the newest migration; a new store is stamped with it."""

metadata = MetaData()

books = Table(
    "books",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("sequence", BigInteger, nullable=False),
    Column("entry_hash", String(64), nullable=False),
)

batches = Table(
    "batches",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("book_id", ForeignKey("books.id"), nullable=False),
    Column("key", Text, nullable=False),
    Column("today", String(10), nullable=False),
    Column("settings_json", Text, nullable=False),
    Column("state", String(10), nullable=False),
    Column("listed", Boolean, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("finished_at", Float),
    # The counters of the accounting identity, changed in the transaction that changes what they count.
    Column("accepted", BigInteger, nullable=False),
    Column("succeeded", BigInteger, nullable=False),
    Column("partial", BigInteger, nullable=False),
    Column("duplicates", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("in_flight", BigInteger, nullable=False),
    Column("needs_review", BigInteger, nullable=False),
    Column("rejected", BigInteger, nullable=False),
    Index("batches_by_key", "key", "id"),
    Index("batches_listing", "id", sqlite_where=text("listed = 0")),  # few among all those of one document
)

documents = Table(
    "documents",
    metadata,
    Column("batch_id", ForeignKey("batches.id"), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("uri", Text, nullable=False),
    Column("path", LargeBinary, nullable=False),
    Column("kind", String(20), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("external_id", Text),
    Column("replay_of", String(32)),
    Column("state", String(10), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("last_failure", Text),
    Column("elapsed_s", Float),
    Column("telemetry", Text),
    sqlite_with_rowid=False,
)

# Apart from `documents`: ids are hashes, and an index that is filled in the order of positions would touch a page of
# its own for each. It is filled once, sorted, when the batch is listed; until then an id is found by computing.
document_ids = Table(
    "document_ids",
    metadata,
    Column("document_id", String(32), primary_key=True),
    Column("batch_id", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

listings = Table(
    "listings",
    metadata,
    Column("batch_id", ForeignKey("batches.id"), primary_key=True),
    Column("source_index", Integer, primary_key=True, autoincrement=False),
    Column("first_position", BigInteger, nullable=False),
    Column("last_position", BigInteger, nullable=False),
    Column("skipped", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

entries = Table(
    "entries",
    metadata,
    Column("book_id", ForeignKey("books.id"), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("batch_id", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),  # as it was hashed, byte for byte
    Column("prev_hash", String(64), nullable=False),
    Column("entry_hash", String(64), nullable=False),
    # A correction or a review; what is no such thing is the document's outcome, and there is one of it.
    Column("amends", Boolean, nullable=False, server_default=text("0")),
    ForeignKeyConstraint(["batch_id", "position"], ["documents.batch_id", "documents.position"]),
    Index("entries_by_batch", "batch_id", "sequence"),
    Index("entries_by_document", "batch_id", "position", unique=True, sqlite_where=text("amends = 0")),
    Index("entries_amending", "batch_id", "position", "sequence", sqlite_where=text("amends = 1")),
)

first_seen = Table(
    "first_seen",
    metadata,
    Column("book_id", ForeignKey("books.id"), primary_key=True),
    Column("sha256", LargeBinary(32), primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("batch_id", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("batch_id", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("failure", Text, nullable=False),
    Column("retriable", Boolean, nullable=False),
    Column("blob_sha256", String(64)),
    Column("failed_at", Float, nullable=False),
    Column("replayed_in", ForeignKey("batches.id")),
    ForeignKeyConstraint(["batch_id", "position"], ["documents.batch_id", "documents.position"]),
    Index("dead_letters_by_document", "batch_id", "position", unique=True),
)

samples = Table(
    "samples",
    metadata,
    Column("batch_id", ForeignKey("batches.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at_s", Float, nullable=False),
    Column("rss_bytes", BigInteger, nullable=False),
    Column("window_used", Integer, nullable=False),
    Column("in_flight_bytes", BigInteger, nullable=False),
    Column("documents_done", BigInteger, nullable=False),
    Column("documents_per_s", Float, nullable=False),
    sqlite_with_rowid=False,
)

submissions = Table(
    "submissions",
    metadata,
    Column("batch_id", Integer, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("client", Text, nullable=False),
    Column("class", Integer, nullable=False),
    Column("sha256", LargeBinary(32), nullable=False),
    Column("accepted_at", Float, nullable=False),
    Column("lease", Integer, nullable=False),  # 0 waits, 1 is worked on, 2 has its end
    Column("fence", Integer, nullable=False),  # rises with every lease; who comes with an older one writes nothing
    Column("restarts", Integer, nullable=False),  # how often the service ended while it was worked on
    Column("cancelled_by", Text),
    ForeignKeyConstraint(["batch_id", "position"], ["documents.batch_id", "documents.position"]),
    Index("submissions_by_content", "sha256", "client"),
    Index("submissions_waiting", "batch_id", "position", sqlite_where=text("lease < 2")),
    sqlite_with_rowid=False,
)

open_batches = Table(
    "open_batches",
    metadata,
    Column("batch_id", ForeignKey("batches.id"), primary_key=True),
    Column("client", Text, nullable=False),
    Column("class", Integer, nullable=False),
    Column("key", Text),
    Index("open_batches_by_key", "client", "key", unique=True, sqlite_where=text("key IS NOT NULL")),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key", Text, primary_key=True),
    Column("client", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("batch_id", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("used_at", Float, nullable=False),
    Index("idempotency_keys_by_age", "used_at"),
    sqlite_with_rowid=False,
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("kind", String(30), nullable=False),
    Column("client", Text, nullable=False),
    Column("batch_id", Integer, nullable=False),
    Column("document_id", String(32)),
    Column("data", Text, nullable=False),
    sqlite_autoincrement=True,
)

reviews = Table(
    "reviews",
    metadata,
    Column("batch_id", Integer, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("decision", String(12)),
    Column("version", BigInteger, nullable=False),
    ForeignKeyConstraint(["batch_id", "position"], ["documents.batch_id", "documents.position"]),
    sqlite_with_rowid=False,
)

drains = Table(
    "drains",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("report", Text, nullable=False),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("url", Text, nullable=False),
    Column("kinds", Text, nullable=False),
    Column("client", Text),
    Column("secret", LargeBinary(32), nullable=False),
    Column("description", Text, nullable=False),
    Column("made_at", Float, nullable=False),
    Column("removed", Boolean, nullable=False),
    sqlite_autoincrement=True,
)

webhook_messages = Table(
    "webhook_messages",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("webhook_id", ForeignKey("webhooks.id"), nullable=False),
    Column("message_id", String(40), nullable=False),
    Column("kind", String(30), nullable=False),
    Column("body", Text, nullable=False),
    Column("made_at", Float, nullable=False),
    Column("state", Integer, nullable=False),  # 0 waits, 1 delivered, 2 given up
    Column("tries", Integer, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("ends_at", Float, nullable=False),
    Column("last_at", Float),
    Column("last_status", Integer),
    Column("last_error", Text),
    Index("webhook_messages_in_order", "webhook_id", "number"),
    Index("webhook_messages_due", "webhook_id", "due_at", sqlite_where=text("state = 0")),
    Index("webhook_messages_ended", "webhook_id", "number", sqlite_where=text("state > 0")),
    sqlite_autoincrement=True,
)

search_progress = Table(
    "search_progress",
    metadata,
    Column("book_id", ForeignKey("books.id"), primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("text_version", Integer, nullable=False),
)

search_receipts = Table(
    "search_receipts",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("book_id", ForeignKey("books.id"), nullable=False),
    Column("sequence", BigInteger, nullable=False),  # of the receipt's entry, whatever was corrected since
    Column("batch_id", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("text_sha256", LargeBinary(32), nullable=False),
    Column("merchant", Text),
    Column("merchant_letters", Text),  # without case, blanks and marks
    Column("issue_date", String(10)),
    Column("total_1e4", BigInteger),  # in ten-thousandths, exact
    Column("currency", Text),
    Column("verdict", String(12)),
    Column("embedded_by", Text),  # the model of its vector; NULL: it has none for this text
    Index("search_receipts_by_entry", "book_id", "sequence", unique=True),
    Index("search_receipts_embedded", "embedded_by", "number"),
    sqlite_autoincrement=True,
)

embeddings = Table(
    "embeddings",
    metadata,
    Column("number", ForeignKey("search_receipts.number"), primary_key=True, autoincrement=False),
    Column("model", Text, nullable=False),
    Column("text_sha256", LargeBinary(32), nullable=False),
    Column("change", BigInteger, nullable=False),  # rises with every vector that is written
    Column("vector", LargeBinary, nullable=False),  # float32, little-endian, of length 1
    Index("embeddings_by_change", "change", unique=True),
)

FULL_TEXT = "search_words"
"""The full-text index. It and what SQLite keeps for it begin with this name; no table of SQLAlchemy's."""

MAKE_FULL_TEXT = f"""CREATE VIRTUAL TABLE IF NOT EXISTS {FULL_TEXT} USING fts5(
    text, content='search_receipts', content_rowid='number', tokenize='unicode61 remove_diacritics 2')"""


@event.listens_for(search_receipts, "after_create")
def _make_full_text(_: Table, connection: Connection, **__: Any) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(MAKE_FULL_TEXT)


def stamp(connection: Connection) -> None:
    """Tells Alembic that the tables are as the newest migration leaves them."""
    version = "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
    connection.exec_driver_sql(version)
    connection.exec_driver_sql("DELETE FROM alembic_version")
    connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{REVISION}')")
