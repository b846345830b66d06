"""The worst moments of a simulated run, and the steps around one of them."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard.derive.measured_steps import similar_steps
from dashboard.derive.points import opened, problem_of, simulated
from dashboard.derive.replayed import replays_of
from profiler.engine_config import EngineConfig
from profiler.engines.base import Progress
from profiler.errors import InputError
from tuner.explain import GapStory, Scene, StepView, TtftStory, explain
from tuner.explain.first_token import ttft_of
from tuner.explain.gap import token_steps
from tuner.explain.steps import record_steps, view_steps
from tuner.search.objective import REFUSED, Problem
from tuner.search.settings import resolve

NUM_WORST = 8
APART = 100
"""the worst ones listed are at least this part of the traffic's time from each other"""
BEFORE, AFTER, MOST_STEPS = 10, 6, 60
"""steps shown around what is explained, and in all"""
LEAST_NEAR_S = 0.05
"""steps further from a gap than its own length, and than this, are not shown"""
MOST_GAPS = 2000
"""gaps of a request that are kept: the first ones"""

FloatArray = npt.NDArray[np.float64]
Plain = dict[str, Any]


def spikes(folder: Path, settings: Plain, *, progress: Progress) -> Plain:
    """The longest gaps and the latest first tokens of one engine, at different times.

    Returns
    -------
    {"refused": why} or `requests` and `gaps` and `ttfts`: each with `what` (as `explain` takes it),
    `at_s`, `seconds` and, of gaps, `tokens` of prompts and `decodes` in the step, of TTFTs,
    `prompt_tokens`.
    """
    progress(0, 1)
    try:
        scene = _scene(folder, settings)
        refuse_drafts(scene)
    except (InputError, *REFUSED) as error:
        return {"refused": str(error)}
    line, outcomes = scene.timeline, scene.done.outcomes
    gaps = np.diff(line.end_s, prepend=0.0)
    gaps[line.num_decodes == 0] = 0.0
    gaps[:1] = 0.0
    apart_s = max(1.0, scene.trace.duration_s / APART)
    ttft = outcomes.first_token_s - outcomes.arrival_s
    return {
        "requests": scene.trace.num_requests,
        "gaps": [
            {
                "what": f"step:{k}",
                "at_s": float(line.end_s[k]),
                "seconds": float(gaps[k]),
                "tokens": int(line.prefill_tokens[k]),
                "decodes": int(line.num_decodes[k]),
            }
            for k in worst(gaps, line.end_s, apart_s)
        ],
        "ttfts": [
            {
                "what": f"request:{i + 1}",
                "at_s": float(outcomes.arrival_s[i]),
                "seconds": float(ttft[i]),
                "prompt_tokens": int(scene.trace.prompt_tokens[i]),
            }
            for i in worst(np.nan_to_num(ttft, nan=0.0), outcomes.arrival_s, apart_s)
        ],
    }


def worst(values: FloatArray, at_s: FloatArray, apart_s: float) -> list[int]:
    """Indices of the `NUM_WORST` largest values above 0, largest first, whose times are at least
    `apart_s` from those of larger ones.

    Parameters
    ----------
    values, at_s
        (N,) each.
    """
    left = values.copy()
    found: list[int] = []
    while left.size and len(found) < NUM_WORST:
        i = int(np.argmax(left))
        if left[i] <= 0:
            break
        found.append(i)
        left[np.abs(at_s - at_s[i]) < apart_s] = 0.0
    return found


def story(folder: Path, settings: Plain, what: str, *, progress: Progress) -> Plain:
    """What happened around a spike.

    Parameters
    ----------
    what
        As `tuner.explain.explain` takes it.

    Returns
    -------
    {"refused": why} or `request` (its number), `stories` (see `_shown`), `waterfall` (what,
    start_s after arrival, seconds), `gaps_s` of its tokens in order, `output_tokens`, `similar`
    (see `similar_steps`) and `replays` of the request (see `_replayed`).
    """
    progress(0, 3)
    try:
        scene = _scene(folder, settings)
        stories = explain(scene, what)
    except (InputError, *REFUSED) as error:
        return {"refused": str(error)}
    progress(1, 3)
    number = stories[0].request
    shown = [_shown(scene, one) for one in stories]
    progress(2, 3)
    longest = max((s for one in stories for s in one.steps), key=lambda s: s.seconds)
    ends = scene.timeline.end_s[token_steps(scene, number - 1)]
    return {
        "request": number,
        "requests": scene.trace.num_requests,
        "stories": shown,
        "waterfall": waterfall(scene, number - 1),
        "gaps_s": [float(f"{gap:.5g}") for gap in np.diff(ends)[:MOST_GAPS]],
        "output_tokens": int(scene.done.outcomes.output_tokens[number - 1]),
        "similar": similar_steps(opened(folder).measured, longest),
        "replays": _replayed(folder, settings, number - 1),
    }


def refuse_drafts(scene: Scene) -> None:
    """Raise `InputError` for a configuration that `explain` does not take."""
    if scene.config.num_speculative_tokens:
        explain(scene, "worst-itl")


def _scene(folder: Path, settings: Plain) -> Scene:
    problem = problem_of(folder)
    assert isinstance(problem, Problem)  # pages ask for one engine alone
    config = EngineConfig.from_settings(settings)
    return Scene(
        trace=problem.trace,
        model=problem.model,
        config=resolve(config, problem.resolved),
        done=simulated(folder, settings),
        rerun=partial(problem.simulate, config),
    )


def _around(scene: Scene, one: GapStory | TtftStory) -> tuple[float, float, int, int]:
    """Start and end of what is explained, and the first and the last step to be shown with it."""
    line, own = scene.timeline, one.steps
    if isinstance(one, GapStory):
        start_s, end_s, first = one.start_s, one.end_s, own[0].number - BEFORE
    else:
        start_s, end_s, first = one.arrival_s, one.arrival_s + one.seconds, 0
    near_s = max(LEAST_NEAR_S, one.seconds) if isinstance(one, GapStory) else 0.0
    first = max(first, int(np.searchsorted(line.end_s, start_s - near_s)))
    near_s = max(LEAST_NEAR_S, one.seconds)
    last = min(own[-1].number + AFTER, int(np.searchsorted(line.start_s, end_s + near_s)) - 1)
    return start_s, end_s, min(first, own[0].number), max(last, own[-1].number)


def _shown(scene: Scene, one: GapStory | TtftStory) -> Plain:
    """`kind` (gap or ttft), `sentence`, `seconds`, `start_s`, `end_s`, `request`, whether steps
    were left out (`cut`), its `tokens_s`, and `steps`: `StepView` with some before and after."""
    line, request = scene.timeline, one.request - 1
    start_s, end_s, first, last = _around(scene, one)
    begin = max(first, last - MOST_STEPS + 1)
    record = record_steps(scene, begin, last)
    views = view_steps(scene, record, range(begin, last + 1), request)
    ends = line.end_s[token_steps(scene, request)]
    inside = (ends >= views[0].start_s - 1e-9) & (ends <= views[-1].end_s + 1e-9)
    return {
        "kind": "gap" if isinstance(one, GapStory) else "ttft",
        "sentence": one.sentence,
        "request": one.request,
        "seconds": float(one.seconds),
        "start_s": float(start_s),
        "end_s": float(end_s),
        "cut": begin > first,
        "tokens_s": [float(t) for t in ends[inside]],
        "steps": [_plain(view) for view in views],
    }


def _plain(view: StepView) -> Plain:
    return {**asdict(view), "seconds": float(view.seconds)}


def waterfall(scene: Scene, request: int) -> list[Plain]:
    """From a request's arrival to its last token, part after part; those of no length left out."""
    one, outcomes, model = ttft_of(scene, request), scene.done.outcomes, scene.model
    chunks = f"{len(one.steps):,} step{'s' if len(one.steps) != 1 else ''} with its chunks"
    tokens = int(outcomes.output_tokens[request])
    parts = [
        ("to the engine", model.frontend_in_s),
        ("in the queue", one.queue_s),
        ("step in flight", one.in_flight_s),
        (chunks, one.steps_s),
        ("to the client", model.frontend_out_s),
        (f"{tokens - 1:,} more tokens", float(outcomes.finish_s[request]) - one.arrival_s),
    ]
    found, at_s = [], 0.0
    for place, (what, seconds) in enumerate(parts):
        if place == len(parts) - 1:  # until then: the time of the last token
            seconds = seconds - at_s
        if np.isfinite(seconds) and seconds > 1e-7:
            found.append({"what": what, "start_s": at_s, "seconds": float(seconds)})
            at_s += float(seconds)
    return found


def _replayed(folder: Path, settings: Plain, request: int) -> list[Plain]:
    """Of each kept replay: `ttft_s` and `finish_s` after arrival of the request, as seen, as
    `predicted_ttft_s` and `predicted_finish_s`, and the machine's `speed`; None for none."""
    kept = replays_of(folder, settings)
    if kept is None or request >= kept.trace.num_requests:
        return []
    found = []
    for saved, predicted in zip(kept.saved, kept.predicted, strict=True):
        one: Plain = {"speed": float(saved.facts["speed"])}
        for prefix, outcomes in (("", saved.raw), ("predicted_", predicted)):
            for name, at_s in (("ttft", outcomes.first_token_s), ("finish", outcomes.finish_s)):
                seconds = float(at_s[request] - outcomes.arrival_s[request])
                one[f"{prefix}{name}_s"] = seconds if np.isfinite(seconds) else None
        found.append(one)
    return found
