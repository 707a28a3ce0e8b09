"""What Alembic runs: the migrations, on the connection that the store hands over."""

from alembic import context

from headrace.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, transaction_per_migration=True
)
with context.begin_transaction():
    context.run_migrations()
