"""What servers answer, token by token, and what they count: for checks, not for timing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from profiler.engines.deployment.proxy import HAND_OVER, PATH
from profiler.errors import EngineError

_TIMEOUT_S = 120.0
_BY_SOURCE = "vllm:prompt_tokens_by_source_total{"


def greedy_answer(
    url: str, prompt: Sequence[int], num_tokens: int, *, transfer: dict[str, Any] | None = None
) -> list[int]:
    """The tokens that a server or proxy at `url` continues `prompt` with, at temperature 0.

    `transfer` is vLLM's `kv_transfer_params`, for a decode server. Raises `EngineError`.
    """
    tokens: list[int] = _complete(url, prompt, num_tokens, transfer)["choices"][0]["token_ids"]
    return tokens


def prefill_only(url: str, prompt: Sequence[int]) -> dict[str, Any]:
    """The hand-over (`kv_transfer_params`) of a prefill server at `url` that has computed `prompt`
    and holds its KV. Raises `EngineError`."""
    hand_over: dict[str, Any] = _complete(url, prompt, 1, HAND_OVER)["kv_transfer_params"]
    return hand_over


def prompt_tokens_by_source(url: str) -> dict[str, int]:
    """How many prompt tokens the server at `url` computed, found in its cache and was handed, by
    vLLM's names: `local_compute`, `local_cache_hit`, `external_kv_transfer`."""
    lines = [
        line
        for line in _ask("GET", f"{url}/metrics").text.splitlines()
        if line.startswith(_BY_SOURCE)
    ]
    return {line.split('source="')[1].split('"')[0]: int(float(line.split()[-1])) for line in lines}


def _complete(
    url: str, prompt: Sequence[int], num_tokens: int, transfer: dict[str, Any] | None
) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "prompt": list(prompt),
        "max_tokens": num_tokens,
        "temperature": 0.0,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    if transfer is not None:
        asked["kv_transfer_params"] = transfer
    said: dict[str, Any] = _ask("POST", url + PATH, asked).json()
    return said


def _ask(method: str, url: str, body: dict[str, Any] | None = None) -> httpx.Response:
    try:
        answer = httpx.request(method, url, json=body, timeout=_TIMEOUT_S)
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise EngineError(f"{url} gave no answer: {error}; see the server's log") from error
    return answer
