"""The rules that every backend keeps, each a function of a place that stores are opened in. Nothing here knows of SQL.

To try a backend of one's own: give `tests.stores.PLACES` a place for it.
"""

from tests.eventstore.conformance import appending, erasing, forks, listing, reading, results, tree
from tests.eventstore.conformance.rules import RULES

__all__ = ["RULES", "appending", "erasing", "forks", "listing", "reading", "results", "tree"]
