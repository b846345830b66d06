"""How long a deployment's front end takes, apart from its steps and its links."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from profiler.collect.frontend import FloatArray, deliveries_s
from profiler.engines.base import Requests
from profiler.engines.deployment.deployment import Deployment
from profiler.outcomes import TokenTimes
from profiler.steps import StepSamples

_REPEATS = 8
_PROMPT_TOKENS, _OUTPUT_TOKENS = 128, 4


@dataclass(frozen=True)
class FleetFrontend:
    """Delays of HTTP, proxy, servers and client, seconds."""

    inward_s: float
    """from the client's send to the scheduler of the first server, at an idle deployment"""
    hop_s: float
    """from a prefill's token to its decode server's scheduler, at an idle deployment; 0 where both
    phases are on one server"""
    outward_s: float
    """from the end of a step to the token at the client: mean of a replay"""


def idle_frontend(deployment: Deployment) -> FleetFrontend:
    """The first two delays: medians of single requests. Steps recorded before are dropped."""
    inward, hop = [], []
    deployment.take_steps()
    for _ in range(_REPEATS):
        one = Requests(np.zeros(1), np.array([_PROMPT_TOKENS]), np.array([_OUTPUT_TOKENS]))
        times = deployment.replay(one)
        start_s = deployment.take_steps().start_s.min(initial=np.inf)
        inward.append(start_s - times.origin_s - times.sent_s[0])
        moved = deployment.handovers
        hop.append(float(moved.started_s[0] - moved.held_s[0]) if deployment.spec.prefill else 0.0)
    return FleetFrontend(float(np.median(inward)), float(np.median(hop)), 0.0)


def with_outward(
    frontend: FleetFrontend, deployment: Deployment, times: TokenTimes, steps: list[StepSamples]
) -> FleetFrontend:
    """The same with the third delay, from the deployment's last replay.

    Parameters
    ----------
    times
        Of that replay.
    steps
        Recorded meanwhile, of each server that gives the client its tokens.
    """
    delays: list[FloatArray] = []
    for number, of_server in enumerate(steps):
        mine = deployment.routes.server == number
        tokens = [t for t, is_mine in zip(times.token_s, mine, strict=True) if is_mine]
        delays.append(deliveries_s(replace(times, token_s=tokens), of_server))
    every = np.concatenate(delays)
    return replace(frontend, outward_s=float(every.mean()) if every.size else 0.0)
