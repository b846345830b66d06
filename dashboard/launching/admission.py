"""What a study that comes from a browser may ask for: less than one on the command line.

It is parsed as there (`tuner.study`), with the same messages. Beyond that, its paths stay inside
the storage folder and the shipped models, and it sets none of the engine's arguments and
environment variables that could load code. Every refusal is one line that names the key and the
way out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

import studies
from profiler.engines.fake import OPTIONS
from profiler.engines.rehearsal.spec import LATENCY_MODEL
from profiler.errors import StudyError
from tuner.export.targets import target_named
from tuner.schema import EngineSection, Study
from tuner.simulator.links import LINKS
from tuner.study import parse_study

MAX_STUDY_BYTES = 64 * 1024
MAX_DEPTH = 20
MAX_NAME = 64
SHIPPED_MODELS = Path(studies.__file__).resolve().parent / "models"
ARGUMENTS = (
    "enforce_eager",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "kv_cache_memory_bytes",
    "pipeline_parallel_size",
    "tensor_parallel_size",
    LATENCY_MODEL,
    *OPTIONS,  # the fake engine's
)
"""of `engine.args`"""
ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_CPU_OMP_THREADS_BIND",
)
"""of `engine.environment`"""
LOAD_FORMATS = ("auto", "dummy", "safetensors")
"""without those that unpickle"""
_WAY_OUT = "run this study from the command line"
_MODEL_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_WORD = re.compile(r"[A-Za-z0-9][\w.:-]*")


def admitted(text: str, root: Path, base: Path) -> Study:
    """The study that `text` is, its paths as written; they start from `base`.

    Raises `StudyError` where the study is invalid, or asks for what it may not.
    """
    require_plain(text)
    study = parse_study(text, "the study")
    target_named(study.export.target)
    if len(study.name) > MAX_NAME:
        raise StudyError(f"name: at most {MAX_NAME} characters, got {len(study.name)}; shorten it")
    _require_engine(study.engine)
    _require_places(study, _Bounds(base.resolve(), (root.resolve(), SHIPPED_MODELS)))
    if study.search.workers > (most := os.cpu_count() or 1):
        raise StudyError(
            f"search.workers: this machine has {most} processors, got {study.search.workers}; "
            "give fewer"
        )
    return study


def require_plain(text: str) -> None:
    """Raise `StudyError` for a text that is too large, or whose YAML is no plain tree: an alias
    makes a few lines a structure of any size."""
    size = len(text.encode())
    if size > MAX_STUDY_BYTES:
        raise StudyError(f"a study has at most {MAX_STUDY_BYTES:,} bytes, got {size:,}; shorten it")
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise StudyError(
                    "a study from a browser has no YAML aliases "
                    f"(*{str(event.anchor)[:MAX_NAME]}); write the value out"
                )
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise StudyError(f"a study is at most {MAX_DEPTH} levels deep; flatten it")
    except yaml.YAMLError:
        return  # `parse_study` says it


def _require_engine(engine: EngineSection) -> None:
    for key, given, known in (
        ("args", engine.args, ARGUMENTS),
        ("environment", engine.environment, ENVIRONMENT),
    ):
        for name in given:
            if name not in known:
                raise StudyError(
                    f"engine.{key}.{name[:MAX_NAME]} is not set from a browser, where only "
                    f"{', '.join(known)} are; take it out, or {_WAY_OUT}"
                )
    for name, value in engine.args.items():
        if not isinstance(value, bool | int | float | str | None):
            raise StudyError(f"engine.args.{name}: give one value, or {_WAY_OUT}")
    if engine.load_format not in LOAD_FORMATS:
        raise StudyError(
            f"engine.load_format is one of {', '.join(LOAD_FORMATS)} from a browser; {_WAY_OUT}"
        )
    for key, text in (("dtype", engine.dtype), ("device", engine.device)):
        if not _WORD.fullmatch(text):
            raise StudyError(f"engine.{key}: give a word such as auto, or {_WAY_OUT}")


@dataclass(frozen=True)
class _Bounds:
    """Where the paths of a study may lead."""

    base: Path
    allowed: tuple[Path, ...]

    def require(self, key: str, path: str) -> None:
        """Raise `StudyError` unless `path`, with every link in it followed, stays inside."""
        try:
            place = (self.base / path).resolve()
        except (OSError, RuntimeError, ValueError):  # too long, links in a circle, a NUL
            place = Path("/")
        inside = any(place.is_relative_to(one) for one in self.allowed)
        if path.startswith("~") or not inside:
            raise StudyError(
                f"{key} leads out of the storage folder; give a path inside it, relative to it, "
                f"or {_WAY_OUT}"
            )

    def is_name(self, text: str, pattern: re.Pattern[str]) -> bool:
        """Whether `text` is a name such as `pattern` describes, and no file or folder."""
        return bool(pattern.fullmatch(text)) and not os.path.lexists(self.base / text)


def _require_places(study: Study, bounds: _Bounds) -> None:
    for key, path in _paths(study):
        bounds.require(key, path)
    for key, text, pattern in _names(study):
        if not bounds.is_name(text, pattern):
            bounds.require(key, text)


def _paths(study: Study) -> Iterator[tuple[str, str]]:
    """Every path in `study`, with its key."""
    silicon = study.profile.silicon
    for key, path in (
        ("traffic.path", study.traffic.path),
        ("profile.path", study.profile.path),
        ("profile.silicon.calibrate", None if silicon is None else silicon.calibrate),
    ):
        if path is not None:
            yield key, path
    link = None if study.fleet is None else study.fleet.link.name
    if link is not None and link not in LINKS:
        yield "fleet.link.name", link


def _names(study: Study) -> Iterator[tuple[str, str, re.Pattern[str]]]:
    """Every name in `study` that could also be a path, with its key and what names look like."""
    yield "engine.model", study.engine.model, _MODEL_NAME
    silicon = study.profile.silicon
    if silicon is not None and silicon.model is not None:
        yield "profile.silicon.model", silicon.model, _MODEL_NAME
    if LATENCY_MODEL in study.engine.args:
        yield f"engine.args.{LATENCY_MODEL}", str(study.engine.args[LATENCY_MODEL]), _WORD
