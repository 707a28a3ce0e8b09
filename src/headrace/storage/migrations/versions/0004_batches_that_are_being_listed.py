"""An index of the batches that are still being listed: an unknown id of a document is looked for in those only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Forward; there is no way back, a copy of the workspace is."""
    op.create_index("batches_listing", "batches", ["id"], unique=False, sqlite_where=sa.text("listed = 0"))
