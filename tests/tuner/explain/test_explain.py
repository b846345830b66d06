"""Explanations: cases whose answer is known, every random case, and a real trace."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.errors import InputError
from profiler.latency.base import load_latency_model
from profiler.latency.step_time import BatchShape, step_interval
from profiler.steps import AFTER_CHUNKS
from profiler.traffic.images import Images
from profiler.traffic.readers import read_trace
from profiler.traffic.trace import Trace
from tuner.explain import GapStory, Scene, TtftStory, explain
from tuner.explain.first_token import BLOCKS, BUDGET, NO_SLOT
from tuner.simulator import simulate
from tuner.simulator.difftest.cases import random_case
from tuner.simulator.difftest.compare import MODEL

CONFIG = EngineConfig(
    max_num_batched_tokens=256,
    max_num_seqs=8,
    max_model_len=1024,
    block_size=16,
    enable_prefix_caching=False,
    scheduler_reserve_full_isl=False,
    async_scheduling=False,
)


def scene_of(trace: Trace, config: EngineConfig, num_kv_blocks: int, model: Any = MODEL) -> Scene:
    run = functools.partial(simulate, trace, config, model, num_kv_blocks=num_kv_blocks)
    return Scene(trace, model, config, run(timeline=True), run)


def small(rows: list[tuple[float, int, int]], num_kv_blocks: int = 200, **change: Any) -> Scene:
    config = dataclasses.replace(CONFIG, **change)
    return scene_of(Trace.build(*zip(*rows, strict=True)), config, num_kv_blocks)


def gap_story(scene: Scene, what: str = "worst-itl") -> GapStory:
    story = explain(scene, what)[-1]
    assert isinstance(story, GapStory)
    return story


def ttft_story(scene: Scene, what: str = "worst-ttft") -> TtftStory:
    story = explain(scene, what)[0]
    assert isinstance(story, TtftStory)
    return story


@pytest.mark.parametrize("overlapped", [False, True])
def test_a_gap_is_blamed_on_the_chunk_that_made_it(overlapped: bool) -> None:
    """Request 1 decodes while request 2 takes its 1,000 tokens, 255 a step; the third chunk reads
    the most context of the whole ones. With MODEL the first, cold one would take longest."""
    trace = Trace.build([0.0, 0.1], [10, 1000], [60, 1])
    config = dataclasses.replace(CONFIG, async_scheduling=overlapped)
    params = MODEL.params._replace(cold_prefill_s=0.0, cold_decode_s=0.0)
    model = dataclasses.replace(MODEL, params=params)
    scene = scene_of(trace, config, 200, model)
    story = gap_story(scene)
    step = story.steps[0]
    assert (story.request, story.num_sharing, len(story.steps)) == (1, 0, 1)
    assert [(c.request, c.tokens, c.before) for c in step.chunks] == [(2, 255, 510)]
    context = int(scene.timeline.decode_context[step.number])
    with_chunk = BatchShape(255, 1, 255 * (510 + 128.0), 510, 1, context, AFTER_CHUNKS)
    without = BatchShape(0, 0, 0.0, 0, 1, context, AFTER_CHUNKS)
    expected, base = (
        step_interval(params, batch, 2, overlapped) for batch in (with_chunk, without)
    )
    assert step.chunks[0].seconds == pytest.approx(expected - base)
    assert story.seconds == pytest.approx(expected)
    assert "a chunk of 255 tokens of request 2 (after 510 computed) took" in story.sentence


def test_two_chunks_share_their_step() -> None:
    scene = small([(0.0, 10, 60), (0.1, 60, 2), (0.1, 120, 2)])
    step = gap_story(scene).steps[0]
    assert [(c.request, c.tokens) for c in step.chunks] == [(2, 60), (3, 120)]
    short, long = (c.seconds for c in step.chunks)
    assert 0 < short < long
    assert short + long + step.decodes_s == pytest.approx(step.seconds)


def test_a_preempted_request_is_told_so() -> None:
    """7 usable blocks of 16: both prompts take 3, and both outputs grow past the pool."""
    scene = small([(0.0, 40, 40), (0.0, 40, 40)], num_kv_blocks=8)
    story = gap_story(scene)
    assert story.request == 2
    assert 2 in story.steps[0].preempted
    assert story.waited_s > 0.9 * story.seconds
    assert story.recomputed_tokens == 40 + int(np.sum(scene.timeline.num_decodes[:30] == 2)) + 1
    assert "preempted for lack of KV blocks (1 request stayed)" in story.sentence
    assert gap_story(scene, "request:2") == story
    assert len(gap_story(scene, "request:1").steps) == 1


def test_a_starved_request_is_told_so() -> None:
    """When requests 3 and 4 have finished, the adaptive cap lets the prompt of request 1 have all
    eight tokens of a step."""
    scene = small(
        [(0.0, 200, 2), (0.0, 2, 30), (0.0, 2, 5), (0.0, 2, 5)],
        max_num_batched_tokens=16,
        max_num_scheduled_tokens=8,
        long_prefill_token_threshold=2,
        long_prefill_token_threshold_adaptive=True,
    )
    story = gap_story(scene)
    assert story.request == 2
    assert story.skipped_steps > 10
    assert all(c.request == 1 for s in story.steps for c in s.chunks)
    assert story.recomputed_tokens == 0
    assert "the token budget did not reach it in" in story.sentence


@pytest.mark.parametrize(
    ("rows", "change", "cause"),
    [
        ([(0.0, 100, 50), (0.01, 100, 2)], {"max_num_seqs": 1}, NO_SLOT),
        ([(0.0, 1000, 2), (0.001, 100, 2)], {}, BUDGET),
        ([(0.0, 800, 100), (0.05, 900, 2)], {"scheduler_reserve_full_isl": True}, BLOCKS),
    ],
)
def test_the_queue_says_why(
    rows: list[tuple[float, int, int]], change: dict[str, Any], cause: str
) -> None:
    story = ttft_story(small(rows, num_kv_blocks=80, **change))
    assert story.request == 2
    assert max(story.causes, key=lambda c: c.seconds).what == cause
    assert cause in story.sentence
    assert story.queue_s > 0.3 * story.seconds
    assert sum(s.own_tokens for s in story.steps) == rows[1][1]


def test_a_lone_request_has_no_queue() -> None:
    story = ttft_story(small([(0.0, 600, 2)]))
    assert [s.own_tokens for s in story.steps] == [256, 256, 88]
    assert (story.queue_s, story.num_ahead, story.preemptions) == (0.0, 0, 0)
    assert "256, 256 and 88 tokens" in story.sentence
    assert "decode" not in " ".join(p.what for p in story.parts)


def test_images_are_part_of_their_chunk() -> None:
    """Request 1 decodes while the encoder computes 150 image tokens for the prompt of request 2."""
    images = Images.of_rows([[], [(10, 150, 7)]])
    trace = Trace.build([0.0, 0.1], [10, 200], [60, 2], images=images)
    model = dataclasses.replace(MODEL, params=MODEL.params._replace(encoder_token_s=1e-3))
    story = gap_story(scene_of(trace, CONFIG, 200, model))
    (chunk,) = story.steps[0].chunks
    assert (chunk.request, chunk.tokens, chunk.encoded) == (2, 200, 150)
    assert chunk.seconds > 0.15
    assert abs(story.steps[0].jitter_s) < 1e-9
    assert "of request 2 with 150 image tokens encoded took" in story.sentence


def test_drafts_are_refused_in_one_line() -> None:
    trace = Trace.build([0.0], [10], [60], acceptance_rate=[0.5])
    config = dataclasses.replace(CONFIG, num_speculative_tokens=2)
    with pytest.raises(InputError, match="got num_speculative_tokens=2; set it to 0"):
        explain(scene_of(trace, config, 200), "worst-itl")


@pytest.mark.parametrize("seed", range(80))
def test_every_explanation_adds_up(seed: int) -> None:
    """The worst gap is the largest of the outcomes; parts sum to what they explain; without jitter
    the latency model predicts every step from its chunks and decodes."""
    case = random_case(seed, speculative=False)
    scene = scene_of(case.trace, case.config, case.num_kv_blocks)
    outcomes = scene.done.outcomes
    gaps = outcomes.gap_s[outcomes.gap_weight[:, 0] > 0]
    if scene.done.endless or gaps.size == 0:
        return
    story = gap_story(scene)
    assert story.seconds == pytest.approx(gaps.max(), rel=1e-6)
    assert story.seconds == pytest.approx(sum(s.seconds for s in story.steps), abs=1e-9)
    alone = scene.done.worst_own_gap
    if alone is not None and alone.end_s - alone.start_s == story.seconds:
        assert story.recomputed_tokens or story.skipped_steps
    late = ttft_story(scene)
    pieces = late.frontend_s + late.queue_s + late.in_flight_s + late.steps_s
    assert late.seconds == pytest.approx(pieces, abs=1e-9)
    assert late.queue_s == pytest.approx(sum(c.seconds for c in late.causes), abs=1e-9)
    for step in (*story.steps, *late.steps):
        chunks = sum(c.seconds for c in step.chunks)
        assert step.seconds == pytest.approx(chunks + step.decodes_s + step.jitter_s)
        prompt = case.trace.prompt_tokens
        recomputed = any(c.tokens == 1 and c.before >= prompt[c.request - 1] for c in step.chunks)
        assert recomputed or abs(step.jitter_s) < 1e-9


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_the_worst_request_has_the_worst_gap(seed: int) -> None:
    """Asking for the request gives what asking for the worst gap gave."""
    case = random_case(seed, speculative=False)
    scene = scene_of(case.trace, case.config, case.num_kv_blocks)
    if scene.done.endless or not scene.done.outcomes.gap_weight.sum():
        return
    story = gap_story(scene)
    again = gap_story(scene, f"request:{story.request}")
    assert again.seconds == pytest.approx(story.seconds, rel=1e-9)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("worst-tpot", "give worst-itl, worst-ttft, request:N or step:K"),
        ("request:4", "requests 1 to 3"),
        ("request:3", "request 3 got no token"),
        ("worst-itl", "no gap to explain"),
    ],
)
def test_what_cannot_be_explained_is_one_line(what: str, words: str) -> None:
    scene = small([(0.0, 10, 1), (0.1, 10, 1), (0.2, 2000, 1)])
    with pytest.raises(InputError, match=words):
        explain(scene, what)


def test_a_spike_of_the_azure_trace(azure_trace_path: Path) -> None:
    """vLLM's server defaults: the worst gap of the hour is one chunk as large as the budget."""
    trace = read_trace(azure_trace_path).trace
    config = EngineConfig(
        max_num_batched_tokens=8192,
        max_num_seqs=1024,
        max_model_len=16384,
        block_size=16,
        enable_prefix_caching=False,
        async_scheduling=True,
    )
    scene = scene_of(trace, config, 55_170, load_latency_model("example-8b"))
    story = gap_story(scene)
    step = story.steps[0]
    assert story.seconds == pytest.approx(scene.done.outcomes.gap_s.max(), rel=1e-4)
    assert len(step.chunks) == 1
    chunk = step.chunks[0]
    assert chunk.tokens + step.num_decodes == 8192
    assert trace.prompt_tokens[chunk.request - 1] >= chunk.before + chunk.tokens
    assert chunk.seconds > 0.9 * story.seconds
    assert story.num_sharing == step.num_decodes - 1


def test_a_gap_by_its_step() -> None:
    """The longest gap's own step gives the same story; a step without a shared gap is refused."""
    scene = small([(0.0, 16, 40), (0.5, 200, 4)])
    worst = gap_story(scene)
    assert gap_story(scene, f"step:{worst.steps[0].number}") == worst
    with pytest.raises(InputError, match="no step 0"):
        explain(scene, "step:0")
    alone = small([(0.0, 16, 2), (50.0, 16, 2)])
    first = int(np.searchsorted(alone.timeline.end_s, 50.0))
    with pytest.raises(InputError, match="nobody had a token"):
        explain(alone, f"step:{first}")
