"""No setting is lost in silence: whatever a report calls exported is read back from the files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from profiler.errors import ExportError, StudyError
from profiler.versions import has_knob
from tests.tuner.export.extract import EXTRACT, Found, flags_of, from_inference_service
from tests.tuner.export.fleets import FLAGS, FLEETS, aggregated, disaggregated, rendered
from tuner.export.deployment import Deployment, EnginePool, KvTransfer, Role
from tuner.export.settings_report import Kind, Outcome, settings_of
from tuner.export.targets import TARGETS, render
from tuner.simulator.router import PREFIX_AWARE, RULES, Router

CASES = [(target, fleet) for target in TARGETS for fleet in FLEETS]


def expected_flags(deployment: Deployment, pool: EnginePool) -> dict[str, Any]:
    """Flag with its dashes -> value as text, lists as lists, true and false by the flag's name."""
    flags: dict[str, Any] = {}
    for name, value in pool.flags.items():
        if isinstance(value, bool):
            flags[f"--{name}" if value else f"--no-{name}"] = []
        else:
            flags[f"--{name}"] = value if isinstance(value, list) else [value]
    if pool.kv_transfer is not None:
        transfer = {
            "kv_connector": "NixlConnector",
            "kv_role": pool.kv_transfer.kv_role,
            "kv_load_failure_policy": pool.kv_transfer.load_failure_policy,
        }
        if pool.kv_transfer.extra:
            transfer["kv_connector_extra_config"] = pool.kv_transfer.extra
        flags["--kv-transfer-config"] = [transfer]
    assert deployment.pools
    return flags


def read(words: list[str]) -> dict[str, Any]:
    """What `expected_flags` gives, read from words."""
    return {
        flag: [json.loads(v) if v.startswith("{") else v for v in values]
        for flag, values in flags_of(words).items()
    }


def same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    text = {k: [v if isinstance(v, dict) else str(v) for v in vs] for k, vs in wanted.items()}
    assert found == text


@pytest.mark.parametrize(("target", "fleet"), CASES)
def test_every_flag_is_read_back(target: str, fleet: str) -> None:
    deployment = FLEETS[fleet]
    found = EXTRACT[target](rendered(target, fleet).files)
    assert set(found) == {pool.label for pool in deployment.pools}
    for pool in deployment.pools:
        wanted = expected_flags(deployment, pool)
        if target in ("kserve", "llm-d", "production-stack"):  # theirs is always there
            wanted.setdefault("--tensor-parallel-size", [1])
        if target == "production-stack" and "--no-enable-prefix-caching" not in wanted:
            wanted["--enable-prefix-caching"] = []  # the chart would switch it off
        same(read(found[pool.label].words), wanted)
        assert found[pool.label].model == deployment.model


@pytest.mark.parametrize(("target", "fleet"), CASES)
def test_replicas_gpus_and_variables_are_read_back(target: str, fleet: str) -> None:
    deployment = FLEETS[fleet]
    found = EXTRACT[target](rendered(target, fleet).files)
    for pool in deployment.pools:
        there = found[pool.label]
        assert there.replicas == (1 if target == "vllm" else pool.replicas)
        assert there.num_gpus in (None, pool.num_gpus)
        variables = dict(there.variables)
        host = variables.pop("VLLM_NIXL_SIDE_CHANNEL_HOST", None)
        port = variables.pop("VLLM_NIXL_SIDE_CHANNEL_PORT", None)
        assert variables == pool.environment
        if target == "ray-serve":
            continue  # its own port base, and Ray's own address
        assert (host is not None) == (pool.kv_transfer is not None)
        assert port == (str(pool.kv_transfer.side_channel_port) if pool.kv_transfer else None)


def test_the_inference_service_says_the_same() -> None:
    deployment = aggregated()
    found: Found = from_inference_service(render(deployment, "kserve").files)["aggregated"]
    same(read(found.words), expected_flags(deployment, deployment.pools[0]))
    assert (found.replicas, found.num_gpus) == (3, 2)
    assert found.variables == deployment.pools[0].environment


@pytest.mark.parametrize(("target", "fleet"), CASES)
def test_the_report_names_every_setting_once(target: str, fleet: str) -> None:
    deployment = FLEETS[fleet]
    made = rendered(target, fleet)
    assert [setting for setting, _ in made.settings] == list(settings_of(deployment))
    assert all(fate.how for _, fate in made.settings)
    kinds = {setting.kind for setting, _ in made.settings}
    assert {Kind.DEPLOYMENT, Kind.ROUTER, Kind.POOL, Kind.FLAG, Kind.ENVIRONMENT} <= kinds
    assert (Kind.KV in kinds) == deployment.is_pd
    text = made.text()
    for setting, fate in made.settings:
        assert any(setting.name in x and x.startswith(fate.outcome) for x in text.splitlines())
    assert len(made.to_dict()["settings"]) == len(made.settings)


def test_flags_and_kv_settings_are_never_lost() -> None:
    """Whatever a target cannot hold is about names, versions and routers, not about the engine."""
    for target, fleet in CASES:
        for setting, fate in rendered(target, fleet).settings:
            if setting.kind in (Kind.FLAG, Kind.KV, Kind.ENVIRONMENT):
                assert fate.outcome is not Outcome.NOT_EXPRESSIBLE, (target, setting)


def test_what_dynamo_overrides_is_said() -> None:
    pool = replace(aggregated().pools[0], flags={"disable-log-stats": True, "max-num-seqs": 8})
    made = render(aggregated(pools=(pool,)), "dynamo")
    assert [s.name for s, _ in made.lost() if s.kind is Kind.FLAG] == ["disable-log-stats"]
    assert "--disable-log-stats" not in made.files["dynamographdeployment.yaml"]


def test_ray_is_not_asked_for_two_things_that_exclude_each_other() -> None:
    pool = replace(aggregated().pools[0], flags={"disable-log-stats": True})
    text = render(aggregated(pools=(pool,)), "ray-serve").files["serve.yaml"]
    assert "log_engine_metrics: false" in text


@pytest.mark.parametrize("target", TARGETS)
def test_a_setting_of_a_newer_version_is_left_out_and_said(target: str) -> None:
    from packaging.version import Version

    old = aggregated(engine_version="0.24.0")
    made = render(old, target)
    lost = {s.name for s, _ in made.lost() if s.kind is Kind.FLAG}
    assert lost == {
        "max-num-scheduled-tokens",
        "max-num-active-seqs",
        "long-prefill-token-threshold-adaptive",
    }
    assert not has_knob("max_num_active_seqs", Version("0.24.0"))
    words = EXTRACT[target](made.files)["aggregated"].words
    assert "--max-num-active-seqs" not in words


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rule", RULES)
def test_every_router_rule_has_a_fate(target: str, rule: str) -> None:
    pool = replace(aggregated().pools[0], flags={}, replicas=2)
    report = render(aggregated(pools=(pool,), router=Router(rule)), target).settings
    assert {s.name: fate for s, fate in report}["rule"].how


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("replicas", [1, 2])
def test_what_is_said_of_a_rules_own_settings_is_so(target: str, replicas: int) -> None:
    router = Router(PREFIX_AWARE, guard_requests=4321, guard_ratio=1.75)
    made = render(aggregated(replicas, router=router), target)
    text = "".join(made.files.values())
    report = {s.name: fate.outcome is Outcome.EXPORTED for s, fate in made.settings}
    assert report["guard_requests"] == ("4321" in text)
    assert report["guard_ratio"] == ("1.75" in text)
    assert report["guard_requests"] == (
        replicas == 2 and target in ("vllm", "compose", "kubernetes", "ray-serve")
    )


@pytest.mark.parametrize("target", TARGETS)
def test_one_replica_needs_no_router(target: str) -> None:
    made = render(aggregated(replicas=1), target)
    fate = {s.name: f for s, f in made.settings}["rule"]
    assert fate.outcome is Outcome.TRANSLATED
    assert "vllm-router" not in "".join(made.files.values())


@pytest.mark.parametrize("target", TARGETS)
def test_a_model_that_is_a_folder(target: str) -> None:
    made = render(aggregated(model="/models/a model"), target)
    text = "".join(made.files.values())
    assert "/models/a model" in text
    assert "HF_TOKEN" not in text


@pytest.mark.parametrize("target", TARGETS)
def test_an_engine_on_processors_asks_for_no_gpu(target: str) -> None:
    pool = replace(aggregated().pools[0], num_gpus=0)
    made = render(aggregated(pools=(pool,)), target)
    text = "".join(made.files.values())
    assert "nvidia.com/gpu" not in text and "device_ids" not in text
    assert "vllm/vllm-openai:" not in text


@pytest.mark.parametrize("target", ["kserve", "llm-d", "ray-serve"])
def test_two_aggregated_pools_are_refused_where_there_is_one_place(target: str) -> None:
    first = aggregated().pools[0]
    both = aggregated(pools=(first, replace(first, label="long")))
    with pytest.raises(ExportError, match="one aggregated pool"):
        render(both, target)
    assert set(EXTRACT["kubernetes"](render(both, "kubernetes").files)) == {"aggregated", "long"}


def test_no_two_replicas_share_a_gpu_or_an_address() -> None:
    import yaml

    content = yaml.safe_load(render(disaggregated(), "compose").files["compose.yaml"])
    services = content["services"]
    addresses = [s["networks"]["fleet"]["ipv4_address"] for s in services.values()]
    assert len(set(addresses)) == len(addresses) == 6
    engines = [s for name, s in services.items() if name != "router"]
    gpus = [
        gpu
        for s in engines
        for device in s["deploy"]["resources"]["reservations"]["devices"]
        for gpu in device["device_ids"]
    ]
    assert sorted(gpus) == [str(i) for i in range(2 * 1 + 3 * 2)]
    for service in engines:
        host = service["environment"]["VLLM_NIXL_SIDE_CHANNEL_HOST"]
        assert host == service["networks"]["fleet"]["ipv4_address"]


def test_what_is_no_deployment_is_one_line() -> None:
    prefill, decode = disaggregated().pools
    with pytest.raises(ExportError, match="add the other one"):
        aggregated(pools=(prefill,))
    with pytest.raises(ExportError, match="exactly these two pools"):
        aggregated(pools=(prefill, decode, aggregated().pools[0]))
    with pytest.raises(ExportError, match="how KV is handed over"):
        aggregated(pools=(replace(prefill, kv_transfer=None), decode))
    with pytest.raises(ExportError, match="at least one replica"):
        aggregated(pools=(replace(prefill, replicas=0), decode))
    with pytest.raises(StudyError, match="unknown export target 'tgi'; known: vllm, compose"):
        render(aggregated(), "tgi")


def test_the_fleets_hold_what_they_are_for() -> None:
    assert False in FLAGS.values() and True in FLAGS.values()
    assert KvTransfer().config()["kv_role"] == "kv_both"
    assert {pool.role for pool in disaggregated().pools} == {Role.PREFILL, Role.DECODE}
