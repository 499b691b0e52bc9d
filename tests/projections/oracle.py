"""The providers' own request types as a judge of shape: unknown keys, wrong types, wrong literals, missing members.

It knows nothing of order, pairing, emptiness or identity; those are for `convlog.projections.lint`. The packages of the
extra `oracle` are needed; where they are missing, tests skip, and fail in CI.
"""

from __future__ import annotations

import base64
import binascii
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import pytest

Judge = Callable[[Any], str | None]


def accepts(request: Mapping[str, Any], wire_format: str) -> str | None:
    """Give None if the types of the provider accept `request`, otherwise the beginning of their refusal."""
    return _judge(wire_format)(request)


@cache
def _judge(wire_format: str) -> Judge:
    match wire_format:
        case "anthropic":
            return _typed_dict("anthropic.types.message_create_params", "MessageCreateParamsNonStreaming")
        case "openai-chat":
            return _typed_dict("openai.types.chat.completion_create_params", "CompletionCreateParamsNonStreaming")
        case "openai-responses":
            return _typed_dict("openai.types.responses.response_create_params", "ResponseCreateParamsNonStreaming")
        case "gemini":
            return _gemini()
        case "bedrock":
            return _bedrock()
    raise ValueError(wire_format)


def _module(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            # What these packages deprecate among themselves is not our matter.
            warnings.simplefilter("ignore")
            return import_module(name)
    except ImportError as error:
        reason = f"{error.name} is missing; install the extra `oracle`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


# --- Anthropic and OpenAI: TypedDicts through pydantic ---


def _typed_dict(module: str, name: str) -> Judge:
    root = getattr(_module(module), name)
    core = _module("pydantic_core")
    adapter = _module("pydantic").TypeAdapter(root)
    validator = core.SchemaValidator(_closed(adapter.core_schema), core.CoreConfig(strict=True))

    def judge(request: Any) -> str | None:
        try:
            # The argument is needed beside the setting: inside TypedDicts the setting alone lets "1" pass for 1.
            seen = validator.validate_python(request, strict=True)
        except core.ValidationError as error:
            return _first(error)
        return None if seen == request else "the types read something else than was said"

    return judge


def _closed(schema: Any) -> Any:
    """Copy a core schema so that unknown keys are refused and lists are looked into, not wrapped lazily."""
    if isinstance(schema, list | tuple):
        return type(schema)(_closed(item) for item in schema)
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items() if key != "metadata"}
    match closed.get("type"):
        case "typed-dict":
            closed["extra_behavior"] = "forbid"
        case "generator":
            closed["type"] = "list"
    return closed


def _first(error: Any) -> str:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'/'.join(map(str, fault['loc']))}: {fault['msg']}"[:200]


# --- Gemini: the SDK's models for the contents, Vertex's discovery document for the body ---

DISCOVERY = "googleapiclient.discovery_cache"
DISCOVERY_FILE = "aiplatform.v1.json"
DISCOVERY_ROOT = "GoogleCloudAiplatformV1GenerateContentRequest"


def _gemini() -> Judge:
    types = _module("google.genai.types")
    core = _module("pydantic_core")
    body = _discovery_validator()

    def judge(request: Any) -> str | None:
        fault = next(iter(body.iter_errors(request)), None)
        if fault is not None:
            return f"{'/'.join(map(str, fault.absolute_path))}: {fault.message}"[:200]
        try:
            seen = [types.Content.model_validate(content) for content in request.get("contents", [])]
        except core.ValidationError as error:
            return _first(error)
        # The models also take snake_case; what they give back is the wire's spelling.
        back = [content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in seen]
        said = _in_one_alphabet(request.get("contents", []))
        return None if _in_one_alphabet(back) == said else "contents: the types spell it otherwise"

    return judge


def _in_one_alphabet(value: Any, name: str = "") -> Any:
    """Copy contents with bytes in the common base64 alphabet; the types answer in the one for addresses."""
    if isinstance(value, dict):
        return {key: _in_one_alphabet(member, key) for key, member in value.items()}
    if isinstance(value, list):
        return [_in_one_alphabet(item) for item in value]
    if isinstance(value, str) and name in {"data", "thoughtSignature"}:
        return value.replace("-", "+").replace("_", "/")
    return value


def _discovery_validator() -> Any:
    from importlib.resources import files

    import msgspec

    _module(DISCOVERY)
    document = msgspec.json.decode(files(DISCOVERY).joinpath("documents", DISCOVERY_FILE).read_bytes())
    schemas = {name: _json_schema(schema) for name, schema in _reachable(document["schemas"], DISCOVERY_ROOT)}
    root = {"$ref": f"#/$defs/{DISCOVERY_ROOT}", "$defs": schemas}
    return _module("jsonschema").Draft202012Validator(root)


def _reachable(schemas: dict[str, Any], root: str) -> Iterator[tuple[str, Any]]:
    found, stack = {root}, [root]
    while stack:
        name = stack.pop()
        yield name, schemas[name]
        for other in _references(schemas[name]):
            if other not in found:
                found.add(other)
                stack.append(other)


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for value in schema.values():
            yield from _references(value)


def _json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Turn a discovery schema into JSON Schema: closed objects, references by path, `any` as no constraint."""
    if "$ref" in schema:
        return {"$ref": f"#/$defs/{schema['$ref']}"}
    if schema.get("type") == "any":
        return {}
    made: dict[str, Any] = {key: schema[key] for key in ("type", "enum") if key in schema}
    if "properties" in schema:
        made["properties"] = {name: _json_schema(value) for name, value in schema["properties"].items()}
        made["additionalProperties"] = False
    elif "additionalProperties" in schema:
        made["additionalProperties"] = _json_schema(schema["additionalProperties"])
    if "items" in schema:
        made["items"] = _json_schema(schema["items"])
    return made


# --- Bedrock: botocore's service model ---


def _bedrock() -> Judge:
    session = _module("botocore.session").get_session()
    shape = session.get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    validator = _module("botocore.validate").ParamValidator()

    def judge(request: Any) -> str | None:
        try:
            decoded = _decoded(request, shape)
        except (ValueError, binascii.Error):
            return "bytes are no base64 text"
        report = validator.validate(decoded, shape)
        if report.has_errors():
            return str(report.generate_report())[:200]
        return next(_limits(decoded, shape, ""), None)

    return judge


def _members(value: Any, shape: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Give key, value and shape of everything directly inside `value` that the model describes."""
    if shape.type_name == "structure" and isinstance(value, dict) and not shape.is_document_type:
        yield from ((key, value[key], shape.members[key]) for key in value if key in shape.members)
    elif shape.type_name == "list" and isinstance(value, list):
        yield from ((index, item, shape.member) for index, item in enumerate(value))
    elif shape.type_name == "map" and isinstance(value, dict):
        yield from ((key, item, shape.value) for key, item in value.items())


def _decoded(value: Any, shape: Any) -> Any:
    """Copy a request with the base64 text of the JSON form as the bytes that botocore takes."""
    if shape.type_name == "blob":
        return base64.b64decode(value, validate=True)
    if isinstance(value, dict):
        return {**value, **{key: _decoded(item, member) for key, item, member in _members(value, shape)}}
    if isinstance(value, list) and shape.type_name == "list":
        return [_decoded(item, member) for _index, item, member in _members(value, shape)]
    return value


def _limits(value: Any, shape: Any, path: str) -> Iterator[str]:
    """Find what ParamValidator leaves out although the model has it: patterns, enums and maximal lengths."""
    import re

    if isinstance(value, str):
        pattern, enum = shape.metadata.get("pattern"), shape.metadata.get("enum")
        if pattern and not re.fullmatch(pattern, value):
            yield f"{path}: does not match {pattern[:80]}"
        if enum and value not in enum:
            yield f"{path}: not one of {', '.join(enum)}"
    longest = shape.metadata.get("max")
    if longest is not None and isinstance(value, str | list | dict | bytes) and len(value) > longest:
        yield f"{path}: longer than {longest}"
    for key, item, member in _members(value, shape):
        yield from _limits(item, member, f"{path}/{key}")
