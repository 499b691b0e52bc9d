"""Importers: foreign session files into threads. A form is one file; `forms.IMPORTERS` lists them all."""

from __future__ import annotations

from .files import Found, import_file, import_path
from .forms import IMPORTERS, detect_format
from .report import Finding, ImportReport
from .watching import watch

__all__ = ["IMPORTERS", "Finding", "Found", "ImportReport", "detect_format", "import_file", "import_path", "watch"]
