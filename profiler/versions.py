"""Which vLLM versions the simulator's rules hold for, and what others do instead.

The simulator mirrors vLLM 0.32. `CHECKED` are the versions whose own scheduler classes were
compared with it step by step; `DIFFERENCES` are the rules and defaults that other versions have
otherwise, found by comparing `vllm/v1/core`, `vllm/config` and `vllm/engine/arg_utils.py` of the
minor releases from 0.10 to 0.33 (and 0.8.5, 0.9.0) with each other. A configuration that no
difference touches is simulated alike for every checked version.

The comparison, with the vLLM of that version importable (no model, no device):
`stallfree difftest --cases 100`. It leaves out settings that the version lacks, and sets what a
known difference touches to a value where the versions are alike. Beside 0.32, which every test run
compares: 0.31.0 with every setting (40 cases, 7,791 steps, 243 preemptions; with drafts 80 cases,
16,678 steps); without a long-prefill cap and drafts 0.27.0 and 0.26.0 (120 cases, 23,597 steps, 584
preemptions each) and 0.24.0 (120 cases, 23,111 steps, 551 preemptions): identical. Of 40 cases on
0.28.0 the 25 without a cap were identical and the 15 with one were not; that is too few to call
0.28 checked.

A patch release counts as its minor release: between 0.11.1 and 0.11.2 and from x.y.0 to x.y.1 (or
.2) of 0.14, 0.18, 0.19, 0.20, 0.22, 0.25 and 0.27 no function that the simulator mirrors changed
(compared as syntax trees). In 0.15 and 0.17 one did, and 0.11.0 is unlike 0.11.1; none of these is
checked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from profiler.errors import EngineVersionError
from profiler.knobs import KNOBS

MIRRORED_ENGINES = ("vllm", "rehearsal")
"""engines that are a vLLM, by their names here"""
CHECKED = ("0.24", "0.26", "0.27", "0.31", "0.32")
"""minor releases compared with the simulator"""

ABSENT: dict[str, Any] = {
    "scheduler_reserve_full_isl": False,
    "watermark": 0.0,
    "long_prefill_token_threshold_adaptive": False,
    "num_speculative_tokens": 0,
}
"""settings of newer versions -> the value that the older ones behave like. The two further limits,
`max_num_scheduled_tokens` and `max_num_active_seqs`, are then the same as the first ones."""


@dataclass(frozen=True)
class Difference:
    """A rule or a default that versions outside `since` .. `until` have otherwise."""

    since: str | None
    """first version with the mirrored behaviour; None: every one that was read"""
    until: str | None
    """first version after it that is otherwise again"""
    kind: Literal["rule", "default"]
    """defaults are read back from the started engine, so only a rule can make it unlike"""
    knob: str
    """where the knob table shows it"""
    mirrored: str
    otherwise: str
    no_effect: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    """(setting, values): any one of these in force makes the versions alike"""

    @property
    def where(self) -> str:
        """The versions that are otherwise, in words."""
        return f"before {self.since}" if self.since else f"from {self.until} on"

    def applies_to(self, version: Version) -> bool:
        """Whether `version` is otherwise."""
        early = self.since is not None and version < Version(self.since)
        return early or (self.until is not None and version >= Version(self.until))

    def touches(self, settings: Mapping[str, Any], searched: Collection[str]) -> bool:
        """Whether it can matter with `settings` in force and `searched` ones free to change."""
        return self.kind == "rule" and not any(
            name not in searched and settings.get(name) in values for name, values in self.no_effect
        )


DIFFERENCES = (
    Difference(
        None,
        "0.33",
        "rule",
        "scheduling_policy",
        "a request that preempts itself ends the running pass",
        "under priorities the pass goes on with those behind it",
        (("scheduling_policy", ("fcfs", None)),),
    ),
    Difference(
        "0.31",
        None,
        "rule",
        "num_speculative_tokens",
        "draft slots count against the budget, and a request that starts with one token is padded",
        "drafts are charged or padded otherwise, or were not compared",
        (("num_speculative_tokens", (0, None)),),
    ),
    Difference(
        "0.31",
        None,
        "rule",
        "long_prefill_token_threshold",
        "a request that is alone in the system is not cut",
        "a lone request is cut as well",
        (("long_prefill_token_threshold", (0, None)),),
    ),
    Difference(
        "0.28",
        None,
        "rule",
        "scheduling_policy",
        "a victim earlier in the running list moves the pass back by one",
        "with asynchronous stepping, a victim that had nothing scheduled in the step makes the "
        "pass skip one request",
        (("scheduling_policy", ("fcfs", None)), ("async_scheduling", (False, None))),
    ),
    Difference(
        "0.28",
        None,
        "default",
        "max_num_batched_tokens",
        "GPUs of at least 160 GiB: 16384 for a server",
        "8192, as for every GPU of at least 70 GiB",
    ),
    Difference(
        "0.24",
        None,
        "rule",
        "enable_prefix_caching",
        "freed blocks without content go to the front of the free queue, others to the back",
        "all freed blocks go to the back, so other blocks are evicted",
        (("enable_prefix_caching", (False,)),),
    ),
    Difference(
        "0.19",
        None,
        "rule",
        "scheduler_reserve_full_isl",
        "a whole known sequence must fit before it is admitted, unless set to false",
        "there is no such test: only the first chunk must fit",
        (("scheduler_reserve_full_isl", (False,)),),
    ),
    Difference(
        "0.14",
        None,
        "default",
        "async_scheduling",
        "true where compatible",
        "false",
    ),
    Difference(
        "0.12",
        None,
        "rule",
        "async_scheduling",
        "no step is spent on a request whose length limit the step in flight will reach",
        "one more token is computed and dropped",
        (("async_scheduling", (False, None)),),
    ),
    Difference(
        "0.11.1",
        None,
        "rule",
        "enable_chunked_prefill",
        "off: admission stops at a prompt that does not fit the step",
        "off: such a prompt is passed over, and those behind it are tried",
        (("enable_chunked_prefill", (True, None)),),
    ),
    Difference(
        "0.11.1",
        None,
        "rule",
        "scheduling_policy",
        "a victim that was scheduled in the step gives its tokens back to the budget",
        "its tokens stay in the step",
        (("scheduling_policy", ("fcfs", None)),),
    ),
)


@dataclass(frozen=True)
class EngineUse:
    """An engine, and what it is to be simulated with."""

    engine: str
    version: str
    settings: Mapping[str, Any]
    """every setting in force"""
    searched: Collection[str] = ()
    """settings that a search will change"""


def unchecked_reason(use: EngineUse) -> str | None:
    """Why the simulator's rules may not hold for `use`, as half a sentence; None when they do."""
    if use.engine not in MIRRORED_ENGINES:
        return None
    try:
        version = Version(use.version)
    except InvalidVersion:
        return f"vLLM {use.version!r} is no release; checked: {checked_text()}"
    unlike = [
        f"{d.knob}: {d.otherwise} ({d.where})"
        for d in DIFFERENCES
        if d.applies_to(version) and d.touches(use.settings, use.searched)
    ]
    known = f"; known to differ here: {'; '.join(unlike)}" if unlike else ""
    if f"{version.major}.{version.minor}" not in CHECKED or version.is_prerelease:
        return f"vLLM {version} was not compared with the simulator, {checked_text()} were{known}"
    if unlike:
        return f"vLLM {version} schedules this configuration otherwise than the simulator{known}"
    return None


def require_checked(use: EngineUse, *, accept: bool) -> str | None:
    """None where the rules hold; what to say once where they may not and `accept` is given.

    Raises
    ------
    EngineVersionError
        The rules may not hold, and `accept` is not given.
    """
    reason = unchecked_reason(use)
    if reason is None:
        return None
    if accept:
        return f"going on with an unchecked engine: {reason}"
    raise EngineVersionError(
        f"the simulator's rules must be checked for the engine's version: {reason}; install a "
        "checked version, change these settings, or go on anyway with --unchecked-engine"
    )


def checked_text() -> str:
    """The checked versions in words."""
    return ", ".join(CHECKED)


def has_knob(name: str, version: Version) -> bool:
    """Whether `version` has the setting `name`, by the knob table."""
    return version in SpecifierSet(KNOBS[name].versions, prereleases=True)


def alike_settings(settings: Mapping[str, Any], version: Version) -> dict[str, Any]:
    """`settings` changed where `version` lacks one or is known to schedule them otherwise."""
    changed = dict(settings)
    for name in KNOBS:
        if not has_knob(name, version):
            changed[name] = ABSENT.get(name)
    for difference in DIFFERENCES:
        if difference.applies_to(version) and difference.touches(changed, ()):
            name, values = difference.no_effect[0]
            changed[name] = values[0]
    return changed


def differences_of(name: str) -> list[Difference]:
    """What other versions do otherwise with the setting `name`, newest first."""
    return [d for d in DIFFERENCES if d.knob == name]
