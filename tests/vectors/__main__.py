"""`python -m tests.vectors PATH...`: run files of examples, and say what passed, failed or waits."""

from __future__ import annotations

import sys

from .runner import main

sys.exit(main(sys.argv[1:]))
