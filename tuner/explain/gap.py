"""Why a gap between two tokens was long: the steps between them, and what happened in each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler.errors import InputError
from tuner.explain.steps import Part, Scene, StepView, parts_of, record_steps, view_steps
from tuner.explain.words import duration, joined, listed, plural, share
from tuner.simulator import OwnGap, StepRecord, Timeline


@dataclass(frozen=True)
class GapStory:
    """One gap. Requests are numbered from 1 in order of arrival."""

    request: int
    start_s: float
    """output of the step with the token before"""
    end_s: float
    """output of the step with the token after"""
    num_sharing: int
    """other requests with the very same gap"""
    waited_s: float
    """of it, preempted and waiting to be admitted again"""
    recomputed_tokens: int
    """after the preemption"""
    skipped_steps: int
    """running, but without a token because the budget did not reach that far"""
    parts: list[Part]
    """what the time of the steps went into"""
    steps: list[StepView]

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s

    @property
    def sentence(self) -> str:
        """The gap and its cause in one sentence."""
        others = f" and {plural(self.num_sharing, 'other')}" if self.num_sharing else ""
        head = (
            f"This gap of {duration(self.seconds)} between two tokens of request "
            f"{self.request:,}{others}, at {self.end_s:,.1f} s: "
        )
        own = self.recomputed_tokens or self.skipped_steps
        return f"{head}{self._own_cause() if own else self._step_cause()}."

    def _step_cause(self) -> str:
        step = self.steps[0]
        if not step.chunks:
            return f"no chunk in it; {listed(self.parts, self.seconds)}"
        big = max(step.chunks, key=lambda c: c.seconds)
        depth = f" (after {big.before:,} computed)" if big.before else ""
        images = f" with {plural(big.encoded, 'image token')} encoded" if big.encoded else ""
        cause = (
            f"a chunk of {plural(big.tokens, 'token')} of request {big.request:,}{depth}{images} "
            f"took {share(big.seconds, self.seconds)} of it"
        )
        if len(step.chunks) > 1:
            others = sum(c.seconds for c in step.chunks if c is not big)
            count = plural(len(step.chunks) - 1, "other chunk")
            cause += f", {count} {share(others, self.seconds)}"
        rest = [
            Part(plural(step.num_decodes, "decode"), step.decodes_s),
            Part("jitter", step.jitter_s),
        ]
        return f"{cause}, {listed(rest, self.seconds)}"

    def _own_cause(self) -> str:
        causes = []
        if self.recomputed_tokens:
            full = next(s for s in self.steps if self.request in s.preempted)
            causes.append(
                f"it was preempted for lack of KV blocks ({plural(full.num_running, 'request')} "
                f"stayed), waited {share(self.waited_s, self.seconds)} for them, and "
                f"{plural(self.recomputed_tokens, 'token')} were computed again"
            )
        if self.skipped_steps:
            causes.append(
                f"the token budget did not reach it in {plural(self.skipped_steps, 'step')}"
            )
        count = plural(len(self.steps), "step")
        return f"{joined(causes)}; what ran in {count}: {listed(self.parts, self.seconds)}"


def worst_gap(scene: Scene) -> GapStory:
    """The longest gap of the run. Raises `InputError` when no request has two tokens."""
    line, own = scene.timeline, scene.done.worst_own_gap
    gaps = np.diff(line.end_s, prepend=0.0)
    gaps[line.num_decodes == 0] = 0.0
    step = int(np.argmax(gaps)) if gaps.size else 0
    if own is not None and own.end_s - own.start_s >= gaps[step]:
        return _own_gap(scene, own)
    if not gaps.size or gaps[step] == 0.0:
        raise InputError("no request of this run has two tokens, so there is no gap to explain")
    record = record_steps(scene, max(step - 1, 0), step)
    return _pooled_gap(scene, record, step, None)


def gap_at(scene: Scene, step: int) -> GapStory:
    """The gap that ends with the output of `step`, of those who decode in it and had a token in the
    step before. Raises `InputError` when there is no such step or nobody did."""
    line = scene.timeline
    if not 0 < step < line.num_steps:
        raise InputError(f"no step {step}; steps 1 to {line.num_steps - 1} can be explained")
    record = record_steps(scene, step - 1, step)
    if not _sharing(scene, record, step).size:
        raise InputError(f"nobody had a token in step {step} and the one before; choose another")
    return _pooled_gap(scene, record, step, None)


def gap_of(scene: Scene, request: int) -> GapStory | None:
    """The longest gap of one request (its index); None when it has fewer than two tokens."""
    ends = token_steps(scene, request)
    if ends.size < 2:
        return None
    times = scene.timeline.end_s[ends]
    worst = int(np.argmax(np.diff(times)))
    if ends[worst + 1] > ends[worst] + 1:
        own = OwnGap(request, float(times[worst]), float(times[worst + 1]))
        return _own_gap(scene, own)
    step = int(ends[worst + 1])
    return _pooled_gap(scene, record_steps(scene, step - 1, step), step, request)


def token_steps(scene: Scene, request: int) -> np.typing.NDArray[np.int64]:
    """(tokens,) the steps that made the tokens of `request`."""
    outcomes, line = scene.done.outcomes, scene.timeline
    out, count = scene.model.frontend_out_s, int(outcomes.output_tokens[request])
    if not np.isfinite(outcomes.finish_s[request]):
        return np.empty(0, dtype=np.int64)
    first = step_ending(line, float(outcomes.first_token_s[request]) - out)
    last = step_ending(line, float(outcomes.finish_s[request]) - out)
    if last - first == count - 1:
        return np.arange(first, last + 1)
    record = record_steps(scene, first, last)
    own = (record.request == request) & (record.tokens > 0)
    reached = record.before[own] + record.tokens[own]
    needed = int(scene.trace.prompt_tokens[request])
    ends: list[int] = []
    for step, tokens in zip(record.step[own], reached, strict=True):
        if tokens == needed + len(ends):
            ends.append(int(step))
    return np.array(ends, dtype=np.int64)


def step_ending(line: Timeline, time_s: float) -> int:
    """The step whose output appeared at `time_s`, but for rounding."""
    i = int(np.searchsorted(line.end_s, time_s))
    near = range(max(i - 1, 0), min(i + 1, line.num_steps - 1) + 1)
    return min(near, key=lambda k: abs(float(line.end_s[k]) - time_s))


def _pooled_gap(scene: Scene, record: StepRecord, step: int, request: int | None) -> GapStory:
    """The gap that the decodes of `step` share; that of the first of them unless one is named.

    Whoever decodes in `step` and had tokens in the step before has exactly this gap.
    """
    line = scene.timeline
    if request is None:
        request = int(_sharing(scene, record, step)[0])
    gap = OwnGap(request, float(line.end_s[step - 1]), float(line.end_s[step]))
    return _story(gap, view_steps(scene, record, [step], request), int(line.num_decodes[step]) - 1)


def _sharing(scene: Scene, record: StepRecord, step: int) -> np.typing.NDArray[np.int64]:
    """Who decodes in `step` and was in the step before."""
    at, before = record.step == step, record.request[record.step == step - 1]
    decodes = record.before[at] >= scene.trace.prompt_tokens[record.request[at]]
    return np.intersect1d(record.request[at][decodes], before)


def _own_gap(scene: Scene, gap: OwnGap) -> GapStory:
    """A gap of one request alone: it was preempted, or left out of steps."""
    first, last = (step_ending(scene.timeline, t) for t in (gap.start_s, gap.end_s))
    record = record_steps(scene, first, last)
    return _story(gap, view_steps(scene, record, range(first + 1, last + 1), gap.request), 0)


def _story(gap: OwnGap, steps: list[StepView], num_sharing: int) -> GapStory:
    """What happened to the request in the steps of its gap."""
    number = gap.request + 1
    lost = [i for i, s in enumerate(steps) if number in s.preempted]
    back = [i for i, s in enumerate(steps) if s.own_tokens and lost and i >= lost[0]]
    waiting = range(lost[0], back[0]) if lost and back else range(0)
    again = [steps[i].own_tokens for i in back]
    return GapStory(
        request=number,
        start_s=gap.start_s,
        end_s=gap.end_s,
        num_sharing=num_sharing,
        waited_s=sum(steps[i].seconds for i in waiting),
        recomputed_tokens=sum(again),
        skipped_steps=sum(s.own_tokens == 0 for i, s in enumerate(steps) if i not in waiting),
        parts=parts_of(steps),
        steps=steps,
    )
