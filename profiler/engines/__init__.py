"""Engines by name. A new one: implement `base.Engine`, add it here, pass the conformance suite."""

from __future__ import annotations

from collections.abc import Callable

from profiler.engines.base import Engine, EngineSpec
from profiler.engines.fake import FakeEngine
from profiler.engines.rehearsal.driver import RehearsalEngine
from profiler.engines.vllm.driver import VllmEngine
from profiler.errors import InputError

ENGINES: dict[str, Callable[[EngineSpec], Engine]] = {
    "vllm": VllmEngine,
    "rehearsal": RehearsalEngine,
    "fake": FakeEngine,
}


def start_engine(spec: EngineSpec) -> Engine:
    """A started engine, ready for `replay`; see the life cycle in `profiler.engines.base`.

    Raises
    ------
    InputError
        No engine has that name, or a setting or the model folder breaks a rule.
    MissingExtraError
        The engine is not installed.
    EngineStartError
        The engine did not become ready; nothing of it is left running.
    """
    if spec.engine not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(ENGINES)}, got {spec.engine!r}")
    return ENGINES[spec.engine](spec)
