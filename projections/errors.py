"""The errors that deriving a prompt can raise."""

from __future__ import annotations

from convlog.eventstore.errors import ConvlogError, NotFound


class UnknownProfile(NotFound):
    """No bundled profile and no file has this name."""

    code = "unknown_profile"


class ProfileRejected(ConvlogError):
    """The bytes are no profile: not JSON, a field too many, too few, or of another type."""

    code = "profile_rejected"
    exit_code = 2


class FormatRefused(ConvlogError):
    """The model is not offered in this wire format."""

    code = "format_refused"
    exit_code = 2


class BadProjection(ConvlogError):
    """An ill-formed name, version or parameter of a projection."""

    code = "bad_projection"
    exit_code = 2


class NoSuchProjection(NotFound):
    """No projection of this name and version is installed."""

    code = "no_such_projection"


class NotDerivable(ConvlogError):
    """A prompt cannot be derived; `reason` is one of the words of the verdict `unprovable`."""

    code = "not_derivable"
    exit_code = 5

    def __init__(self, message: str, *, reason: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class AwaitingApproval(ConvlogError):
    """The leaf waits for somebody's decision; nothing is to be sent yet."""

    code = "awaiting_approval"
