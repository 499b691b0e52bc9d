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
