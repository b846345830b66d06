"""Measure a link: real NIXL transfers between two processes of this machine."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from profiler.engines.base import Progress
from profiler.engines.vllm.child import Child
from profiler.errors import EngineDiedError, EngineHungError, LinkError, MissingExtraError
from profiler.hardware import this_machine
from profiler.kv_link.artefact import LinkProfile, SizeResult
from profiler.kv_link.fit import fit_link
from profiler.provenance import provenance_now

ENDPOINT = "profiler.kv_link.endpoint"
_MIB = 1 << 20
OPEN_TIMEOUT_S = 120.0
_READ_TIMEOUT_S = 300.0
_LOG_LINES = 12


@dataclass(frozen=True)
class LinkPlan:
    """What is measured."""

    sizes_bytes: tuple[int, ...] = tuple(k * _MIB for k in (1, 2, 4, 8, 16, 32, 64))
    """of the transfers; two at least"""
    block_bytes: int = 64 * 1024
    """of each descriptor: KV of one block in one layer (16 tokens of 8 heads of 128 elements of 2
    bytes, keys and values, are 64 KiB)"""
    repeats: int = 15
    """of each size"""
    memory_bytes: int = 256 * _MIB
    """of each end; blocks of a transfer lie anywhere in it"""

    def check(self) -> None:
        """Raise `LinkError` for what cannot be measured."""
        wrong = ""
        if len(set(self.sizes_bytes)) < 2 or min(self.sizes_bytes) < self.block_bytes:
            wrong = "sizes must be at least two, none below a block"
        elif max(self.sizes_bytes) > self.memory_bytes:
            wrong = "the largest size must fit the memory"
        elif self.block_bytes < 1 or self.repeats < 3:
            wrong = "blocks must have at least 1 byte, and repeats be at least 3"
        if wrong:
            raise LinkError(
                f"{wrong}; got sizes of {min(self.sizes_bytes, default=0)} to "
                f"{max(self.sizes_bytes, default=0)} bytes, blocks of {self.block_bytes}, memory "
                f"of {self.memory_bytes}, {self.repeats} repeats"
            )


def measure_link(plan: LinkPlan | None = None, *, progress: Progress | None = None) -> LinkProfile:
    """Latency and bandwidth between two processes of this machine, as vLLM's connector uses it.

    One end reads blocks from all over the other's memory, over whatever UCX picks: shared memory
    on one machine, or what `UCX_TLS` says (`UCX_TLS=tcp,self` goes through the network stack).

    Parameters
    ----------
    progress
        Called with (sizes done, sizes in all).

    Raises
    ------
    MissingExtraError
        NIXL is not installed.
    LinkError
        The plan cannot be measured.
    EngineDiedError, EngineHungError
        An end failed or was silent; the last lines that it printed are attached.
    """
    plan = plan or LinkPlan()
    plan.check()
    if find_spec("nixl") is None:
        raise MissingExtraError("NIXL is not installed; install stallfree[nixl] (Linux)")
    times: list[list[float]] = []
    with (
        tempfile.TemporaryDirectory(prefix="stallfree-link-") as folder,
        _End("sender", Path(folder)) as sender,
        _End("reader", Path(folder)) as reader,
    ):
        _open_both(sender, reader, plan)
        for done, size in enumerate(plan.sizes_bytes):
            if progress:
                progress(done, len(plan.sizes_bytes))
            times.append(_read(sender, reader, size, plan))
    return _fitted(plan, times)


def _open_both(sender: _End, reader: _End, plan: LinkPlan) -> None:
    """Start both ends at the same time, and let the reader know the sender."""
    for end in (sender, reader):
        size = {"size_bytes": plan.memory_bytes, "block_bytes": plan.block_bytes}
        end.send({"command": "open", "name": end.name, **size})
    there = sender.receive(OPEN_TIMEOUT_S)
    reader.receive(OPEN_TIMEOUT_S)
    reader.send({"command": "meet", "metadata": there["metadata"], "address": there["address"]})
    reader.receive(OPEN_TIMEOUT_S)


def _read(sender: _End, reader: _End, size: int, plan: LinkPlan) -> list[float]:
    """Seconds of each transfer of one size; the content of the last one is compared."""
    num_blocks = -(-size // plan.block_bytes)
    reader.send({"command": "read", "num_blocks": num_blocks, "repeats": plan.repeats})
    answer = reader.receive(_READ_TIMEOUT_S)
    sender.send({"command": "digest", "blocks": answer["from_blocks"]})
    if sender.receive(_READ_TIMEOUT_S)["digest"] != answer["digest"]:
        raise EngineDiedError(
            f"a transfer of {size} bytes arrived changed; report it with the versions of NIXL and "
            "UCX, and do not use this link"
        )
    return [float(s) for s in answer["seconds"]]


def _fitted(plan: LinkPlan, times: list[list[float]]) -> LinkProfile:
    moved = [-(-size // plan.block_bytes) * plan.block_bytes for size in plan.sizes_bytes]
    medians = np.array([np.median(seconds) for seconds in times])
    latency_s, bytes_per_s = fit_link(np.array(moved, dtype=np.float64), medians)
    sizes = [
        SizeResult(
            size_bytes=size,
            num_transfers=len(seconds),
            median_s=float(np.median(seconds)),
            p95_s=float(np.quantile(seconds, 0.95)),
            fitted_s=latency_s + size / bytes_per_s,
        )
        for size, seconds in zip(moved, times, strict=True)
    ]
    settings = {k: v for k, v in sorted(os.environ.items()) if k.startswith("UCX_")}
    return LinkProfile(
        latency_s=latency_s,
        bytes_per_s=bytes_per_s,
        block_bytes=plan.block_bytes,
        sizes=tuple(sizes),
        transport={
            "library": f"nixl {_version('nixl')}",
            "backend": "UCX",
            "environment": settings,
            "ends": "host memory of two processes of one machine",
        },
        host=this_machine().to_dict(),
        provenance=provenance_now(),
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "of an unknown version"


class _End:
    """A process at one end of the link."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._log = name, folder / f"{name}.log"
        self._child = Child(ENDPOINT, dict(os.environ), self._log)

    def send(self, message: dict[str, Any]) -> None:
        self._child.send(message)

    def receive(self, timeout_s: float) -> dict[str, Any]:
        answer = self._child.receive(timeout_s)
        if answer is None:
            raise self._with_log(
                EngineHungError(
                    f"the {self.name} of the link was silent for {timeout_s:g} s; see what the "
                    "machine is busy with, or set UCX_TLS to another transport"
                )
            )
        if answer["event"] != "done":
            why = answer.get("message") or f"its process ended with {answer.get('code')}"
            raise self._with_log(
                EngineDiedError(
                    f"the {self.name} of the link failed: {why}; check that NIXL works here, and "
                    "the UCX_ variables of the environment"
                )
            )
        return answer

    def _with_log(self, error: EngineDiedError | EngineHungError) -> Exception:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines()[-_LOG_LINES:]:
            error.add_note(line)
        return error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.end(grace_s=2.0 if error is None else 0.0)
