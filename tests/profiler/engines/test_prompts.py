"""Made-up prompts share what the recorded prompts shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from profiler.engines.base import Requests
from profiler.engines.prompts import make_prompt

REQUESTS = Requests(
    arrival_s=np.zeros(3),
    prompt_tokens=np.array([25, 30, 25]),
    output_tokens=np.ones(3, dtype=np.int64),
    prefix_hashes=np.array([-7, 5, 6, -7, 5, 8, 9, 5, 6]),
    prefix_offsets=np.array([0, 3, 6, 9]),
    prefix_block_tokens=10,
    seed=4,
)


def prompt(index: int, requests: Requests = REQUESTS, replay: int = 1) -> list[int]:
    return make_prompt(requests, index, 4096, replay)


def test_equal_leading_hashes_are_equal_tokens() -> None:
    first, second = prompt(0), prompt(1)
    assert [len(first), len(second)] == [25, 30]
    assert first[:20] == second[:20]
    assert first[20:25] != second[20:25]


def test_nothing_else_is_shared() -> None:
    assert prompt(0)[:10] != prompt(2)[:10]
    assert prompt(0) != prompt(0, replay=2)
    assert prompt(0) != prompt(0, replace(REQUESTS, seed=5))
    own = replace(REQUESTS, prefix_hashes=None)
    assert prompt(0, own)[:10] != prompt(1, own)[:10]


def test_the_same_prompt_every_time() -> None:
    assert prompt(1) == prompt(1)
