"""`Deployment`: several servers behind a proxy, as one `Engine`."""

from __future__ import annotations

import logging
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from profiler.engines.base import EngineFacts, Progress, Requests
from profiler.engines.deployment import DEPLOYMENT
from profiler.engines.deployment.client import HttpClient
from profiler.engines.deployment.proxy_process import ProxyProcess
from profiler.engines.deployment.server import Server
from profiler.engines.deployment.spec import DeploymentSpec, ServerSpec
from profiler.engines.rehearsal.transfers import Moment
from profiler.errors import EngineDiedError, EngineError
from profiler.outcomes import LateSteps, TokenTimes
from profiler.steps import StepSamples, concatenate

_LOGGER = logging.getLogger(__name__)
FloatArray = npt.NDArray[np.float64]
_FIRST_REPLAY = 1000
"""far from the running numbers of the servers' own warm-ups, whose prompts a cache may hold"""


@dataclass(frozen=True)
class Routes:
    """Which servers answered each of N requests, numbered among those of their kind."""

    server: FloatArray
    """(N,) the aggregated or decode server; NaN when no answer began"""
    prefill: FloatArray
    """(N,) the prefill server; NaN for none"""


@dataclass(frozen=True)
class Handovers:
    """When the KV of each of N requests moved between servers: seconds from the start of
    the replay, NaN for never."""

    held_s: FloatArray
    """(N,) its prefill server made its token"""
    started_s: FloatArray
    """(N,) its decode server started to load"""
    loaded_s: FloatArray
    """(N,) the load was over"""
    released_s: FloatArray
    """(N,) its prefill server had its blocks back"""


class Deployment:
    """Started servers and their proxy; see `profiler.engines.base.Engine`.

    A request that meets an error, or whose server or proxy dies, is marked as failed, and the
    replay goes on; `dead` says what is gone, and `revive` starts that again.

    Raises
    ------
    KnobError
        The specification, before anything is started.
    MissingExtraError, ModelFolderError, LatencyModelError, EngineStartError
        As `Server`, `ProxyProcess`; nothing is left running.
    """

    facts: EngineFacts
    """of the first server, but for the engine's name and the device"""
    routes: Routes
    """of the last replay"""
    handovers: Handovers
    """of the last replay"""

    def __init__(self, spec: DeploymentSpec) -> None:
        spec.check()
        self.spec = spec
        self._num_replays = _FIRST_REPLAY
        self._proxy: ProxyProcess | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="stallfree-fleet-"))
        self.servers: dict[str, Server] = {}
        """by name, as in the specification"""
        try:
            self._start_servers(spec.servers)
            self._proxy = ProxyProcess(self._proxy_config(), self._folder / "proxy.log")
        except BaseException:
            self.stop()
            raise
        first = next(iter(self.servers.values())).facts
        device = f"{' + '.join(self._sizes())}: {first.device}"
        self.facts = replace(first, engine=DEPLOYMENT, device=device)

    @property
    def url(self) -> str:
        """Where the proxy answers."""
        return f"http://127.0.0.1:{self.proxy.port}"

    @property
    def proxy(self) -> ProxyProcess:
        if self._proxy is None:
            raise EngineDiedError("the deployment was stopped; start another one")
        return self._proxy

    def replay(
        self,
        requests: Requests,
        *,
        deadline_s: float = 600.0,
        progress: Progress | None = None,
    ) -> TokenTimes:
        """See `profiler.engines.base.Engine.replay`, and the class for what fails.

        Raises
        ------
        EngineDiedError
            The deployment was stopped before.
        EngineHungError
            No token came for `deadline_s` while answers were outstanding; everything is stopped.
        """
        self._num_replays += 1
        vocab_size = int(self.facts.model_shape["vocab_size"])
        client = HttpClient(self.url, requests, vocab_size, self._num_replays)
        try:
            loop = client.run(deadline_s, progress)
        except EngineError:
            self.stop()
            raise
        self.routes = Routes(client.server, client.prefill)
        if loop.first_failure:
            _LOGGER.warning("requests failed; the first: %s", loop.first_failure)
        times = loop.token_times(requests.prompt_tokens)
        self.handovers = self._take_handovers(times)
        return replace(times, late_steps=self._take_late())

    def take_steps(self) -> StepSamples:
        """Steps of all servers since the last call, one server after the other; `configuration` is
        the number of the server."""
        return concatenate([self.take_steps_of(name) for name in self.servers])

    def take_steps_of(self, name: str) -> StepSamples:
        """Steps of one server since the last call."""
        steps = self.servers[name].take_steps()
        number = list(self.servers).index(name)
        return replace(steps, configuration=np.full(steps.num_steps, number))

    def dead(self) -> list[str]:
        """Names of the servers that have died, and "proxy"."""
        gone = [name for name, server in self.servers.items() if not server.is_alive]
        return gone if self.proxy.is_alive else [*gone, "proxy"]

    def revive(self) -> list[str]:
        """Start again what has died; returns its names. Raises as the class."""
        dead = self.dead()
        specs = {name: self.spec.servers[name] for name in dead if name in self.servers}
        for name in specs:
            self.servers[name].stop()
        self._start_servers(specs)
        if dead:
            self.proxy.stop()
            self._proxy = ProxyProcess(self._proxy_config(), self._folder / "proxy.log")
        return dead

    def stop(self) -> None:
        """See `profiler.engines.base.Engine.stop`."""
        if self._proxy is not None:
            self._proxy.stop()
            self._proxy = None
        if self.servers:
            with ThreadPoolExecutor(len(self.servers)) as pool:
                list(pool.map(Server.stop, self.servers.values()))
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _start_servers(self, specs: dict[str, ServerSpec]) -> None:
        """All at the same time. Raises the first error once every start has ended."""
        if not specs:
            return
        with ThreadPoolExecutor(len(specs)) as pool:
            starting = {name: pool.submit(Server, spec) for name, spec in specs.items()}
        errors = [e for start in starting.values() if (e := start.exception()) is not None]
        started = {n: s.result() for n, s in starting.items() if s.exception() is None}
        # in the specification's order, also after a revival
        known = {**self.servers, **started}
        self.servers = {name: known[name] for name in self.spec.servers if name in known}
        if errors:
            raise errors[0]

    def _proxy_config(self) -> dict[str, Any]:
        ports = {
            kind: [s.port for name, s in self.servers.items() if name.startswith(kind)]
            for kind in ("aggregated", "prefill", "decode")
        }
        return {**ports, "rule": self.spec.rule, "decode_rule": self.spec.decode_rule}

    def _sizes(self) -> list[str]:
        kinds: dict[str, int] = {}
        for name in self.servers:
            kind = name.split()[0]
            kinds[kind] = kinds.get(kind, 0) + 1
        return [f"{count} {kind}" for kind, count in kinds.items()]

    def _take_handovers(self, times: TokenTimes) -> Handovers:
        """What the servers recorded of the last replay."""
        at_s = np.full((len(Moment), times.intended_s.size), np.nan)
        for server in self.servers.values():
            records = server.take_moments()
            _, request, moment, time_s = records[records[:, 0] == self._num_replays].T
            at_s[moment.astype(int), request.astype(int)] = time_s - times.origin_s
        return Handovers(*at_s)

    def _take_late(self) -> LateSteps | None:
        """Of all servers together; None when they compute."""
        late = [x for server in self.servers.values() if (x := server.take_late()) is not None]
        if not late:
            return None
        totals = {f.name: sum(getattr(x, f.name) for x in late) for f in fields(LateSteps)}
        return LateSteps(**totals)
