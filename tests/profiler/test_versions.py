"""Versions of the engine: ranges, known differences, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from profiler.errors import EngineVersionError
from profiler.knobs import KNOBS
from profiler.versions import (
    ABSENT,
    CHECKED,
    DIFFERENCES,
    EngineUse,
    alike_settings,
    has_knob,
    require_checked,
    unchecked_reason,
)

PLAIN: dict[str, Any] = {
    "long_prefill_token_threshold": 0,
    "scheduling_policy": "fcfs",
    "enable_prefix_caching": True,
    "scheduler_reserve_full_isl": True,
    "async_scheduling": True,
}


def use(version: str, searched: tuple[str, ...] = (), **settings: Any) -> EngineUse:
    return EngineUse("vllm", version, PLAIN | settings, searched)


def test_every_knob_has_a_range_that_holds_for_the_mirrored_version() -> None:
    for knob in KNOBS.values():
        assert SpecifierSet(knob.versions)
        assert has_knob(knob.name, Version("0.32.0"))
    assert not has_knob("watermark", Version("0.23.0"))
    assert has_knob("watermark", Version("0.24.0"))


def test_a_newer_setting_has_a_value_for_older_versions() -> None:
    newer = {name for name in KNOBS if not has_knob(name, Version("0.18.0"))}
    assert newer == {
        *ABSENT,
        "max_num_scheduled_tokens",
        "max_num_active_seqs",
        "speculative_method",
    }


def test_the_table_is_about_known_settings_and_leaves_the_mirrored_version_alone() -> None:
    for difference in DIFFERENCES:
        names = {name for name, _ in difference.no_effect}
        assert {difference.knob, *names} <= set(KNOBS)
        assert bool(names) == (difference.kind == "rule")
        assert not difference.applies_to(Version("0.32.0"))
        assert difference.where
    assert "0.32" in CHECKED
    assert sorted(CHECKED, key=Version) == list(CHECKED)


@pytest.mark.parametrize("version", ["0.32.0", "0.32.3", "0.32.0+cpu", "0.31.0", "0.24.0"])
def test_checked_versions_pass(version: str) -> None:
    assert require_checked(use(version), accept=False) is None


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (use("0.34.0"), "vLLM 0.34.0 was not compared"),
        (use("0.32.1rc1"), "vLLM 0.32.1rc1 was not compared"),
        (use("0.1.dev1-x"), "'0.1.dev1-x' is no release"),
        (use("0.19.0"), "enable_prefix_caching: all freed blocks go to the back"),
        (use("0.30.0", long_prefill_token_threshold=64), "a lone request is cut as well"),
        (use("0.30.0", ("long_prefill_token_threshold",)), r"is cut as well \(before 0.31\)"),
        (use("0.27.0", scheduling_policy="priority"), "makes the pass skip one request"),
        (use("0.27.0", num_speculative_tokens=3), "drafts are charged or padded otherwise"),
    ],
)
def test_others_are_refused_in_one_line_with_the_way_out(case: EngineUse, words: str) -> None:
    with pytest.raises(EngineVersionError, match=words) as refusal:
        require_checked(case, accept=False)
    assert "--unchecked-engine" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_accepted_version_is_said() -> None:
    said = require_checked(use("0.34.0"), accept=True)
    assert said is not None
    assert said.startswith("going on with an unchecked engine: vLLM 0.34.0")


def test_only_differences_that_touch_the_settings_are_named() -> None:
    reason = unchecked_reason(use("0.11.0", enable_prefix_caching=False, async_scheduling=False))
    assert reason is not None
    assert "freed blocks" not in reason
    assert "passed over" not in reason  # chunking is on


def test_other_engines_are_not_asked() -> None:
    assert unchecked_reason(EngineUse("fake", "1", {})) is None


def test_settings_are_made_alike_for_an_older_version() -> None:
    settings = {
        "long_prefill_token_threshold": 64,
        "long_prefill_token_threshold_adaptive": True,
        "max_num_active_seqs": 4,
        "scheduling_policy": "priority",
        "max_num_seqs": 8,
    }
    assert alike_settings(settings, Version("0.32.0")) == settings
    older = alike_settings(settings, Version("0.30.0"))
    assert older["long_prefill_token_threshold"] == 0
    assert older["max_num_active_seqs"] is None
    assert older["max_num_seqs"] == 8
    for version in ("0.24.0", "0.27.0", "0.31.0"):
        case = EngineUse("vllm", version, alike_settings(settings, Version(version)))
        assert unchecked_reason(case) is None
