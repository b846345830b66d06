"""What became of every setting of a deployment in a target: exported, translated, or lost and why.

A target gives fates by kind of setting or by name; a setting without a fate is an error of ours, so
none is dropped in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from tuner.export.deployment import Deployment, EnginePool, KvTransfer
from tuner.simulator.router import PREFIX_AWARE, PRIORITY, PROMPT_LENGTH


class Kind(StrEnum):
    """What a setting is about; the first part of its key in a target's fates."""

    DEPLOYMENT = "deployment"
    ROUTER = "router"
    POOL = "pool"
    FLAG = "flag"
    ENVIRONMENT = "environment"
    KV = "kv"


class Setting(NamedTuple):
    """One setting of a deployment."""

    kind: Kind
    pool: str
    """label of its pool; empty for the whole deployment"""
    name: str
    value: Any


class Outcome(StrEnum):
    """What became of a setting."""

    EXPORTED = "exported"
    """in the files, as it is"""
    TRANSLATED = "translated"
    """in the files, in the target's own terms"""
    NOT_EXPRESSIBLE = "not expressible"


class Fate(NamedTuple):
    """What became of a setting, and where it is or why it is nowhere."""

    outcome: Outcome
    how: str


def exported(where: str) -> Fate:
    return Fate(Outcome.EXPORTED, where)


def translated(how: str) -> Fate:
    return Fate(Outcome.TRANSLATED, how)


def not_expressible(why: str) -> Fate:
    return Fate(Outcome.NOT_EXPRESSIBLE, why)


Fates = Mapping[str, Fate]
"""kind, or kind.name -> fate; the longer key wins"""


@dataclass(frozen=True)
class Rendering:
    """Files of one deployment for one target, and what became of each setting."""

    files: dict[str, str]
    settings: tuple[tuple[Setting, Fate], ...]
    notes: tuple[str, ...] = ()
    """what to know or do that no file can hold"""

    def lost(self) -> list[tuple[Setting, Fate]]:
        """The settings that the files do not hold."""
        return [(s, f) for s, f in self.settings if f.outcome is Outcome.NOT_EXPRESSIBLE]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        lines = [
            {
                **({"pool": setting.pool} if setting.pool else {}),
                "setting": f"{setting.kind}.{setting.name}",
                "value": setting.value,
                "outcome": fate.outcome,
                "how": fate.how,
            }
            for setting, fate in self.settings
        ]
        return {"settings": lines, "notes": list(self.notes)}

    def text(self) -> str:
        """The same for people, one line a setting."""
        rows = [
            f"{fate.outcome:16} {s.pool + ' ' if s.pool else ''}{s.name} = {shown(s.value)}: "
            f"{fate.how}"
            for s, fate in self.settings
        ]
        return "\n".join([*rows, "", *(f"Note: {note}" for note in self.notes)]).rstrip() + "\n"


def rendering(
    deployment: Deployment, files: dict[str, str], fates: Fates, *notes: str
) -> Rendering:
    """`files` with the fate of every setting of `deployment`."""
    lines = [(s, _fate(deployment, s, fates)) for s in settings_of(deployment)]
    left = [
        (Setting(Kind.DEPLOYMENT, "", name, value), not_expressible(why))
        for name, value, why in deployment.left_out
    ]
    return Rendering(files, (*lines, *left), notes)


def _fate(deployment: Deployment, setting: Setting, fates: Fates) -> Fate:
    if setting.kind is Kind.FLAG and deployment.lacks(setting.name):
        return not_expressible(f"vLLM {deployment.engine_version} does not have it")
    named = f"{setting.kind}.{setting.name}"
    return fates[named] if named in fates else fates[setting.kind]


def settings_of(deployment: Deployment) -> Iterator[Setting]:
    """Every setting of `deployment`, each once."""
    for name in ("name", "namespace", "model", "engine_version", "image"):
        yield Setting(Kind.DEPLOYMENT, "", name, getattr(deployment, name))
    router = deployment.router
    yield Setting(Kind.ROUTER, "", "rule", router.rule)
    if deployment.is_pd:
        yield Setting(Kind.ROUTER, "", "decode_rule", router.decode_rule)
    for name in _RULE_SETTINGS.get(router.rule, ()):
        yield Setting(Kind.ROUTER, "", name, getattr(router, name))
    for pool in deployment.pools:
        yield from _settings_of_pool(pool)


_RULE_SETTINGS = {
    PREFIX_AWARE: ("guard_requests", "guard_ratio"),
    PROMPT_LENGTH: ("short_tokens",),
    PRIORITY: ("urgent_priority", "reserved_share"),
}
"""router rule -> its own settings"""


def _settings_of_pool(pool: EnginePool) -> Iterator[Setting]:
    for name in ("role", "replicas", "num_gpus"):
        yield Setting(Kind.POOL, pool.label, name, getattr(pool, name))
    for flag, value in pool.flags.items():
        if value is not None:
            yield Setting(Kind.FLAG, pool.label, flag, value)
    for name, text in pool.environment.items():
        yield Setting(Kind.ENVIRONMENT, pool.label, name, text)
    if pool.kv_transfer is not None:
        yield from _settings_of_transfer(pool.label, pool.kv_transfer)


def _settings_of_transfer(label: str, kv: KvTransfer) -> Iterator[Setting]:
    for name in ("connector", "kv_role", "load_failure_policy", "side_channel_port"):
        yield Setting(Kind.KV, label, name, getattr(kv, name))
    if kv.extra:
        yield Setting(Kind.KV, label, "extra", kv.extra)
    yield Setting(Kind.KV, label, "side_channel_host", "the replica's own address")


def shown(value: Any) -> str:
    """`value` as JSON, strings bare; what JSON does not know (a date in YAML) as text."""
    return value if isinstance(value, str) else json.dumps(value, default=str)
