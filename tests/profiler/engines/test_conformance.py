"""What every engine must do. Each implementation runs all of it, on one started engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.engines import start_engine
from profiler.engines.base import Engine, EngineSpec, Requests
from profiler.engines.vllm.driver import VllmEngine
from profiler.engines.vllm.session import session_members
from profiler.errors import EngineDiedError
from profiler.knobs import KNOBS
from profiler.kv_transfer import KvShape, kv_shape_of

MODEL = Path(__file__).parents[3] / "studies/models/tiny-llama"
CONFIG = EngineConfig(max_num_batched_tokens=512, max_num_seqs=16, max_model_len=2048)

VLLM = EngineSpec(
    "vllm",
    str(MODEL),
    CONFIG,
    load_format="dummy",
    dtype="float32",
    engine_args={"enforce_eager": True},
)


REHEARSAL = EngineSpec(
    "rehearsal",
    str(MODEL),
    replace(CONFIG, num_gpu_blocks_override=4000),
    dtype="float32",
    engine_args={"latency_model": "example-8b"},
)
SPECS = {"fake": EngineSpec("fake", str(MODEL), CONFIG), "vllm": VLLM, "rehearsal": REHEARSAL}


@pytest.fixture(
    scope="module",
    params=["fake", *(pytest.param(n, marks=pytest.mark.engine) for n in ("vllm", "rehearsal"))],
)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with start_engine(SPECS[request.param]) as started:
        yield started


def some_requests(seed: int, *, count: int = 24, step_budget: int | None = None) -> Requests:
    rng = np.random.default_rng(seed)
    return Requests(
        arrival_s=np.sort(rng.uniform(0.0, 0.5, count)),
        prompt_tokens=rng.integers(1, 900, count),
        output_tokens=rng.integers(1, 12, count),
        step_budget=step_budget,
        seed=seed,
    )


def test_facts_are_complete(engine: Engine) -> None:
    facts = engine.facts
    settings = facts.resolved.settings()
    assert set(settings) == set(KNOBS) - {"speculative_method"}  # the rest is resolved, that is off
    assert {name: settings[name] for name in CONFIG.settings()} == CONFIG.settings()
    assert settings["max_num_scheduled_tokens"] == 512
    assert settings["max_num_active_seqs"] == 16
    assert facts.num_kv_blocks == settings["num_gpu_blocks_override"] > 1
    assert facts.version and facts.device and facts.host["processor"]
    assert facts.model == str(MODEL)
    wanted = {"num_layers": 4, "num_heads": 8, "num_kv_heads": 4, "head_size": 32}
    assert wanted.items() <= facts.model_shape.items()
    assert facts.model_shape["hidden_size"] == 256
    assert facts.model_shape["vocab_size"] == 4096
    assert facts.model_shape["dtype"] == "float32"
    assert kv_shape_of(facts.model_shape) == KvShape(4, 4, 2 * 4 * 32 * 4)


def test_every_request_gets_its_tokens_in_order(engine: Engine) -> None:
    requests = some_requests(1)
    seen: list[tuple[int, int]] = []
    times = engine.replay(requests, progress=lambda done, total: seen.append((done, total)))
    assert [t.size for t in times.token_s] == requests.output_tokens.tolist()
    assert not times.failed.any()
    assert np.array_equal(times.intended_s, requests.arrival_s)
    assert np.array_equal(times.prompt_tokens, requests.prompt_tokens)
    assert np.all(times.sent_s >= times.intended_s)
    for sent_s, token_s in zip(times.sent_s, times.token_s, strict=True):
        assert np.all(np.diff([sent_s, *token_s]) >= 0)
        assert token_s[0] > sent_s
    assert seen[-1] == (24, 24)
    assert seen == sorted(seen)


def test_steps_account_for_every_token(engine: Engine) -> None:
    engine.take_steps()
    requests = some_requests(2)
    for _ in range(2):  # the same prompts again find nothing in a prefix cache
        times = engine.replay(requests)
        steps = engine.take_steps()
        assert steps.prefill_tokens.sum() == requests.prompt_tokens.sum()
        assert steps.num_decodes.sum() == (requests.output_tokens - 1).sum()
        assert np.all(steps.prefill_tokens + steps.num_decodes <= 512)
        assert np.all(steps.prefill_tokens + steps.num_decodes > 0)
        assert np.all(steps.num_running <= 16)
        assert np.all(steps.free_blocks < engine.facts.num_kv_blocks)
        assert np.all(steps.exec_s > 0)
        busy = ~np.isnan(steps.interval_s)
        assert np.all(steps.interval_s[busy] >= steps.exec_s[busy])
        assert not busy[0] and busy.any()
        assert np.all(np.diff(steps.start_s) > 0)
        last_token_s = max(t[-1] for t in times.token_s)
        assert times.origin_s <= steps.start_s[0] <= times.origin_s + last_token_s
        assert steps.start_s[-1] + steps.exec_s[-1] <= times.origin_s + last_token_s
    assert engine.take_steps().num_steps == 0


def test_shapes_of_a_single_request(engine: Engine) -> None:
    engine.take_steps()
    engine.replay(Requests(np.zeros(1), np.array([700]), np.array([3])))
    steps = engine.take_steps()
    assert steps.prefill_tokens.tolist() == [512, 188, 0, 0]
    assert steps.chunk_context.tolist() == [0, 512, 0, 0]
    assert steps.num_prefills.tolist() == [1, 1, 0, 0]
    assert steps.num_decodes.tolist() == [0, 0, 1, 1]
    assert steps.decode_context.tolist() == [0, 0, 700, 701]
    assert steps.attention_pairs.tolist() == [512 * 513 / 2, 188 * (512 + 189 / 2), 0, 0]


def test_step_budget_is_obeyed_and_restored(engine: Engine) -> None:
    engine.take_steps()
    at_once = Requests(np.zeros(4), np.full(4, 500), np.full(4, 4), step_budget=100)
    engine.replay(at_once)
    steps = engine.take_steps()
    assert (steps.prefill_tokens + steps.num_decodes).max() == 100
    engine.replay(Requests(np.zeros(4), np.full(4, 500), np.full(4, 4), step_budget=10_000))
    steps = engine.take_steps()
    assert (steps.prefill_tokens + steps.num_decodes).max() == 512
    engine.replay(Requests(np.zeros(4), np.full(4, 500), np.full(4, 4)))
    steps = engine.take_steps()
    assert (steps.prefill_tokens + steps.num_decodes).max() == 512


@pytest.mark.filterwarnings("ignore")
def test_a_prompt_beyond_the_model_limit_fails_alone(engine: Engine) -> None:
    lengths = np.array([100, 2048, 100])
    times = engine.replay(Requests(np.zeros(3), lengths, np.full(3, 2)))
    assert times.failed.tolist() == [False, True, False]
    assert [t.size for t in times.token_s] == [2, 0, 2]


def test_stop_ends_everything_and_may_be_repeated(engine: Engine) -> None:  # keep this the last
    engine.stop()
    engine.stop()
    if isinstance(engine, VllmEngine):
        assert session_members(engine.session) == []
    with pytest.raises(EngineDiedError, match="was stopped"):
        engine.replay(some_requests(3))


@pytest.mark.engine
def test_a_shared_prefix_is_found_in_the_cache() -> None:
    """vLLM caches prefixes by default, in blocks of 128 on a CPU."""
    shared = Requests(
        arrival_s=np.array([0.0, 1.0]),
        prompt_tokens=np.array([300, 300]),
        output_tokens=np.array([2, 2]),
        prefix_hashes=np.array([11, 22, 33, 11, 22, 44]),
        prefix_offsets=np.array([0, 3, 6]),
        prefix_block_tokens=128,
    )
    with start_engine(VLLM) as engine:
        assert engine.facts.resolved.enable_prefix_caching
        engine.replay(shared)
        steps = engine.take_steps()
    chunks = steps.prefill_tokens > 0
    assert steps.prefill_tokens[chunks].tolist() == [300, 300 - 256]
    assert steps.chunk_context[chunks].tolist() == [0, 256]
