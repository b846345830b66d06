"""The search space: repairs, follow-the-leader defaults, what is representable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from profiler.engine_config import EngineConfig
from profiler.errors import KnobError
from tuner.search.settings import repair, resolve
from tuner.search.space import distributions, representable
from tuner.space_section import Axis

RESOLVED = EngineConfig(
    max_num_batched_tokens=2048,
    max_num_scheduled_tokens=2048,
    max_num_seqs=128,
    max_num_active_seqs=128,
    long_prefill_token_threshold=0,
    max_model_len=4096,
    block_size=16,
)


@pytest.mark.parametrize("seed", range(50))
def test_repaired_settings_never_clash(seed: int) -> None:
    rng = np.random.default_rng(seed)
    raw = {
        "max_num_batched_tokens": int(rng.integers(1, 300)),
        "max_num_scheduled_tokens": int(rng.integers(1, 300)),
        "max_num_seqs": int(rng.integers(1, 300)),
        "max_num_active_seqs": int(rng.integers(1, 300)),
        "long_prefill_token_threshold": int(rng.integers(0, 300)),
    }
    names = [n for n in raw if rng.random() < 0.7]
    chosen = {n: raw[n] for n in names}
    config = repair(chosen, EngineConfig(), RESOLVED)
    full = resolve(config, RESOLVED)
    full.check()
    assert full.max_num_scheduled_tokens is not None and full.max_num_batched_tokens is not None
    assert full.max_num_scheduled_tokens <= full.max_num_batched_tokens
    cap = full.long_prefill_token_threshold
    assert cap == 0 or (cap or 0) < full.max_num_scheduled_tokens
    for name in names:  # repair only lowers
        assert getattr(config, name) <= chosen[name]


def test_values_that_fit_are_left_alone() -> None:
    raw = {"max_num_batched_tokens": 512, "max_num_seqs": 64, "long_prefill_token_threshold": 256}
    config = repair(raw, EngineConfig(max_model_len=4096), RESOLVED)
    assert config.settings() == {**raw, "max_model_len": 4096}


def test_a_fixed_knob_is_not_repaired() -> None:
    config = repair({"max_num_batched_tokens": 32}, EngineConfig(max_num_seqs=64), RESOLVED)
    assert (config.max_num_batched_tokens, config.max_num_seqs) == (32, 64)


def test_followers_follow_their_new_leader() -> None:
    full = resolve(EngineConfig(max_num_batched_tokens=4096, max_num_seqs=16), RESOLVED)
    assert (full.max_num_scheduled_tokens, full.max_num_active_seqs) == (4096, 16)
    full = resolve(
        EngineConfig(max_num_batched_tokens=4096, max_num_scheduled_tokens=1024), RESOLVED
    )
    assert full.max_num_scheduled_tokens == 1024
    assert resolve(EngineConfig(), RESOLVED) == RESOLVED


def test_default_sequences_are_at_most_the_budget() -> None:
    """As vLLM's server resolves them; what somebody gave is left alone."""
    full = resolve(EngineConfig(max_num_batched_tokens=100), RESOLVED)
    assert (full.max_num_seqs, full.max_num_active_seqs) == (100, 100)
    full = resolve(EngineConfig(max_num_batched_tokens=4096), RESOLVED)
    assert (full.max_num_seqs, full.max_num_active_seqs) == (128, 128)
    given = EngineConfig(max_num_batched_tokens=100, max_num_seqs=120)
    with pytest.raises(KnobError, match="max_num_seqs must be at most max_num_batched_tokens"):
        resolve(given, RESOLVED).check()


def test_only_what_lies_inside_is_representable() -> None:
    space = {
        "max_num_batched_tokens": Axis(low=128, high=1024),
        "max_num_seqs": Axis(low=8, high=256, step=8),
        "long_prefill_token_threshold": Axis(choices=[0, 512]),
    }
    params, known = representable(space, RESOLVED.settings())
    assert params == {"max_num_seqs": 128, "long_prefill_token_threshold": 0}
    assert set(known) == set(params)


@pytest.mark.parametrize(
    ("axis", "kind"),
    [
        ({"low": 1, "high": 8}, "IntDistribution"),
        ({"low": 1, "high": 8, "log": True}, "IntDistribution"),
        ({"choices": [1, 2]}, "CategoricalDistribution"),
    ],
)
def test_distributions(axis: dict[str, Any], kind: str) -> None:
    (found,) = distributions({"max_num_seqs": Axis(**axis)}).values()
    assert type(found).__name__ == kind
