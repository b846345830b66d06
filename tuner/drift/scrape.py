"""What an engine says of itself: Prometheus metrics from a URL or a saved file, and its version.

Histograms are cumulative counters: a scrape holds all requests since the server started, the
difference of two scrapes those between them. Replicas behind one address, and several engines of
one server, are told apart by labels and are summed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from profiler.errors import InputError
from profiler.traffic.checks import FloatArray

MOST_BYTES = 16 * 1024 * 1024
"""largest answer that is read; a vLLM server's metrics are some 100 kB"""
TIMEOUT_S = 10.0
_CACHE_INFO = "vllm:cache_config_info"


@dataclass(frozen=True)
class Histogram:
    """A cumulative histogram."""

    bounds: FloatArray
    """(B,) upper bounds of the buckets, ascending; the last is infinite"""
    at_most: FloatArray
    """(B,) observations at or below each bound"""
    total: float
    """sum of all observations"""

    @property
    def count(self) -> float:
        return float(self.at_most[-1])

    @property
    def mean(self) -> float:
        """Exact, whatever the buckets are; NaN without observations."""
        return self.total / self.count if self.count else float("nan")

    @property
    def shares(self) -> FloatArray:
        """(B - 1,) share of the observations at or below each finite bound."""
        return self.at_most[:-1] / self.count

    def since(self, earlier: Histogram) -> Histogram:
        """What came after `earlier`, which must have the same buckets.

        Raises `InputError` when a count fell, as it does when the server was started anew.
        """
        if not np.array_equal(self.bounds, earlier.bounds):
            raise InputError("the two scrapes have other buckets; scrape one server twice")
        at_most = self.at_most - earlier.at_most
        if (at_most < 0).any() or (np.diff(at_most) < 0).any():
            raise InputError(
                "the later scrape has counted less than the earlier one (was the server started "
                "anew, or the order changed?); give the later scrape alone"
            )
        return Histogram(self.bounds, at_most, self.total - earlier.total)


@dataclass(frozen=True)
class Scrape:
    """One reading of an engine's metrics."""

    histograms: dict[str, Histogram]
    """by metric name, buckets of all label sets summed"""
    cache: dict[str, str]
    """labels of vLLM's cache settings; empty when it does not say"""

    def since(self, earlier: Scrape) -> Scrape:
        """What happened between the two."""
        both = {
            name: histogram.since(earlier.histograms[name])
            for name, histogram in self.histograms.items()
            if name in earlier.histograms
        }
        return Scrape(both, self.cache)


def parse_scrape(text: str, name: str) -> Scrape:
    """The histograms in Prometheus' text format; `name` is for messages.

    Raises
    ------
    InputError
        The text is not of that format, or a histogram in it is broken.
    """
    buckets: dict[str, dict[float, float]] = {}
    sums: dict[str, float] = {}
    cache: dict[str, str] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == _CACHE_INFO and not cache:
                    cache = dict(sample.labels)
                elif family.type == "histogram" and sample.name.endswith("_bucket"):
                    bound = float(sample.labels["le"])
                    own = buckets.setdefault(family.name, {})
                    own[bound] = own.get(bound, 0.0) + sample.value
                elif family.type == "histogram" and sample.name.endswith("_sum"):
                    sums[family.name] = sums.get(family.name, 0.0) + sample.value
    except (ValueError, KeyError, IndexError) as error:
        raise InputError(
            f"{name} is not in Prometheus' text format ({error!r}); save what the engine's "
            "/metrics address answers"
        ) from error
    found = {n: _histogram(n, own, sums.get(n, np.nan)) for n, own in buckets.items()}
    return Scrape(found, cache)


def _histogram(name: str, buckets: dict[float, float], total: float) -> Histogram:
    bounds = np.array(sorted(buckets))
    at_most = np.array([buckets[b] for b in bounds])
    if bounds[-1] != np.inf or np.isnan(bounds).any() or (np.diff(at_most) < 0).any():
        raise InputError(
            f"histogram {name} is broken: its buckets must be cumulative and end at +Inf; scrape "
            "again"
        )
    return Histogram(bounds, at_most, total)


def read_metrics(source: str) -> str:
    """The text at an http or https address, or in a file. Raises `InputError`, one line."""
    if "://" in source:
        return _get(_checked_url(source))
    path = Path(source)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"metrics {path} are larger than {MOST_BYTES} bytes; give a scrape")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"metrics {path} cannot be read: {error.strerror}; give a saved scrape or an address "
            "like http://HOST:8000/metrics"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"metrics {path} are no text; give a saved scrape") from error


def read_version(source: str) -> str | None:
    """The version that the server of a metrics address tells at /version; None where it does not,
    and for a file."""
    if "://" not in source:
        return None
    url = _checked_url(source)
    place = url.path.rstrip("/").rpartition("/")[0] + "/version"
    try:
        version = json.loads(_get(url.copy_with(path=place, query=None)))["version"]
    except (InputError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, str) else None


def _checked_url(source: str) -> httpx.URL:
    try:
        url = httpx.URL(source)
    except httpx.InvalidURL as error:
        raise InputError(f"metrics {source!r} is no address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise InputError(
            f"a metrics address must be http:// or https:// and name a host, got {url.scheme}://; "
            "give a path for a saved scrape"
        )
    return url


def _get(url: httpx.URL) -> str:
    """The body of the answer. Redirects are not followed: they could lead anywhere."""
    shown = url.copy_with(username=None, password=None, query=None)
    try:
        with httpx.stream("GET", url, timeout=TIMEOUT_S, follow_redirects=False) as answer:
            if answer.status_code != httpx.codes.OK:
                raise InputError(
                    f"metrics address {shown} answers {answer.status_code}; check the path "
                    "(vLLM's is /metrics)"
                )
            return b"".join(_limited(answer, str(shown))).decode("utf-8", errors="strict")
    except httpx.HTTPError as error:
        raise InputError(
            f"metrics address {shown} cannot be read ({type(error).__name__}); check that the "
            "server runs and can be reached from here"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"metrics address {shown} answers no text; check the path") from error


def _limited(answer: httpx.Response, shown: str) -> Iterator[bytes]:
    size = 0
    for part in answer.iter_bytes():
        size += len(part)
        if size > MOST_BYTES:
            raise InputError(
                f"metrics address {shown} answers more than {MOST_BYTES} bytes; check the path"
            )
        yield part
