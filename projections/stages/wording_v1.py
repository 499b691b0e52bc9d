"""The fixed sentences that derivation puts before a model. Frozen: another wording is another version."""

NO_RESULT = "No result of this call was recorded."
NOT_FOUND = "The attachment is not in the store."


def context(name: str, text: str) -> str:
    """Give a piece of runtime context as the model reads it."""
    return f'<context name="{name}">\n{text}\n</context>'


def task_list(lines: list[str]) -> str:
    """Give the task list as the model reads it."""
    return "<task_list>\n" + "\n".join(lines) + "\n</task_list>"


def summary(text: str) -> str:
    """Give a summary as the model reads it."""
    return f"<summary>\n{text}\n</summary>"


def retrieved(origin: str, text: str) -> str:
    """Give a retrieved item as the model reads it."""
    return f'<retrieved origin="{origin}">\n{text}\n</retrieved>'


MARKS = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]", "blocked": "[!]"}


def todo(content: str, status: str, note: str | None) -> str:
    """Give one line of the task list: mark, content, and a note in brackets after two spaces (S20)."""
    line = f"{MARKS.get(status, '[ ]')} {content}"
    return f"{line}  ({note})" if note and note.strip() else line
