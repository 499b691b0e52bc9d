"""Every error that convlog raises, grouped by the moment it can occur.

Each says what failed, where, what was expected and found, and (`hint`) how to go on. `code` is a stable short word for
programs; `exit_code` is what the shell face answers with.
"""

from __future__ import annotations

from typing import ClassVar


class ConvlogError(Exception):
    """The base of all errors of this library."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


# Opening a store.


class OpeningError(ConvlogError):
    """The store cannot be opened or used."""

    code = "opening"
    exit_code = 3


class StoreMissing(OpeningError):
    """No store at the place looked at."""

    code = "no_store"


class NotAStore(OpeningError):
    """The file is no convlog store."""

    code = "not_a_store"


class StoreNewer(OpeningError):
    """The file was written by a newer program than this one."""

    code = "store_newer"


class StoreForeign(OpeningError):
    """The file holds triggers, views or tables under our names that we did not make."""

    code = "store_foreign"


class StoreReadOnly(OpeningError):
    """A write was asked of a store that can only be read."""

    code = "read_only"


class StoreDamaged(OpeningError):
    """The engine or the file system answers with damage."""

    code = "damaged"


class ForkedStore(OpeningError):
    """The store was opened by another process than the one that uses it now."""

    code = "forked"


class StoreClosed(OpeningError):
    """The store was closed before."""

    code = "closed"


class StoreLocked(ConvlogError):
    """Another process held the store for longer than the time allowed."""

    code = "locked"
    exit_code = 4


class StoreFull(ConvlogError):
    """No room left to write; nothing of the append was stored, reads go on."""

    code = "full"


# Appending.


class AppendError(ConvlogError):
    """An append was refused; nothing was written."""

    code = "append"


class Conflict(AppendError):
    """The thread's head or position is not the expected one."""

    code = "conflict"

    def __init__(self, message: str, *, actual: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.actual = actual
        """The head, or tip position, that the thread really has."""


class KeyMismatch(AppendError):
    """The idempotency key is taken by other content."""

    code = "key_mismatch"


class UnknownCall(AppendError):
    """A result whose call is not above it on the path."""

    code = "unknown_call"


class DuplicateResult(AppendError):
    """A second result for one call."""

    code = "duplicate_result"


class BadRange(AppendError):
    """A range that is turned round, leaves the path or is empty."""

    code = "bad_range"


class NotClosed(AppendError):
    """A range that would cut a call from its result, or holds a call that is still open."""

    code = "not_closed"


class PayloadRejected(AppendError):
    """The content is not storable: not finite, not well formed, too deep, an ill-formed name or key."""

    code = "payload_rejected"
    exit_code = 2


class TooLarge(PayloadRejected):
    """The content is over the limit of one event."""

    code = "too_large"


class AppendUnknown(ConvlogError):
    """The outcome of a write is not known; append again with the same key to learn it."""

    code = "append_unknown"


# Finding and reading.


class NotFound(ConvlogError):
    """Something named does not exist."""

    code = "not_found"
    exit_code = 2


class NoSuchThread(NotFound):
    """No thread has this id, name or source id."""

    code = "no_such_thread"


class NoSuchNode(NotFound):
    """The position is not in the thread, or is no node."""

    code = "no_such_node"


class NoSuchBranch(NotFound):
    """The thread has no branch of this name."""

    code = "no_such_branch"


class NoSuchCall(NotFound):
    """The thread has no call of this number."""

    code = "no_such_call"


class NoSuchAttachment(NotFound):
    """No attachment has this hash."""

    code = "no_such_attachment"


class NothingMatches(NotFound):
    """The words to be taken out are nowhere in what was named."""

    code = "nothing_matches"


class AmbiguousAddress(ConvlogError):
    """More than one thread fits; `candidates` lists them."""

    code = "ambiguous"
    exit_code = 2

    def __init__(self, message: str, *, candidates: tuple[str, ...], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.candidates = candidates


class BadAddress(ConvlogError):
    """A text that is no address of the grammar."""

    code = "bad_address"
    exit_code = 2


class BrokenRecord(ConvlogError):
    """A stored record does not hold what its hashes say; nothing is derived from it."""

    code = "broken_record"


# Importing and exporting.


class ImportFailed(ConvlogError):
    """A foreign file could not be taken in at all."""

    code = "import_failed"


class Diverged(ConvlogError):
    """A native export says otherwise than the thread that the store already has."""

    code = "diverged"


class ThreadDeleted(ConvlogError):
    """The source's thread was deleted from this store on purpose."""

    code = "thread_deleted"


class HasForks(ConvlogError):
    """A thread that others share is not deleted without saying so."""

    code = "has_forks"
