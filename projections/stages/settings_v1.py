"""The caller's further members of a request, without what the format sets itself or the model refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .repairs_v1 import Repairs
from .request_v1 import Field, encode
from .target_v1 import Options, Target

SAMPLING = ("temperature", "top_p", "top_k")


def further(
    options: Options, target: Target, taken: Iterable[str], repairs: Repairs, never: Mapping[str, str] | None = None
) -> list[Field]:
    """Give the members of `options.extra` that can go out.

    Args:
        options: What the caller asks.
        target: Says whether sampling parameters are refused (A31).
        taken: Members that the encoder sets itself.
        repairs: Where to note what is left out.
        never: Members that the format must not have here, with the reason.
    """
    refused = dict.fromkeys(taken, "the encoder sets it") | dict(never or {})
    if target.sampling_refused:
        refused.update(dict.fromkeys(SAMPLING, "A31: the model refuses sampling parameters"))
    fields = []
    for name, value in (options.extra or {}).items():
        if name in refused:
            repairs.add("system", name, refused[name])
        else:
            fields.append(Field(name, encode(value)))
    return fields
