"""What the proxy adds: latency to the first token, and processor time.

`make bench-fleet` runs it, too. A server of a few lines, a token every 2 ms, is asked directly and
through the proxy's own process, by turns; medians of 100 single requests each, and the proxy's
processor time per request and per streamed token.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from profiler.engines.base import Requests
from profiler.engines.deployment.client import HttpClient
from profiler.engines.deployment.proxy_process import ProxyProcess

sys.path.append(str(Path(__file__).parents[1] / "profiler/engines/deployment"))
from fake_servers import FakeServer, serving_one

ROUNDS, PROMPT, OUTPUT = 100, 1000, 32


def first_token_s(url: str, output: int) -> float:
    requests = Requests(np.zeros(1), np.array([PROMPT]), np.array([output]))
    loop = HttpClient(url, requests, 32_000, 0).run(60.0, None)
    times = loop.token_times(requests.prompt_tokens)
    assert not times.failed[0]
    return float(times.token_s[0][0] - times.sent_s[0])


@pytest.mark.bench
def test_proxy_overhead(tmp_path: Path) -> None:
    with serving_one(FakeServer(gap_s=2e-3)) as port:
        config = {"aggregated": [port], "prefill": [], "decode": []}
        rules = {"rule": "round-robin", "decode_rule": "round-robin"}
        proxy = ProxyProcess({**config, **rules}, tmp_path / "proxy.log")
        urls = {"directly": port, "through the proxy": proxy.port}
        seen: dict[str, list[float]] = {name: [] for name in urls}
        spent = {}
        try:
            for output in (1, OUTPUT):
                process = psutil.Process(proxy.pid)
                before = sum(process.cpu_times()[:2])
                for _ in range(ROUNDS):
                    for name, at in urls.items():
                        seen[name].append(first_token_s(f"http://127.0.0.1:{at}", output))
                spent[output] = (sum(process.cpu_times()[:2]) - before) / ROUNDS
        finally:
            proxy.stop()
    for name, found in seen.items():
        print(f"first token {name}: median {1e3 * np.median(found):.2f} ms")
    added = float(np.median(seen["through the proxy"]) - np.median(seen["directly"]))
    per_token = (spent[OUTPUT] - spent[1]) / (OUTPUT - 1)
    print(f"the proxy adds {1e3 * added:.2f} ms to a first token of a {PROMPT}-token prompt;")
    print(f"processor time {1e3 * spent[1]:.2f} ms a request, {1e6 * per_token:.0f} us a token")
    assert added < 0.01
