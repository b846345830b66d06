"""What `stallfree profile --silicon` does with its options."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

from profiler.collect import Profile
from profiler.collect.silicon import profile_silicon
from profiler.engines.silicon.fitted import fitted_terms
from profiler.engines.silicon.spec import NO_TERMS, SiliconSpec, Terms
from profiler.errors import StudyError
from tuner.cli.whatif import parse_settings
from tuner.results import DEFAULT_ROOT
from tuner.search.progress import Ui

FITTED_TERMS = "fitted"
"""stands for every constant that was fitted to published end-to-end measurements"""


@dataclass(frozen=True)
class SiliconRequest:
    """The options as given."""

    model: str | None
    system: str | None
    engine: str
    tp: int
    weight_dtype: str
    kv_dtype: str
    expert_parallel: bool
    settings: tuple[str, ...]
    without: tuple[str, ...]
    calibrate: Path | None


def predict_from_options(request: SiliconRequest, out: Path | None, ui: Ui) -> tuple[Profile, Path]:
    """The predicted profile, and where it belongs. Raises `StallfreeError` subclasses."""
    spec = spec_of(request)
    config = parse_settings(request.settings)
    measured = None if request.calibrate is None else Profile.load(request.calibrate)
    ui.stage(f"predicting {spec.model} on {spec.tp} x {spec.system}")
    with ui.progress("tables") as progress:
        made = profile_silicon(spec, config, measured=measured, progress=progress)
    name = f"{Path(spec.model).name}-{spec.system}-tp{spec.tp}"
    if spec.weight_dtype != "auto":
        name += f"-{spec.weight_dtype}"
    return made, out if out is not None else DEFAULT_ROOT / "profiles" / name


def spec_of(request: SiliconRequest) -> SiliconSpec:
    """What the options ask for. Raises `StudyError` when model or GPU is missing."""
    if request.model is None or request.system is None:
        raise StudyError(
            "--silicon needs --model (a bundled name or a config.json) and --system (a GPU, for "
            "example h200_sxm)"
        )
    return SiliconSpec(
        model=request.model,
        system=request.system,
        engine=request.engine,
        tp=request.tp,
        weight_dtype=request.weight_dtype,
        kv_dtype=request.kv_dtype,
        expert_parallel=request.expert_parallel,
        terms=terms_without(
            request.without, fitted_terms(request.system, request.model, request.weight_dtype)
        ),
    )


def terms_without(names: tuple[str, ...], known: Terms | None = None) -> Terms:
    """All terms but those named; `known` are those fitted for the GPU and model.

    Raises `StudyError` for the name of an unknown term.
    """
    terms = [field.name for field in fields(Terms)]
    left_out = [name for name in names if name != FITTED_TERMS]
    for name in left_out:
        if name not in terms:
            raise StudyError(
                f"--without takes one of {', '.join(terms)} or {FITTED_TERMS}, got {name!r}"
            )
    start = known if known is not None and FITTED_TERMS not in names else Terms()
    return replace(start, **{name: getattr(NO_TERMS, name) for name in left_out})
