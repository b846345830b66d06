"""A real vLLM that rehearses; one engine for all but the last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import EngineSpec, Requests
from profiler.engines.rehearsal.driver import RehearsalEngine
from profiler.engines.vllm.session import session_members
from profiler.errors import EngineDiedError, EngineHungError
from profiler.latency.base import load_latency_model

pytestmark = pytest.mark.engine

MODEL = Path(__file__).parents[3] / "studies/models/tiny-llama"
SPEC = EngineSpec(
    "rehearsal",
    str(MODEL),
    EngineConfig(max_num_batched_tokens=512, max_model_len=1024, num_gpu_blocks_override=120),
    engine_args={"latency_model": "example-8b", "tensor_parallel_size": 8},
)
LONG = Requests(np.arange(40) * 0.1, np.full(40, 50), np.full(40, 400))


def start(spec: EngineSpec = SPEC) -> RehearsalEngine:
    engine = start_engine(spec)
    assert isinstance(engine, RehearsalEngine)
    return engine


@pytest.fixture(scope="module")
def engine() -> Iterator[RehearsalEngine]:
    with start() as started:
        yield started


def core_of(engine: RehearsalEngine) -> psutil.Process:
    found = session_members(engine.session)
    return next(p for p in found if "EngineCore" in " ".join(p.cmdline()))


def test_it_says_what_it_is(engine: RehearsalEngine) -> None:
    facts = engine.facts
    assert (facts.engine, facts.device) == ("rehearsal", "rehearsed: one H200")
    assert facts.resolved.async_scheduling is True  # as on a GPU; vLLM's CPU build switches it off
    assert facts.resolved.block_size == 16
    assert facts.resolved.max_num_seqs == 512
    assert facts.num_kv_blocks == 120


def test_steps_take_the_latency_models_time(engine: RehearsalEngine) -> None:
    """What the worker, in plain Python, made of vLLM's batches equals what the compiled model says
    of the recorded steps; preempted requests are recomputed and lose no token."""
    engine.take_steps()
    rng = np.random.default_rng(2)
    outputs = rng.integers(1, 60, 40)
    requests = Requests(np.zeros(40), rng.integers(50, 600, 40), outputs)
    times = engine.replay(requests)
    steps = engine.take_steps()
    assert [t.size for t in times.token_s] == outputs.tolist()
    # 120 blocks of 16 tokens hold a few of these requests: some were preempted and computed again
    assert steps.prefill_tokens.sum() > requests.prompt_tokens.sum()
    late = times.late_steps
    assert late is not None
    assert late.num_steps == steps.num_steps
    predicted = load_latency_model("example-8b").predict(steps, overlapped=True)
    assert late.modelled_s == pytest.approx(predicted.sum(), rel=1e-9)
    # no step is shorter than the model says, but for the overshoot of the sleep before it
    busy = np.isfinite(steps.interval_s)
    assert steps.interval_s[busy].sum() >= 0.9 * predicted[busy].sum()


def test_a_hung_engine_is_given_up_after_the_deadline(engine: RehearsalEngine) -> None:
    core = core_of(engine)  # keep this the engine's last test

    def hang(done: int, total: int) -> None:
        if core.is_running():
            core.suspend()

    with pytest.raises(EngineHungError, match=r"no token for \d+\.\d s \(deadline_s = 2\)"):
        engine.replay(LONG, deadline_s=2.0, progress=hang)
    assert session_members(engine.session) == []


def test_a_killed_engine_is_reported() -> None:
    synchronous = replace(SPEC.config, async_scheduling=False)
    with start(replace(SPEC, config=synchronous)) as engine:
        assert engine.facts.resolved.async_scheduling is False
        assert engine.replay(replace_all(LONG, 2)).failed.sum() == 0
        core = core_of(engine)

        def kill(done: int, total: int) -> None:
            if core.is_running():
                core.kill()

        with pytest.raises(EngineDiedError, match=r"(?i)in the middle of a replay: .*engine ?core"):
            engine.replay(LONG, deadline_s=60.0, progress=kill)
        assert session_members(engine.session) == []


def replace_all(requests: Requests, output_tokens: int) -> Requests:
    """The same requests, all at once, with this many output tokens."""
    count = requests.arrival_s.size
    return replace(requests, arrival_s=np.zeros(count), output_tokens=np.full(count, output_tokens))
