"""A deployment that stands for real servers, in virtual time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from profiler.engines import start_engine
from profiler.engines.base import EngineSpec, Requests
from profiler.engines.deployment.deployment import Handovers, Routes
from profiler.engines.deployment.spec import DeploymentSpec
from profiler.outcomes import LateSteps, TokenTimes
from profiler.steps import StepSamples

IN_TIME = LateSteps(num_steps=1000, num_late=10, late_s=0.1, modelled_s=10.0)
LATE = LateSteps(num_steps=1000, num_late=200, late_s=1.0, modelled_s=10.0)


class Stage:
    """Makes deployments up, and remembers what happened to them."""

    def __init__(self, late: str = "", dead: str = "", kill_at: int = -1) -> None:
        self.late, self.dead, self.kill_at = late, dead, kill_at
        """modes whose steps are late, or one of whose servers dies; the replay to end at"""
        self.log: list[str] = []
        self.num_replays = 0

    def __call__(self, spec: DeploymentSpec) -> Any:
        return MadeDeployment(spec, self)


class MadeDeployment:
    """The first server does all the work, in virtual time."""

    def __init__(self, spec: DeploymentSpec, stage: Stage) -> None:
        spec.check()
        self.spec, self._stage = spec, stage
        self.mode = "disaggregated" if spec.prefill else "aggregated"
        stage.log.append(f"start {self.mode}")
        config = next(iter(spec.servers.values())).engine.config
        self._engine = start_engine(EngineSpec("fake", "none", config))
        self.facts = replace(self._engine.facts, engine="rehearsal", version="0.32.0")
        self.servers = {name: SimpleNamespace(facts=self.facts) for name in spec.servers}

    def revive(self) -> list[str]:
        return []

    def dead(self) -> list[str]:
        return ["decode 0"] if self.mode == self._stage.dead else []

    def replay(self, requests: Requests, **options: Any) -> TokenTimes:
        count = requests.arrival_s.size
        if count > 1:  # not one that times the front end
            if self._stage.num_replays == self._stage.kill_at:
                raise KeyboardInterrupt
            self._stage.num_replays += 1
            self._stage.log.append(f"replay {self.mode}")
        self.routes = Routes(np.zeros(count), np.zeros(count))
        self.handovers = Handovers(*np.zeros((4, count)))
        steps = LATE if self.mode == self._stage.late else IN_TIME
        return replace(self._engine.replay(requests, **options), late_steps=steps)

    def take_steps(self) -> StepSamples:
        return self._engine.take_steps()

    def take_steps_of(self, name: str) -> StepSamples:
        del name  # what is left after the first server's is nothing
        return self._engine.take_steps()

    def stop(self) -> None:
        self._stage.log.append(f"stop {self.mode}")
