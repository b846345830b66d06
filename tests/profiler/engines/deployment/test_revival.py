"""What has died is started again, in its old place; servers and proxy are made up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profiler.engines.base import EngineSpec
from profiler.engines.deployment import deployment as module
from profiler.engines.deployment.deployment import Deployment
from profiler.engines.deployment.spec import DeploymentSpec, ServerSpec
from profiler.engines.rehearsal.transfers import transfer_config
from profiler.errors import EngineStartError

MOVES = transfer_config(role="kv_both", latency_s=1e-3, bytes_per_s=1e9, bytes_per_token=1e5)
SERVER = ServerSpec(EngineSpec("rehearsal", "none", engine_args={"kv_transfer_config": MOVES}))
SPEC = DeploymentSpec(prefill=(SERVER, SERVER), decode=(SERVER,))


class MadeUp:
    """A server or a proxy that does nothing."""

    def __init__(self, number: int, config: dict[str, Any] | None = None) -> None:
        self.port, self.config = number, config
        self.is_alive, self.stopped = True, False
        self.facts = FACTS

    def stop(self) -> None:
        self.is_alive, self.stopped = False, True


FACTS = module.EngineFacts("rehearsal", "0", "an H200", "none", None, 9, {}, {})  # type: ignore[arg-type]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Everything that was started, in order."""
    made = SimpleNamespace(servers=[], proxies=[], most=99)

    def server(spec: ServerSpec) -> MadeUp:
        if len(made.servers) == made.most:
            raise EngineStartError("no more memory")
        made.servers.append(MadeUp(8000 + len(made.servers)))
        return made.servers[-1]

    def proxy(config: dict[str, Any], log: Path) -> MadeUp:
        made.proxies.append(MadeUp(9000 + len(made.proxies), config))
        return made.proxies[-1]

    server.stop = MadeUp.stop  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "Server", server)
    monkeypatch.setattr(module, "ProxyProcess", proxy)
    return made


def ports(proxy: MadeUp) -> tuple[list[int], list[int]]:
    assert proxy.config is not None
    return sorted(proxy.config["prefill"]), proxy.config["decode"]


def test_a_dead_server_is_replaced(made: SimpleNamespace) -> None:
    with Deployment(SPEC) as deployment:
        assert deployment.facts.device == "2 prefill + 1 decode: an H200"
        assert deployment.dead() == deployment.revive() == []
        victim = deployment.servers["prefill 1"]
        kept = deployment.servers["prefill 0"].port, deployment.servers["decode 0"].port
        victim.is_alive = False  # type: ignore[misc]
        assert deployment.revive() == ["prefill 1"]
        assert list(deployment.servers) == ["prefill 0", "prefill 1", "decode 0"]
        assert deployment.servers["prefill 1"].port == 8003
        assert ports(made.proxies[-1]) == (sorted([kept[0], 8003]), [kept[1]])
        assert made.proxies[0].stopped and victim.stopped  # type: ignore[attr-defined]
    assert all(one.stopped for one in [*made.servers, *made.proxies])


def test_a_failed_start_ends_the_others(made: SimpleNamespace) -> None:
    made.most = 2
    with pytest.raises(EngineStartError, match="no more memory"):
        Deployment(SPEC)
    assert [server.stopped for server in made.servers] == [True, True]
    assert made.proxies == []
