"""What a search of fleets chose, as pools of every target: nothing of the plan is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler.engine_config import EngineConfig
from profiler.engines.base import EngineSpec
from profiler.engines.fake import FakeEngine
from profiler.errors import ExportError
from profiler.traffic.synthetic import like
from tests.tuner.conftest import SLO
from tests.tuner.export.extract import EXTRACT, documents, flags_of
from tests.tuner.export.planned import (
    DEFAULT,
    MIXED,
    PLANS,
    SPLIT,
    TOGETHER,
    candidate_of,
    point,
    run_of,
)
from tests.tuner.export.rule_check import load_rules, problems
from tests.tuner.export.test_target_rules import TABLES, validate
from tuner.export.bundle import BundleOptions, bundle, emit_bundle
from tuner.export.deployment import Role
from tuner.export.from_results import deployment_of, picked
from tuner.export.launch import LaunchPlan, compare
from tuner.export.rollback import read_current
from tuner.export.settings_report import Outcome
from tuner.export.targets import TARGETS, render
from tuner.fleet_plan import FleetPlan, PoolSetup
from tuner.results import Results, RunFolder

CASES = [(target, name) for target in TARGETS for name in PLANS]


def wanted_flags(setup: PoolSetup) -> dict[str, Any]:
    """Flags as words that a pool's settings, its GPUs and the study's engine ask for."""
    flags: dict[str, Any] = {
        "--load-format": ["dummy"],
        "--dtype": ["float32"],
        "--enforce-eager": [],
        "--no-enable-prefix-caching": [],
    }
    if setup.tp > 1:
        flags["--tensor-parallel-size"] = [str(setup.tp)]
    for name, value in setup.settings.items():
        dashed = name.replace("_", "-")
        flags |= {f"--no-{dashed}": []} if value is False else {f"--{dashed}": [str(value)]}
    return flags


@pytest.mark.parametrize(("target", "name"), CASES)
def test_every_pool_is_as_planned(target: str, name: str) -> None:
    plan = PLANS[name]
    deployment = deployment_of(run_of(plan))
    found = EXTRACT[target](render(deployment, target).files)
    assert list(found) and set(found) == {pool.role for pool in plan.pools}
    for setup in plan.pools:
        there = found[setup.role]
        flags = flags_of(there.words)
        transfer = flags.pop("--kv-transfer-config", None)
        if target in ("kserve", "llm-d", "production-stack") and setup.tp == 1:
            assert flags.pop("--tensor-parallel-size") == ["1"]  # theirs is always there
        assert flags == wanted_flags(setup)
        assert there.replicas == (1 if target == "vllm" else setup.replicas)
        assert there.num_gpus in (None, setup.tp)
        assert (transfer is not None) == (setup.role != "aggregated")
        if transfer is not None:  # as simulated: `Pool.kv_role`, `Pool.kv_load_failure_policy`
            assert json.loads(transfer[0]) == {
                "kv_connector": "NixlConnector",
                "kv_role": "kv_both",
                "kv_load_failure_policy": "fail",
            }


@pytest.mark.parametrize(("target", "name"), CASES)
def test_planned_fleets_keep_to_the_rules(target: str, name: str) -> None:
    files = render(deployment_of(run_of(PLANS[name])), target).files
    for file, rules in TABLES.get(target, {}).items():
        for content in documents(files[file]) if file in files else []:
            assert list(problems(load_rules(rules), content)) == []
    for content in documents(files["kubernetes.yaml"]) if target == "kubernetes" else []:
        validate(content)


@pytest.mark.parametrize(("target", "name"), CASES)
def test_the_bundle_of_a_fleet_is_whole(target: str, name: str, tmp_path: Path) -> None:
    current = tmp_path / "old.yaml"
    current.write_text("max-num-batched-tokens: 512\n")
    files = bundle(run_of(PLANS[name]), BundleOptions(target, current=read_current(current)))
    page = files["EVIDENCE.md"]
    assert PLANS[name].words() in page and DEFAULT.words() in page
    assert ("ib-ndr, 50 GB/s, 0.01 ms" in page) == (name == "pd")
    assert "nothing was measured" in page
    for setup in PLANS[name].pools:
        assert f"{setup.role} system = {setup.system}" in page
    assert ("client's" in files["CANARY.md"]) == (name == "pd")
    evidence = json.loads(files["evidence.json"])
    assert set(evidence["resolved"]) == {setup.role for setup in PLANS[name].pools}


def test_router_rules_are_the_plans() -> None:
    split, together = (deployment_of(run_of(plan)).router for plan in (SPLIT, TOGETHER))
    assert (split.rule, split.decode_rule) == ("least-requests", "round-robin")
    assert (together.rule, together.guard_requests) == ("power-of-two", 32)
    files = render(deployment_of(run_of(SPLIT)), "vllm").files
    words = " ".join(files["router.sh"].split())
    assert "--prefill-policy power_of_two" in words and "--decode-policy round_robin" in words
    assert words.count(" --prefill ") == 2 and words.count(" --decode ") == 3


def test_dynamos_one_mode_is_of_the_pool_that_has_a_choice() -> None:
    alone = replace(SPLIT, pools=(replace(SPLIT.pools[0], replicas=1), SPLIT.pools[1]))
    plan = replace(alone, router="round-robin", decode_router="least-requests")
    made = render(deployment_of(run_of(plan)), "dynamo")
    assert "- least-loaded" in made.files["dynamographdeployment.yaml"]
    rules = {s.name: fate.outcome for s, fate in made.settings if s.name.endswith("rule")}
    assert rules == {"rule": Outcome.TRANSLATED, "decode_rule": Outcome.EXPORTED}
    both = render(deployment_of(run_of(SPLIT)), "dynamo")
    assert "decode_rule" in {s.name for s, _ in both.lost()}


def test_a_measured_fleet_is_of_engines_as_they_were_started() -> None:
    plan = FleetPlan((PoolSetup("aggregated", 4, 1, "", {"max_num_seqs": 8}),), "round-robin")
    on_cpu = {"engine": "vllm", "version": "0.32.0", "device": "cpu"}
    run = run_of(plan)
    (pool,) = deployment_of(run).pools
    assert (pool.replicas, pool.num_gpus, pool.tensor_parallel) == (4, 2, 2)
    run = replace(run, provenance=run.provenance | {"engine": on_cpu})
    assert deployment_of(run).image == "vllm/vllm-openai-cpu:v0.32.0"
    assert "nvidia" not in render(deployment_of(run), "compose").files["compose.yaml"]


def test_what_no_file_holds_is_said() -> None:
    run = run_of(SPLIT)
    assert run.fleet is not None
    fleet = run.fleet | {"link": run.fleet["link"] | {"overlap_layers": 32}}
    made = render(deployment_of(replace(run, fleet=fleet)), "kubernetes")
    lost = {s.name: s.value for s, _ in made.lost()}
    assert lost["prefill system"] == "h100" and lost["decode system"] == "h200"
    assert lost["link overlap_layers"] == 32


def test_a_mixed_fleet_is_refused_in_one_line() -> None:
    with pytest.raises(ExportError, match="pick a trial of another mode") as caught:
        bundle(run_of(MIXED), BundleOptions("kubernetes"))
    assert "\n" not in str(caught.value)


def test_a_refused_fleet_leaves_no_earlier_bundle(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert emit_bundle(folder, run_of(SPLIT), "vllm") is None
    assert (folder.bundle / "decode.yaml").exists()
    refusal = emit_bundle(folder, run_of(MIXED), "vllm")
    assert refusal is not None and "exactly these two pools" in refusal
    assert not folder.bundle.exists()


def test_names_of_variables_are_no_commands() -> None:
    run = run_of(TOGETHER)
    engine = run.engine | {"environment": {"A; touch b; C": "1"}}
    with pytest.raises(ExportError, match="letters, digits and underscores"):
        deployment_of(replace(run, engine=engine))


@pytest.mark.parametrize(
    ("version", "tag"),
    [("0.32", "v0.32.0"), ("0.32.1+cu129", "v0.32.1"), ("0.33.0rc1", "v0.33.0rc1")],
)
def test_the_image_of_a_version(version: str, tag: str) -> None:
    deployment = replace(deployment_of(run_of(TOGETHER)), engine_version=version)
    assert deployment.image == f"vllm/vllm-openai:{tag}"


def test_a_flag_is_no_variable_of_the_shell() -> None:
    run = run_of(TOGETHER)
    engine = run.engine | {"args": {"api-key": "$HOME"}}
    files = render(deployment_of(replace(run, engine=engine)), "vllm").files
    assert "--api-key '$HOME'" in files["command.sh"]


def test_compose_has_addresses_for_so_many() -> None:
    plan = replace(DEFAULT, pools=(replace(DEFAULT.pools[0], replicas=246),))
    with pytest.raises(ExportError, match="at most 245 replicas"):
        render(deployment_of(run_of(plan)), "compose")


def searched(fewest: bool = False) -> Results:
    """Eight GPUs give the most, five the most per GPU, four are the fewest."""
    small = replace(SPLIT, pools=tuple(replace(p, replicas=1) for p in SPLIT.pools))
    four = replace(TOGETHER, pools=(replace(TOGETHER.pools[0], replicas=2),))
    front = [
        point(0, DEFAULT, 0.5, 8.0),
        point(1, SPLIT, 0.1, 9.0),
        point(2, small, 0.2, 6.0),
        point(3, four, None, 3.0),
        point(4, small, 0.9, 5.0),
    ]
    run = run_of(TOGETHER, front=front)
    assert run.fleet is not None
    return replace(run, fleet=run.fleet | {"fewest": fewest})


@pytest.mark.parametrize(
    ("pick", "fewest", "number"),
    [("best", False, 2), ("best", True, 2), ("knee", False, 2), ("knee", True, 2), ("1", False, 1)],
)
def test_picks_of_fleets(pick: str, fewest: bool, number: int) -> None:
    run = searched(fewest)
    chosen = picked(run, pick)
    assert chosen.candidate.label == f"trial-{number}"
    assert {p.role for p in deployment_of(run, pick).pools} == {Role.PREFILL, Role.DECODE}
    page = bundle(run, BundleOptions(pick=pick))["EVIDENCE.md"]
    assert "the busiest 100 of 273 requests" in page
    assert "the busiest" not in bundle(run, BundleOptions())["EVIDENCE.md"]
    assert "the busiest" not in bundle(run, BundleOptions(pick="0"))["EVIDENCE.md"]


def test_going_back_from_a_fleet_of_commands(tmp_path: Path) -> None:
    current = tmp_path / "vllm.yaml"
    current.write_text("max-num-seqs: 8\n")
    files = bundle(run_of(SPLIT), BundleOptions(current=read_current(current)))
    page = files["ROLLBACK.md"]
    for command in ("sh prefill.sh # on each of its 2 replicas", "sh decode.sh # on each of its 3",
                    "sh router.sh", "vllm serve --config previous/vllm.yaml"):  # fmt: skip
        assert command in page
    assert "+++ prefill.yaml" in files["diff.txt"] and "+++ decode.yaml" in files["diff.txt"]
    assert "max-num-seqs: 8 -> 64" in files["diff.txt"]


def test_a_launch_is_of_one_pool_and_compares_its_settings() -> None:
    run = run_of(TOGETHER)
    with pytest.raises(ExportError, match="got 2 pools"):
        launch_of(run_of(SPLIT))
    facts = FakeEngine(EngineSpec("fake", "none", EngineConfig(max_num_batched_tokens=512))).facts
    by_name = {c.setting: c for c in compare(launch_of(run), facts)}
    budget = by_name["max_num_batched_tokens"]
    assert (budget.exported, budget.expected, budget.found) == (1024, 1024, 512)
    assert not budget.same
    assert by_name["block_size"].expected == 16
    unknown = by_name["async_scheduling"]
    assert unknown.expected is None and unknown.same  # the run says nothing of it


def launch_of(run: Results) -> LaunchPlan:
    trace = like("azure-conv-2023", duration_s=4.0, rate_rps=3.0, seed=1)
    return LaunchPlan(deployment_of(run), picked(run), trace, SLO)


def test_a_confirmed_fleet_is_found_by_its_number() -> None:
    run = run_of(SPLIT)
    assert picked(run, "1").candidate == candidate_of(SPLIT)
