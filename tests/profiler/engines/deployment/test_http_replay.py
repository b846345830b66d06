"""The proxy and the client against servers of a few lines: routing, hand-over, what fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_servers import FakeServer, serving

from profiler.engines.base import Requests
from profiler.engines.deployment.client import HttpClient
from profiler.engines.openloop import OpenLoop
from profiler.errors import EngineHungError
from profiler.outcomes import Outcomes, Status, outcomes_from_token_times

NUM = 6
REQUESTS = Requests(np.zeros(NUM), np.arange(3, 3 + NUM), np.full(NUM, 4), priority=np.arange(NUM))


def send(url: str, requests: Requests = REQUESTS) -> tuple[HttpClient, OpenLoop]:
    client = HttpClient(url, requests, vocab_size=100, replay=7)
    return client, client.run(deadline_s=30.0, progress=None)


def outcomes_of(loop: OpenLoop) -> Outcomes:
    times = loop.token_times(REQUESTS.prompt_tokens)
    return outcomes_from_token_times(times, np.zeros(NUM, np.int64), np.array([np.nan]))


def test_aggregated_servers_take_turns() -> None:
    servers = [FakeServer(), FakeServer()]
    with serving({"aggregated": [*servers]}) as url:
        client, loop = send(url)
    assert sorted(client.server.tolist()) == [0.0] * 3 + [1.0] * 3
    assert np.isnan(client.prefill).all()
    assert (outcomes_of(loop).status == Status.FINISHED).all()
    asked = [a for s in servers for a in s.asked]
    assert sorted(len(a["prompt"]) for a in asked) == REQUESTS.prompt_tokens.tolist()
    assert all(a["ignore_eos"] and a["max_tokens"] == 4 for a in asked)
    assert sorted(a["priority"] for a in asked) == list(range(NUM))
    assert {r for s in servers for r in s.request_ids} == {f"7-{i}" for i in range(NUM)}


def test_prefill_hands_over_to_decode() -> None:
    prefill, decode = [FakeServer(), FakeServer()], [FakeServer()]
    with serving({"prefill": [*prefill], "decode": [*decode]}) as url:
        client, loop = send(url)
    assert [t.size for t in loop.token_times(REQUESTS.prompt_tokens).token_s] == [4] * NUM
    assert sorted(client.prefill.tolist()) == [0.0] * 3 + [1.0] * 3
    assert client.server.tolist() == [0.0] * NUM
    for server in prefill:
        assert len(server.asked) == 3
        for first in server.asked:
            assert first["max_tokens"] == 1 and not first["stream"]
            assert "stream_options" not in first
            assert first["kv_transfer_params"]["do_remote_decode"] is True
    (only,) = decode
    for second in only.asked:
        assert second["max_tokens"] == 4 and second["stream"]
        assert second["kv_transfer_params"]["do_remote_prefill"] is True


def test_a_lost_decode_server_fails_its_requests_only() -> None:
    def fault(number: int, token: int) -> str:
        return "die" if token == 2 else ""

    kinds = {"prefill": [FakeServer()], "decode": [FakeServer(), FakeServer(fault)]}
    with serving(kinds) as url:
        client, loop = send(url)
    outcomes = outcomes_of(loop)
    lost = client.server == 1.0
    assert lost.sum() == 3
    assert (outcomes.status == np.where(lost, Status.FAILED, Status.FINISHED)).all()
    assert (outcomes.output_tokens == np.where(lost, 2, 4)).all()  # what came is kept
    assert np.isnan(outcomes.finish_s[lost]).all()


def test_a_prefill_server_that_is_gone_fails_its_requests_only() -> None:
    decode = FakeServer()
    with serving({"prefill": [None, FakeServer()], "decode": [decode]}) as url:
        client, loop = send(url)
    outcomes = outcomes_of(loop)
    assert (outcomes.status == Status.FAILED).sum() == 3
    assert np.isnan(client.server[outcomes.status == Status.FAILED]).all()
    assert len(decode.asked) == 3
    assert "HTTP 502" in loop.first_failure


def test_a_refusal_is_passed_on() -> None:
    def fault(number: int, token: int) -> str:
        return "refuse" if number == 0 else ""

    decode = FakeServer()
    with serving({"prefill": [FakeServer(fault)], "decode": [decode]}) as url:
        _, loop = send(url)
    assert (outcomes_of(loop).status == Status.FAILED).sum() == 1
    assert 'HTTP 400: {"error": {"message": "no"}}' in loop.first_failure
    assert len(decode.asked) == NUM - 1


@pytest.mark.parametrize(
    ("what", "at", "said"),
    [
        ("error", 1, "the engine is dead"),
        ("end", 3, "3 tokens came of 4"),
        ("no end", 4, "the answer ended in its middle"),
    ],
)
def test_an_answer_that_is_not_whole_is_a_failure(what: str, at: int, said: str) -> None:
    def fault(number: int, token: int) -> str:
        return what if token == at else ""

    with serving({"aggregated": [FakeServer(fault)]}) as url:
        _, loop = send(url)
    assert (outcomes_of(loop).status == Status.FAILED).all()
    assert said in loop.first_failure


def test_no_proxy_fails_every_request() -> None:
    _, loop = send("http://127.0.0.1:9")
    assert (outcomes_of(loop).status == Status.FAILED).all()
    assert "Cannot connect" in loop.first_failure


def test_a_silent_server_is_given_up() -> None:
    def fault(number: int, token: int) -> str:
        return "silent"

    with serving({"aggregated": [FakeServer(fault)]}) as url:
        client = HttpClient(url, REQUESTS, vocab_size=100, replay=1)
        with pytest.raises(EngineHungError, match=r"no token for .* \(deadline_s = 0\)"):
            client.run(deadline_s=0.0, progress=None)


def test_a_body_that_is_no_json_is_refused(tmp_path: Path) -> None:
    import httpx

    with serving({"prefill": [FakeServer()], "decode": [FakeServer()]}) as url:
        answer = httpx.post(f"{url}/v1/completions", content=b"{")
        assert answer.status_code == 502
        assert "no JSON of the API" in answer.json()["error"]["message"]
        assert httpx.get(f"{url}/health").text == "ok"
