"""`Trace`: recorded or synthetic traffic as arrays; times and lengths, never text.

A trace is a value: every method returns a new one. `Trace.build` checks its input and is what
readers and generators call; plain `Trace(...)` is unchecked, for code that already holds the rules.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from profiler.errors import TraceError
from profiler.traffic.checks import FloatArray, IntArray, TraceOptions, checked_fields
from profiler.traffic.images import Images
from profiler.traffic.parquet import read_fields, write_fields
from profiler.traffic.ragged import cut_segments, take_segments

__all__ = ["FloatArray", "IntArray", "Trace", "TraceOptions"]

PERCENTILES = (1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True, eq=False)
class Trace:
    """N requests in order of arrival. Built by readers and generators; never changed in place.

    Compare two traces by `digest()`.
    """

    arrival_s: FloatArray
    """(N,) seconds from the start of the trace; sorted, the first is 0."""
    prompt_tokens: IntArray
    """(N,) tokens, at least 1."""
    output_tokens: IntArray
    """(N,) tokens, at least 1."""
    priority: IntArray | None = None
    """(N,) lower is served first; None when the traffic has none."""
    request_class: IntArray | None = None
    """(N,) index into `class_names`; None when there is one class only."""
    class_names: tuple[str, ...] = ("default",)
    prefix_hashes: IntArray | None = None
    """(H,) 64-bit hash of each started prefix block of every prompt, request after request."""
    prefix_offsets: IntArray | None = None
    """(N + 1,) request i owns prefix_hashes[prefix_offsets[i]:prefix_offsets[i + 1]]."""
    prefix_block_tokens: int | None = None
    """prompt tokens per prefix hash."""
    images: Images | None = None
    """where images are in the prompts; None when the traffic has none."""
    acceptance_rate: FloatArray | None = None
    """(N,) chance in [0, 1] that a draft token is accepted; None when the traffic does not say."""
    source: str = ""
    """where it came from, in words (file name and format, or generator and seed)."""

    @classmethod
    def build(
        cls,
        arrival_s: npt.ArrayLike,
        prompt_tokens: npt.ArrayLike,
        output_tokens: npt.ArrayLike,
        **optional: Unpack[TraceOptions],
    ) -> Trace:
        """Check every rule of `Trace`, cast and construct.

        Parameters
        ----------
        arrival_s
            (N,) seconds, sorted, the first 0, N at least 1.
        prompt_tokens, output_tokens
            (N,) whole numbers, at least 1.
        **optional
            The other fields of `Trace`.

        Raises
        ------
        TraceError
            A rule is broken; the message names the first request that breaks it.
        """
        fields = checked_fields(arrival_s, prompt_tokens, output_tokens, optional)
        images = optional.get("images")
        if images is not None:
            images.check_inside(fields["prompt_tokens"])
        return cls(**fields, images=images)

    @property
    def num_requests(self) -> int:
        return len(self.arrival_s)

    @property
    def duration_s(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.arrival_s[-1] - self.arrival_s[0])

    @property
    def rate_rps(self) -> float:
        """Mean arrival rate, (N - 1) gaps over their duration; infinite on a single stamp."""
        gaps = self.num_requests - 1
        return gaps / self.duration_s if self.duration_s > 0 else float("inf")

    @property
    def classes(self) -> IntArray:
        """(N,) index into `class_names`, zeros where the traffic has one class only."""
        if self.request_class is None:
            return np.zeros(self.num_requests, dtype=np.int64)
        return self.request_class

    def slice(self, start_s: float, end_s: float) -> Trace:
        """Requests with start_s <= arrival < end_s, re-based so that the first arrives at 0.

        Raises
        ------
        TraceError
            No request arrives in that window.
        """
        keep = np.flatnonzero((self.arrival_s >= start_s) & (self.arrival_s < end_s))
        if keep.size == 0:
            raise TraceError(
                f"no request arrives from {start_s:g} s to {end_s:g} s; "
                f"the trace lasts {self.duration_s:g} s, choose a window inside it"
            )
        return self.take(keep)

    def scale_rate(self, rate_rps: float) -> Trace:
        """Stretch or squeeze all times by one factor so that the mean rate is `rate_rps`.

        Raises
        ------
        TraceError
            The rate is not positive, or all requests arrive at once (no rate to scale).
        """
        if not (np.isfinite(rate_rps) and rate_rps > 0):
            raise TraceError(f"a rate must be above 0 requests/s, got {rate_rps:g}")
        if self.duration_s <= 0:
            raise TraceError(
                f"all {self.num_requests} requests arrive at once, so there is no rate to scale; "
                "use a trace with at least two time stamps"
            )
        return replace(self, arrival_s=self.arrival_s * (self.rate_rps / rate_rps))

    def cap(
        self, max_prompt_tokens: int | None = None, max_output_tokens: int | None = None
    ) -> Trace:
        """Shorten longer prompts and outputs to the given limits; no request is dropped.

        Prefix hashes beyond the shortened prompt, and images that do not end inside it, go with it.
        """
        for limit in (max_prompt_tokens, max_output_tokens):
            if limit is not None and limit < 1:
                raise TraceError(f"a length limit must be at least 1 token, got {limit}")
        prompt, output = self.prompt_tokens, self.output_tokens
        if max_output_tokens is not None:
            output = np.minimum(output, max_output_tokens)
        if max_prompt_tokens is None:
            return replace(self, output_tokens=output)
        prompt = np.minimum(prompt, max_prompt_tokens)
        hashes, offsets = self.prefix_hashes, self.prefix_offsets
        if hashes is not None and offsets is not None and self.prefix_block_tokens:
            most = -(-prompt // self.prefix_block_tokens)
            hashes, offsets = cut_segments(hashes, offsets, most)
        return replace(
            self,
            prompt_tokens=prompt,
            output_tokens=output,
            prefix_hashes=hashes,
            prefix_offsets=offsets,
            images=None if self.images is None else self.images.within(prompt),
        )

    def sample(self, num: int, seed: int) -> Trace:
        """`num` requests drawn without replacement, in order and at their own times.

        Thinning lowers the rate in proportion; `scale_rate` restores it.
        """
        if not 1 <= num <= self.num_requests:
            raise TraceError(
                f"cannot sample {num} of {self.num_requests} requests; "
                f"ask for 1 to {self.num_requests}"
            )
        rng = np.random.default_rng(seed)
        return self.take(np.sort(rng.choice(self.num_requests, size=num, replace=False)))

    def describe(self) -> dict[str, Any]:
        """Plain figures for reports and JSON: counts, rate, percentiles of lengths, classes."""
        names, counts = self.class_names, np.bincount(self.classes, minlength=len(self.class_names))
        images = {} if self.images is None else {"images": self.images.figures(self.prompt_tokens)}
        return {
            "num_requests": self.num_requests,
            "duration_s": self.duration_s,
            "rate_rps": self.rate_rps if self.duration_s > 0 else None,
            "prompt_tokens": length_figures(self.prompt_tokens),
            "output_tokens": length_figures(self.output_tokens),
            "classes": {name: int(count) for name, count in zip(names, counts, strict=True)},
            "prefix_block_tokens": self.prefix_block_tokens,
            **images,
            "source": self.source,
            "digest": self.digest(),
        }

    def digest(self) -> str:
        """SHA-256 (hex) of the content without `source`: equal traffic has equal digests."""
        sha = hashlib.sha256()
        head = {"classes": list(self.class_names), "prefix_block": self.prefix_block_tokens}
        sha.update(json.dumps(head).encode())
        images = self.images
        for array in (
            self.arrival_s,
            self.prompt_tokens,
            self.output_tokens,
            self.priority,
            self.classes,
            self.prefix_hashes,
            self.prefix_offsets,
            *((images.start, images.tokens, images.identity, images.offsets) if images else ()),
        ):
            sha.update(b"-" if array is None else f"{array.dtype.str}{len(array)}".encode())
            sha.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        if self.acceptance_rate is not None:
            sha.update(b"acceptance" + np.ascontiguousarray(self.acceptance_rate).tobytes())
        return sha.hexdigest()

    def save(self, path: Path) -> None:
        """Write the one file format of traces (Parquet, zstd), replacing `path` in one move.

        Raises
        ------
        TraceError
            The file cannot be written.
        """
        fields = {f.name: getattr(self, f.name) for f in dataclass_fields(self)}
        write_fields(path, fields, self.digest())

    @classmethod
    def load(cls, path: Path) -> Trace:
        """Read a file written by `save`, checking its rules and its digest.

        Raises
        ------
        TraceError
            The file is missing, damaged, of another kind or of another schema version.
        """
        return cls.from_fields(*read_fields(path), name=path.name)

    @classmethod
    def from_fields(cls, fields: dict[str, Any], digest: str, *, name: str) -> Trace:
        """The trace of `fields` as read from the file `name`; TraceError unless it has `digest`."""
        trace = cls.build(**fields)
        if trace.digest() != digest:
            raise TraceError(f"{name}: the content does not match its digest; the file was changed")
        return trace

    def take(self, index: IntArray) -> Trace:
        """Requests `index`, at their own times, re-based so that the first arrives at 0."""
        hashes, offsets = self.prefix_hashes, self.prefix_offsets
        if hashes is not None and offsets is not None:
            hashes, offsets = take_segments(hashes, offsets, index)
        arrival = self.arrival_s[index]
        return replace(
            self,
            arrival_s=arrival - arrival[0],
            prompt_tokens=self.prompt_tokens[index],
            output_tokens=self.output_tokens[index],
            priority=None if self.priority is None else self.priority[index],
            request_class=None if self.request_class is None else self.request_class[index],
            acceptance_rate=None if self.acceptance_rate is None else self.acceptance_rate[index],
            prefix_hashes=hashes,
            prefix_offsets=offsets,
            images=None if self.images is None else self.images.take(index),
        )


def length_figures(tokens: IntArray) -> dict[str, float]:
    """Mean, extremes and percentiles (linear interpolation) of (N,) lengths in tokens."""
    values = np.percentile(tokens, PERCENTILES)
    figures = {"min": float(tokens.min()), "mean": float(tokens.mean())}
    figures |= {f"p{p:g}": float(v) for p, v in zip(PERCENTILES, values, strict=True)}
    return figures | {"max": float(tokens.max())}
