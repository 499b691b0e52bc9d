"""Older files to the current schema: one step a version, all in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from . import schema

if TYPE_CHECKING:
    import sqlite3

    from sqlite_utils import Database


def add_views(database: Database) -> None:
    """Schema 2: views of threads, nodes and calls."""
    for statement in schema.views():
        database.execute(statement)


STEPS: dict[int, Callable[[Database], None]] = {2: add_views}
"""The schema that a step leads to."""


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Carry a file from a schema version to the current one, in the transaction that the caller has begun.

    `user_version` alone says what is to be done; sqlite-utils keeps a list of what was.
    """
    from sqlite_utils import Database
    from sqlite_utils.migrations import Migrations

    migrations = Migrations("convlog")
    for target, step in sorted(STEPS.items()):
        if target > version:
            migrations(name=f"schema {target}")(step)
    migrations.apply(Database(connection))
    connection.execute(f"PRAGMA user_version={schema.USER_VERSION}")
