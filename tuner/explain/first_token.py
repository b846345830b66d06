"""Why a first token was late: the front end, the queue, and the steps with the prompt's chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiler.errors import InputError
from tuner.explain.gap import step_ending
from tuner.explain.steps import Part, Scene, StepView, parts_of, record_steps, view_steps
from tuner.explain.words import duration, joined, listed, plural, share
from tuner.simulator.build import build_limits

NO_SLOT = "no free slot"
BUDGET = "the step's token budget was used up"
BLOCKS = "too few free KV blocks"
NOT_YET = "until the next schedule() call"
UNCHUNKED = "the prompt did not fit the rest of the step, or too few free KV blocks"


@dataclass(frozen=True)
class TtftStory:
    """One first token. Requests are numbered from 1 in order of arrival."""

    request: int
    seconds: float
    """TTFT"""
    arrival_s: float
    prompt_tokens: int
    frontend_s: float
    """client and front end, both ways"""
    queue_s: float
    """visible to the scheduler, not admitted yet"""
    num_ahead: int
    """requests admitted while it waited"""
    causes: list[Part]
    """why nobody more was admitted, while it waited"""
    in_flight_s: float
    """admitted, until its first step began: the step before was still running"""
    steps_s: float
    """from its first step to the first token"""
    preemptions: int
    """before the first token"""
    parts: list[Part]
    """what the time of those steps went into"""
    steps: list[StepView]

    @property
    def sentence(self) -> str:
        """TTFT and its causes in one sentence."""
        waits = [
            Part("front end", self.frontend_s),
            Part("waiting for the step in flight", self.in_flight_s),
        ]
        if [c.what for c in self.causes] == [NOT_YET]:
            waits.append(Part("waiting for the next schedule() call", self.queue_s))
            pieces = [listed(waits, self.seconds)]
        else:
            pieces = [self._queue(), listed(waits, self.seconds)]
        return (
            f"The first token of request {self.request:,} took {duration(self.seconds)}, after its "
            f"arrival at {self.arrival_s:,.1f} s: "
            f"{', '.join(piece for piece in [*pieces, self._own()] if piece)}."
        )

    def _queue(self) -> str:
        waited, ahead = share(self.queue_s, self.seconds), plural(self.num_ahead, "other")
        return (
            f"{waited} in the queue while {ahead} went first ({listed(self.causes, self.queue_s)})"
        )

    def _own(self) -> str:
        sizes = [s.own_tokens for s in self.steps if s.own_tokens]
        text = f"{share(self.steps_s, self.seconds)} in {plural(len(self.steps), 'step')}"
        shown = joined([f"{n:,}" for n in sizes[:4]]) + (", ..." if len(sizes) > 4 else "")
        text += f" with {'chunks' if len(sizes) > 1 else 'a chunk'} of {shown} tokens"
        if self.preemptions:
            text += f", {plural(self.preemptions, 'preemption')} between them"
        return f"{text}: {listed(self.parts, self.steps_s)}"


def worst_ttft(scene: Scene) -> TtftStory:
    """The latest first token of the run. Raises `InputError` when there is none."""
    outcomes = scene.done.outcomes
    ttft = outcomes.first_token_s - outcomes.arrival_s
    if not np.isfinite(ttft).any():
        raise InputError("no request of this run got a token, so there is no TTFT to explain")
    return ttft_of(scene, int(np.nanargmax(ttft)))


def ttft_of(scene: Scene, request: int) -> TtftStory:
    """Where the TTFT of one request (its index) went. It must have a first token."""
    outcomes, model, line = scene.done.outcomes, scene.model, scene.timeline
    admitted = float(scene.done.admitted_s[request])
    visible = float(outcomes.arrival_s[request]) + model.frontend_in_s
    token_s = float(outcomes.first_token_s[request]) - model.frontend_out_s
    first = int(np.searchsorted(line.schedule_s, admitted))
    last = step_ending(line, token_s)
    record = record_steps(scene, first, last)
    steps = view_steps(scene, record, range(first, last + 1), request)
    return TtftStory(
        request=request + 1,
        seconds=float(outcomes.first_token_s[request] - outcomes.arrival_s[request]),
        arrival_s=float(outcomes.arrival_s[request]),
        prompt_tokens=int(scene.trace.prompt_tokens[request]),
        frontend_s=model.frontend_in_s + model.frontend_out_s,
        queue_s=admitted - visible,
        num_ahead=int(np.sum((scene.done.admitted_s >= visible) & _before(scene, request))),
        causes=_causes(scene, visible, first),
        in_flight_s=steps[0].start_s - admitted,
        steps_s=token_s - steps[0].start_s,
        preemptions=sum(request + 1 in s.preempted for s in steps),
        parts=parts_of(steps),
        steps=steps,
    )


def _before(scene: Scene, request: int) -> np.typing.NDArray[np.bool_]:
    """(N,) who was admitted before `request`: earlier, or earlier in the same schedule() call."""
    admitted = scene.done.admitted_s
    same = admitted == admitted[request]
    same[request:] = False
    before: np.typing.NDArray[np.bool_] = (admitted < admitted[request]) | same
    return before


def _causes(scene: Scene, visible_s: float, first: int) -> list[Part]:
    """Why each schedule() call from `visible_s` to before step `first` admitted nobody more.

    Under asynchronous scheduling the first of them is up to a whole step after `visible_s`. The
    waiting queue is strict: the first request that does not fit ends the pass
    (`Scheduler.schedule` of vLLM 0.32), so the cause is that of whoever was at its head.
    """
    line = scene.timeline
    limits = build_limits(scene.config, 2)
    start = int(np.searchsorted(line.schedule_s, visible_s))
    spent = {NOT_YET: float(line.schedule_s[start]) - visible_s}
    for k in range(start, first):
        if line.num_running[k] >= limits.max_active:
            cause = NO_SLOT
        elif line.prefill_tokens[k] + line.num_decodes[k] >= limits.token_budget:
            cause = BUDGET
        else:
            cause = BLOCKS if limits.chunked else UNCHUNKED
        waited = float(line.schedule_s[k + 1] - line.schedule_s[k])
        spent[cause] = spent.get(cause, 0.0) + waited
    return [Part(what, s) for what, s in sorted(spent.items(), key=lambda x: -x[1])]
