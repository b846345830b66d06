"""Reading a study file: whose traffic, which engine, which SLOs, what to search.

Every key is checked once, here; an unknown one is an error. Paths are relative to the file. The
sections are in `tuner.schema`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from profiler.engines.rehearsal.spec import LATENCY_MODEL
from profiler.errors import StudyError
from profiler.traffic.doctor import ReadReport
from profiler.traffic.trace import Trace
from tuner.messages import one_line
from tuner.schema import Study
from tuner.silicon_section import SiliconSection
from tuner.traffic_section import Traffic


class _Loader(yaml.SafeLoader):
    """Plain YAML, but a key that is given twice is an error and not the last one's silent win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.YAMLError(f"line {key_node.start_mark.line + 1}: a key must be a word")
            key = key_node.value
            if key in seen:
                raise yaml.YAMLError(f"line {key_node.start_mark.line + 1}: {key!r} is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def load_study(path: Path, base: Path | None = None) -> Study:
    """The study in `path`, its paths made absolute. Raises `StudyError`, one line.

    `base` is for the copy in a run folder: where its paths start from. A model folder that is no
    longer there is left as written, because what a run has kept does not need it.
    """
    what = f"study {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{what} cannot be read: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise StudyError(f"{what} is not valid YAML: {error}") from error
    place = path.parent.resolve() if base is None else base
    return placed(parse_study(text, what), place, needed=base is None)


def parse_study(text: str, what: str) -> Study:
    """The study that `text` is, its paths as written; messages call it `what`. Raises
    `StudyError`, one line."""
    try:
        content = _Loader(text).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as the 32nd of May
        raise StudyError(f"{what} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise StudyError(f"{what} must be a mapping of keys, got {type(content).__name__}")
    return _checked(content, what)


def placed(study: Study, base: Path, *, needed: bool = True) -> Study:
    """`study` with its paths made absolute, from `base` on; a model folder must be there if it is
    `needed`. Raises `StudyError`."""
    return _absolute(study, base, _model_path(study.engine.model, base, needed=needed))


def text_of(study: Study) -> str:
    """A study file of `study`, whose paths are absolute: every key, no comments."""
    plain = study.model_dump(mode="json", by_alias=True)
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return text


def _checked(content: dict[str, Any], what: str) -> Study:
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        found = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        raise StudyError(f"{what}: {one_line(found[0], Study)}") from error


_EXCLUDES = {
    "traffic.path": ("like", "mix", "format", "map"),
    "profile.path": ("budget_s", "silicon"),
    "profile.budget_s": ("path", "silicon"),
}
"""key -> keys of its section that go when it is set"""


def overridden(study: Study, changes: Mapping[str, Any]) -> Study:
    """`study` with "section.key" values from the command line; Nones change nothing."""
    content = study.model_dump(by_alias=True)
    for where, value in changes.items():
        if value is None:
            continue
        section, key = where.split(".")
        content[section][key] = str(value.resolve()) if isinstance(value, Path) else value
        content[section] |= dict.fromkeys(_EXCLUDES.get(where, ()))
    return _checked(content, "command line")


def _absolute(study: Study, base: Path, model: str) -> Study:
    traffic = study.traffic
    if traffic.path is not None:
        traffic = traffic.model_copy(update={"path": str(_placed(base, traffic.path))})
    profile = study.profile
    if profile.path is not None:
        profile = profile.model_copy(update={"path": str(_placed(base, profile.path))})
    if profile.silicon is not None:
        profile = profile.model_copy(update={"silicon": _absolute_silicon(profile.silicon, base)})
    fleet = study.fleet
    if fleet is not None and fleet.link.name and (base / Path(fleet.link.name)).exists():
        link = fleet.link.model_copy(update={"name": str(base / fleet.link.name)})
        fleet = fleet.model_copy(update={"link": link})
    args = dict(study.engine.args)
    named = args.get(LATENCY_MODEL)
    if isinstance(named, str) and _placed(base, named).exists():
        args[LATENCY_MODEL] = str(_placed(base, named))
    engine = study.engine.model_copy(update={"model": model, "args": args})
    changes = {"traffic": traffic, "profile": profile, "engine": engine, "fleet": fleet}
    return study.model_copy(update=changes)


def _absolute_silicon(silicon: SiliconSection, base: Path) -> SiliconSection:
    changes = {}
    if silicon.model is not None and _placed(base, silicon.model).exists():
        changes["model"] = str(_placed(base, silicon.model))
    if silicon.calibrate is not None:
        changes["calibrate"] = str(_placed(base, silicon.calibrate))
    return silicon.model_copy(update=changes)


def _placed(base: Path, name: str) -> Path:
    """`name` from `base` on. Raises `StudyError` for the home of nobody."""
    try:
        return base / Path(name).expanduser()
    except RuntimeError as error:
        raise StudyError(f"no home folder for {name!r}; give the whole path") from error


def _model_path(model: str, base: Path, *, needed: bool) -> str:
    """A folder made absolute, or a model name unchanged. Names never start with . / or ~."""
    folder = _placed(base, model)
    if folder.is_dir():
        return str(folder)
    if needed and model.startswith((".", "/", "~")):
        raise StudyError(
            f"engine.model: no such folder {str(folder)!r}; give a folder with a config.json "
            "(relative to the study file) or a model name"
        )
    return model


def build_trace(study: Study) -> Trace:
    """The study's traffic, see `read_traffic`. Raises `TraceError`."""
    return read_traffic(study)[0]


def read_traffic(study: Study) -> tuple[Trace, ReadReport | None]:
    """The study's traffic: read or synthesised, from `start_s`, at `rate_rps`, for `duration_s`;
    and how it was read, where it was.

    `start_s` is in the recording's own time; `rate_rps` stretches what follows to that mean rate;
    `duration_s` is seconds of the traffic that results; `share` of its requests are kept. Lengths
    are capped last.
    Raises `TraceError`.
    """
    t = study.traffic
    trace, report = _recorded(t) if t.path is not None else (_synthetic(t), None)
    if t.start_s:
        trace = trace.slice(t.start_s, math.inf)
    if t.rate_rps is not None and t.path is not None:
        trace = trace.scale_rate(t.rate_rps)
    if t.duration_s is not None:
        trace = trace.slice(0.0, t.duration_s)
    if t.share < 1.0:
        trace = trace.sample(max(1, round(t.share * trace.num_requests)), t.seed)
    trace = trace.cap(max_prompt_tokens=t.max_prompt_tokens, max_output_tokens=t.max_output_tokens)
    return trace, report


def _recorded(t: Traffic) -> tuple[Trace, ReadReport]:
    from profiler.traffic.columns import ColumnMap  # heavy: not needed once a run has its trace
    from profiler.traffic.readers import read_trace

    mapping = ",".join(f"{key}={value}" for key, value in (t.map or {}).items())
    read = read_trace(
        Path(str(t.path)),
        fmt=t.format,
        mapping=ColumnMap.parse(mapping) if mapping else None,
        rate_rps=t.rate_rps,
        stretch=False,
    )
    return read.trace, read.report


def _synthetic(t: Traffic) -> Trace:
    """Seeds of the classes of a mix follow each other."""
    from profiler.traffic.synthetic import like, mixed

    length = None if t.duration_s is None else t.start_s + t.duration_s
    if t.mix is None:
        assert t.like is not None  # checked by the schema
        return like(t.like, duration_s=length, rate_rps=t.rate_rps, seed=t.seed)
    parts = {}
    for number, (name, part) in enumerate(t.mix.items()):
        made = like(part.like, duration_s=length, rate_rps=part.rate_rps, seed=t.seed + number)
        parts[name] = made.cap(part.max_prompt_tokens, part.max_output_tokens)
    return mixed(parts)
