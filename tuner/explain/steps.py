"""Steps as a reader wants them: who got what, and which part of the time each of them cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from profiler.engine_config import EngineConfig
from profiler.errors import SimulationError
from profiler.latency.base import StepTimeModel
from profiler.latency.step_time import BatchShape, step_interval
from profiler.steps import AFTER_CHUNKS, AFTER_DECODES, AFTER_IDLE
from profiler.traffic.trace import Trace
from tuner.simulator import Simulation, StepRecord, Timeline
from tuner.simulator.state import ENCODES


class Rerun(Protocol):
    """The same simulation once more: `tuner.simulator.simulate` with everything else fixed."""

    def __call__(
        self, *, record: bool | tuple[float, float] = False, timeline: bool = False
    ) -> Simulation: ...


@dataclass(frozen=True)
class Scene:
    """A simulation to be explained; it is deterministic and can be repeated."""

    trace: Trace
    model: StepTimeModel
    config: EngineConfig
    """every setting resolved"""
    done: Simulation
    """the run, with its timeline"""
    rerun: Rerun

    @property
    def timeline(self) -> Timeline:
        """The steps of the run. Raises `SimulationError` when they were not kept."""
        if self.done.timeline is None:
            raise SimulationError("a run without a timeline cannot be explained; ask for one")
        return self.done.timeline


@dataclass(frozen=True)
class Chunk:
    """A part of one prompt in one step. Requests are numbered from 1 in order of arrival."""

    request: int
    tokens: int
    before: int
    """tokens of the request computed before"""
    encoded: int = 0
    """tokens of its images that the encoder computes in the step"""
    seconds: float = 0.0
    """its share of the step"""


@dataclass(frozen=True)
class StepView:
    """One step. Its seconds are those of its chunks, its decodes and its jitter."""

    number: int
    start_s: float
    end_s: float
    chunks: tuple[Chunk, ...]
    num_decodes: int
    decodes_s: float
    """what the step would have taken without chunks, its fixed cost included"""
    jitter_s: float
    """beyond the latency model's mean, drawn from the residuals it was fitted with"""
    own_tokens: int
    """tokens that the explained request got"""
    preempted: tuple[int, ...]
    """requests that lost their KV blocks when the step was scheduled"""
    num_running: int
    num_waiting: int
    free_blocks: int

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True)
class Part:
    """What some of the explained time went into."""

    what: str
    seconds: float


def record_steps(scene: Scene, first: int, last: int) -> StepRecord:
    """The detailed record of the steps `first` .. `last`, by a second run."""
    times = scene.timeline.schedule_s
    window = (float(times[first]), float(np.nextafter(times[last], np.inf)))
    record = scene.rerun(record=window).record
    assert record is not None
    return record


def view_steps(
    scene: Scene, record: StepRecord, steps: Iterable[int], request: int
) -> list[StepView]:
    """The `steps` as seen by `request` (its index in the trace)."""
    return [_view(scene, record, step, request) for step in steps]


def _view(scene: Scene, record: StepRecord, step: int, request: int) -> StepView:
    line = scene.timeline
    start, end = np.searchsorted(record.step, [step, step + 1])
    rows = slice(start, end)
    requests, tokens = record.request[rows], record.tokens[rows]
    chunks = _chunks(scene, record, rows, int(line.num_decodes[step]))
    seconds = float(line.end_s[step] - line.start_s[step])
    predicted, without = _predict(scene, step, chunks), _predict(scene, step, ())
    if not chunks:
        predicted = without
    return StepView(
        number=step,
        start_s=float(line.start_s[step]),
        end_s=float(line.end_s[step]),
        chunks=_shared(scene, step, chunks, predicted - without),
        num_decodes=int(line.num_decodes[step]),
        decodes_s=without,
        jitter_s=seconds - predicted,
        own_tokens=int(tokens[(requests == request) & (tokens > 0)].sum()),
        preempted=tuple(int(r) + 1 for r in requests[tokens == -1]),
        num_running=int(line.num_running[step]),
        num_waiting=int(line.num_waiting[step]),
        free_blocks=int(line.free_blocks[step]),
    )


def _chunks(scene: Scene, record: StepRecord, rows: slice, num_decodes: int) -> tuple[Chunk, ...]:
    """The rows of one step that are no decodes.

    A single token after the prompt is a decode, or the end of a preempted request's recomputation;
    the timeline knows how many decodes there were, and who was admitted last runs last.
    """
    requests, tokens, before = record.request[rows], record.tokens[rows], record.before[rows]
    single = (tokens == 1) & (before >= scene.trace.prompt_tokens[requests])
    decodes = single & (np.cumsum(single) <= num_decodes)
    encodes = tokens == ENCODES
    encoded = dict(zip(requests[encodes].tolist(), before[encodes].tolist(), strict=True))
    some = np.flatnonzero((tokens > 0) & ~decodes)
    return tuple(
        Chunk(int(requests[i]) + 1, int(tokens[i]), int(before[i]), encoded.get(requests[i], 0))
        for i in some
    )


def _predict(scene: Scene, step: int, chunks: Sequence[Chunk]) -> float:
    """Mean seconds of the step if it had these chunks."""
    line = scene.timeline
    batch = BatchShape(
        sum(c.tokens for c in chunks),
        len(chunks),
        float(sum(c.tokens * (c.before + 0.5 * (c.tokens + 1)) for c in chunks)),
        sum(c.before for c in chunks),
        int(line.num_decodes[step]),
        int(line.decode_context[step]),
        _follows(line, step),
        sum(c.encoded for c in chunks),
    )
    overlapped = bool(scene.config.async_scheduling)
    return float(step_interval(scene.model.params, batch, int(line.num_running[step]), overlapped))


def _follows(line: Timeline, step: int) -> int:
    """What ran before, as `BatchShape.follows` has it (see `commit.describe_batch`)."""
    if step == 0 or line.schedule_s[step] > line.end_s[step - 1]:
        return AFTER_IDLE
    return AFTER_CHUNKS if line.prefill_tokens[step - 1] > 0 else AFTER_DECODES


def _shared(
    scene: Scene, step: int, chunks: tuple[Chunk, ...], seconds: float
) -> tuple[Chunk, ...]:
    """The chunks with `seconds` shared among them, in proportion to what leaving each out saves."""
    whole = _predict(scene, step, chunks)
    saved = [whole - _predict(scene, step, [c for c in chunks if c is not one]) for one in chunks]
    weights = saved if sum(saved) > 0 else [float(c.tokens) for c in chunks]
    total = sum(weights)
    return tuple(
        replace(c, seconds=seconds * w / total) for c, w in zip(chunks, weights, strict=True)
    )


def parts_of(steps: Sequence[StepView]) -> list[Part]:
    """What the steps' time went into, largest first: each request's chunks, decodes, jitter."""
    spent: dict[str, float] = defaultdict(float)
    for step in steps:
        for chunk in step.chunks:
            spent[f"chunks of request {chunk.request:,}"] += chunk.seconds
        spent["decodes" if step.num_decodes else "fixed cost of steps"] += step.decodes_s
        spent["jitter"] += step.jitter_s
    return [Part(what, s) for what, s in sorted(spent.items(), key=lambda x: -abs(x[1]))]
