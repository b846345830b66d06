"""The rules of `Trace`, checked once at the edge; what they say is in `Trace`'s field notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from profiler.errors import TraceError

if TYPE_CHECKING:
    from profiler.traffic.images import Images

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MAX_TOKENS = 2**31 - 1
"""No request is longer; a larger number is a time stamp or a damaged value."""


class TraceOptions(TypedDict, total=False):
    """The optional fields of `Trace`, as keyword arguments of `Trace.build`."""

    priority: npt.ArrayLike | None
    request_class: npt.ArrayLike | None
    class_names: tuple[str, ...]
    prefix_hashes: npt.ArrayLike | None
    prefix_offsets: npt.ArrayLike | None
    prefix_block_tokens: int | None
    images: Images | None
    acceptance_rate: npt.ArrayLike | None
    source: str


def checked_fields(
    arrival_s: npt.ArrayLike,
    prompt_tokens: npt.ArrayLike,
    output_tokens: npt.ArrayLike,
    optional: TraceOptions,
) -> dict[str, Any]:
    """Cast and check the arguments of `Trace.build`; TraceError names the first offender."""
    arrival = _arrivals(arrival_s)
    num = len(arrival)
    fields: dict[str, Any] = {
        "arrival_s": arrival,
        "prompt_tokens": _lengths("prompt_tokens", prompt_tokens, num),
        "output_tokens": _lengths("output_tokens", output_tokens, num),
        "source": optional.get("source", ""),
    }
    if optional.get("priority") is not None:
        fields["priority"] = whole_numbers("priority", optional["priority"], num)
    if optional.get("acceptance_rate") is not None:
        fields["acceptance_rate"] = _rates("acceptance_rate", optional["acceptance_rate"], num)
    fields |= _class_fields(optional, num)
    return fields | _prefix_fields(optional, fields["prompt_tokens"])


def _arrivals(values: npt.ArrayLike) -> FloatArray:
    arrival = np.array(values, dtype=np.float64)
    if arrival.ndim != 1 or arrival.size == 0:
        raise TraceError(f"a trace needs at least one request, got arrivals {arrival.shape}")
    finite = np.isfinite(arrival)
    if not finite.all():
        where = int(np.argmin(finite))
        raise TraceError(f"arrival times must be finite; request {where} has {arrival[where]}")
    drops = np.diff(arrival) < 0
    if drops.any():
        where = int(np.argmax(drops)) + 1
        raise TraceError(
            f"arrivals must be sorted; request {where} at {arrival[where]:g} s comes after "
            f"{arrival[where - 1]:g} s: sort first"
        )
    if arrival[0] != 0:
        raise TraceError(f"the first arrival must be 0 s, got {arrival[0]:g}: subtract it first")
    return arrival


def whole_numbers(name: str, values: npt.ArrayLike | None, num: int | None) -> IntArray:
    """`values` as int64; TraceError unless they are `num` whole numbers in one row."""
    array = np.asarray(values)
    if array.ndim != 1 or (num is not None and len(array) != num):
        raise TraceError(f"{name} must hold {num} numbers in one row, got shape {array.shape}")
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind == "f":
        whole = np.isfinite(array) & (array == np.floor(array))
        if not whole.all():
            where = int(np.argmin(whole))
            raise TraceError(f"{name} must be whole numbers; request {where} has {array[where]}")
    elif array.dtype.kind not in "iu":
        raise TraceError(f"{name} must be whole numbers, got {array.dtype} values")
    return array.astype(np.int64)


def _rates(name: str, values: npt.ArrayLike | None, num: int) -> FloatArray:
    rates = np.array(values, dtype=np.float64)
    if rates.shape != (num,):
        raise TraceError(f"{name} must hold {num} numbers in one row, got shape {rates.shape}")
    good = (rates >= 0.0) & (rates <= 1.0)
    if not good.all():
        where = int(np.argmin(good))
        raise TraceError(f"{name} must be from 0 to 1; request {where} has {rates[where]:g}")
    return rates


def _lengths(name: str, values: npt.ArrayLike, num: int) -> IntArray:
    lengths = whole_numbers(name, values, num)
    good = (lengths >= 1) & (lengths <= MAX_TOKENS)
    if not good.all():
        where = int(np.argmin(good))
        raise TraceError(
            f"{name} must be from 1 to {MAX_TOKENS} tokens; request {where} has {lengths[where]}"
        )
    return lengths


def _class_fields(optional: TraceOptions, num: int) -> dict[str, Any]:
    names = tuple(optional.get("class_names", ("default",)))
    if not names or len(set(names)) != len(names):
        raise TraceError(f"class names must be given once each, got {list(names)}")
    if optional.get("request_class") is None:
        if len(names) != 1:
            raise TraceError(f"{len(names)} class names were given, but no class per request")
        return {"class_names": names}
    index = whole_numbers("request_class", optional["request_class"], num)
    if index.min() < 0 or index.max() >= len(names):
        raise TraceError(f"request classes must index the {len(names)} names {list(names)}")
    return {"class_names": names, "request_class": index}


def _prefix_fields(optional: TraceOptions, prompt: IntArray) -> dict[str, Any]:
    keys = ("prefix_hashes", "prefix_offsets", "prefix_block_tokens")
    given = [key for key in keys if optional.get(key) is not None]
    if not given:
        return {}
    if len(given) != len(keys):
        raise TraceError(f"prefix hashes need all of {', '.join(keys)}; got only {given}")
    block = int(optional["prefix_block_tokens"] or 0)
    if block < 1:
        raise TraceError(f"prefix_block_tokens must be at least 1 token, got {block}")
    hashes = whole_numbers("prefix_hashes", optional["prefix_hashes"], None)
    offsets = whole_numbers("prefix_offsets", optional["prefix_offsets"], len(prompt) + 1)
    sizes = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != len(hashes) or (sizes < 0).any():
        raise TraceError("prefix_offsets must rise from 0 to the number of prefix hashes")
    over = sizes > -(-prompt // block)
    if over.any():
        where = int(np.argmax(over))
        raise TraceError(
            f"request {where} has {sizes[where]} prefix hashes, more than its {prompt[where]} "
            f"prompt tokens have blocks of {block}"
        )
    return {"prefix_hashes": hashes, "prefix_offsets": offsets, "prefix_block_tokens": block}
