"""Fleets rehearsed in alternating rounds: real servers behind the proxy, one fleet at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from profiler.collect.fleet_frontend import FleetFrontend
from profiler.engine_config import EngineConfig
from profiler.engines.deployment.deployment import Deployment
from profiler.engines.deployment.spec import DeploymentSpec
from profiler.errors import EngineDiedError, StallfreeError
from profiler.outcomes import Outcomes
from profiler.traffic.trace import Trace
from tuner.candidate import Candidate
from tuner.fleet_plan import FleetPlan
from tuner.metrics import Metrics, compute, pool
from tuner.results import RunFolder
from tuner.saved_replay import SavedReplay
from tuner.schema import Study
from tuner.search.checked import checked_engine
from tuner.search.confirm import latest_send_s
from tuner.search.fleet_problem import FleetProblem
from tuner.search.fleet_replay import (
    Deployed,
    FleetReplay,
    as_deployed,
    deployed_of,
    rehearse_fleet,
    rehearsed_fleet,
)
from tuner.search.progress import Ui
from tuner.search.rounds import (
    Engines,
    Predictions,
    Rounds,
    engines,
    key_of,
    replay_facts,
    with_evidence,
)
from tuner.simulator.fleet import simulate_fleet

Deploy = Callable[[DeploymentSpec], Deployment]
Alive = Engines[FleetPlan, Deployment]


@dataclass(frozen=True)
class FleetRounds:
    """What to replay on which fleets."""

    study: Study
    problem: FleetProblem
    """on exactly the requests to replay"""
    plans: dict[str, FleetPlan]
    """label -> fleet; the first is the engine default"""
    model: str
    """folder with the model's config.json"""

    @cached_property
    def rounds(self) -> Rounds:
        """Which replays there are to be."""
        keys = {label: self._key(plan) for label, plan in self.plans.items()}
        return Rounds(keys, self.study.validate_.rounds)

    def run(self, folder: RunFolder, ui: Ui, deploy: Deploy) -> dict[str, StallfreeError]:
        """Rehearse every replay that `folder` does not hold; returns why there are less of some.

        Raises `EngineError` when a server dies or hangs.
        """
        with tempfile.TemporaryDirectory(prefix="stallfree-models-") as place:

            def start(plan: FleetPlan) -> Deployment:
                ui.stage(f"starting {plan.num_replicas} servers: {plan.words()}")
                spec = rehearsed_fleet(
                    self.problem.fleet(plan), self.model, Path(place) / self._key(plan)
                )
                return self._checked(deploy(spec))

            with engines(start, keep_alive=self.study.validate_.keep_alive) as alive:
                return self.rounds.run(
                    folder, lambda label, n: self._measure(label, n, alive, ui), ui
                )

    def candidate(self, predicted: Candidate, folder: RunFolder) -> Candidate:
        """`predicted`, the candidate of that label, with its kept replays' figures; itself when
        there are none."""
        saved = self.rounds.kept(folder, predicted.label)
        if not saved:
            return predicted
        plan, slo = self.plans[predicted.label], self.problem.slo
        facts = saved[0].facts
        return replace(
            predicted,
            predicted=self._predict(plan, facts).to_dict(),
            measured=compute(pool([s.raw for s in saved]), slo).to_dict(),
            corrected=compute(pool([s.corrected for s in saved]), slo).to_dict(),
            replays=replay_facts(saved),
            resolved={p.role: facts["servers"][f"{p.role} 0"]["resolved"] for p in plan.pools},
            failure=None,
        )

    def _key(self, plan: FleetPlan) -> str:
        """Name of a fleet's replays in the run folder."""
        problem = self.problem
        return key_of(plan.settings(), asdict(problem.link), problem.trace.digest())

    def _checked(self, deployment: Deployment) -> Deployment:
        """Stops it when its servers' version was not checked; raises `EngineVersionError`."""
        try:
            for server in deployment.servers.values():
                checked_engine(self.study, server)
        except BaseException:
            deployment.stop()
            raise
        return deployment

    def _measure(self, label: str, round_: int, alive: Alive, ui: Ui) -> SavedReplay:
        """One replay of a fleet; its speed is 1, see `confirm`."""
        plan = self.plans[label]
        deployment = alive.get(label, plan)

        def play() -> FleetReplay:
            with ui.progress(f"round {round_ + 1}/{self.rounds.count}: {label}") as progress:
                found = rehearse_fleet(
                    deployment,
                    self.problem.fleet(plan),
                    self.problem.trace,
                    itl_limit_s=self.problem.slo.itl_limit_s,
                    seed=self.study.search.seed + round_,
                    progress=progress,
                    max_late_s=latest_send_s(self.problem.slo),
                )
            if dead := deployment.dead():
                raise EngineDiedError(f"{', '.join(dead)} of {label} died during the replay")
            return found

        found = with_evidence(play, lambda seen: seen.seen.require_evidence(), label, ui)
        front = found.frontend
        facts = {
            "label": label,
            "settings": plan.settings(),
            "speed": 1.0,
            "frontend_s": [front.inward_s, front.hop_s, front.outward_s],
            "fidelity": asdict(found.seen.fidelity),
            "servers": {
                name: {"resolved": said.resolved.settings(), "num_kv_blocks": said.num_kv_blocks}
                for name, said in deployed_of(deployment).items()
            },
            "engine_version": deployment.facts.version,
        }
        return SavedReplay(facts, found.seen.outcomes, found.seen.outcomes)

    def _predict(self, plan: FleetPlan, facts: dict[str, Any]) -> Metrics:
        """Predicted metrics of the replayed requests."""
        rounds, seed, problem = self.rounds.count, self.study.search.seed, self.problem
        predictions = Predictions(problem.trace, problem.slo, rounds, problem.windows, seed)
        return predictions.metrics(lambda trace, s: self.as_replayed(plan, facts, trace, s))

    def as_replayed(
        self, plan: FleetPlan, facts: Mapping[str, Any], trace: Trace, seed: int
    ) -> Outcomes:
        """`trace` simulated as the replay with these `SavedReplay.facts` ran: with what the servers
        resolved and the measured front end."""
        servers = {
            name: Deployed(EngineConfig.from_settings(said["resolved"]), said["num_kv_blocks"])
            for name, said in facts["servers"].items()
        }
        frontend = FleetFrontend(*facts["frontend_s"])
        fleet = as_deployed(self.problem.fleet(plan), servers, frontend)
        limit = self.problem.slo.itl_limit_s
        return simulate_fleet(trace, fleet, itl_limit_s=limit, seed=seed).outcomes
