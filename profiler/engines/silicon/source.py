"""Where a model's config.json is, and whether the published data knows engine, GPU and format."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory

from profiler.engines.silicon.published import (
    Published,
    bundled_models,
    systems_with_data,
)
from profiler.engines.silicon.spec import (
    ENGINES_WITH_DATA,
    KV_DTYPES,
    WEIGHT_DTYPES,
    SiliconSpec,
)
from profiler.errors import SiliconError
from profiler.model_spec import ModelSpec, read_model_spec


def check_spec(spec: SiliconSpec) -> None:
    """Raise `SiliconError` naming the nearest that the data holds."""
    for name, value, known in (
        ("engine", spec.engine, ENGINES_WITH_DATA),
        ("system", spec.system, systems_with_data(ENGINES_WITH_DATA[0])),
        ("weight_dtype", spec.weight_dtype, WEIGHT_DTYPES),
        ("expert_dtype", spec.expert_dtype or "auto", WEIGHT_DTYPES),
        ("kv_dtype", spec.kv_dtype, KV_DTYPES),
    ):
        if value not in known:
            raise SiliconError(
                f"{name} {value!r} is not in the published data; {nearest(value, known)}"
            )
    if spec.tp < 1 or spec.tp & (spec.tp - 1):
        raise SiliconError(f"tp must be a power of two, got {spec.tp}; give 1, 2, 4 or 8")


@contextmanager
def open_model(model: str) -> Iterator[tuple[Path, ModelSpec]]:
    """A folder that holds the model's config.json, and the model's shape.

    The package gets a folder for bundled models, too: it would download what it does not know.

    Raises
    ------
    SiliconError
        Neither a bundled name, a folder nor a file.
    ModelFolderError
        The config.json cannot be read.
    """
    bundled = bundled_models()
    config = bundled.get(model) or _local_config(model)
    if config is None:
        known = nearest(model, tuple(bundled))
        raise SiliconError(
            f"no model {model!r} in the published data, and no such folder or file; {known}, "
            "or give the model's config.json"
        )
    quantization = config.with_name(config.name.replace("config.json", "hf_quant_config.json"))
    with TemporaryDirectory() as place:
        folder = Path(place) / Path(model).name.removesuffix(".json")
        folder.mkdir()
        shutil.copyfile(config, folder / "config.json")
        if quantization.is_file():
            shutil.copyfile(quantization, folder / "hf_quant_config.json")
        yield folder, read_model_spec(folder)


def _local_config(model: str) -> Path | None:
    path = Path(model).expanduser()
    if path.is_dir():
        path = path / "config.json"
    return path.resolve() if path.is_file() else None


def open_published(spec: SiliconSpec, folder: Path) -> Published:
    """The published data of `spec`. Raises `SiliconError` naming the number formats it has."""
    try:
        return Published(spec, folder)
    except SiliconError as error:
        named = [d for d in WEIGHT_DTYPES if d != "auto"]
        has = [d for d in named if _answers(replace(spec, weight_dtype=d), folder)]
        raise SiliconError(
            f"{error}; weight formats that it has: {', '.join(has) or 'none'}"
        ) from error


def _answers(spec: SiliconSpec, folder: Path) -> bool:
    try:
        Published(spec, folder)
    except SiliconError:
        return False
    return True


def nearest(name: str, known: tuple[str, ...]) -> str:
    """ "nearest: ..." with the known names most like `name`, owners of models left aside."""
    own = {k.rsplit("/", 1)[-1].lower(): k for k in known}
    near = get_close_matches(name.rsplit("/", 1)[-1].lower(), own, n=4, cutoff=0.0)
    return f"nearest: {', '.join(own[k] for k in near)}"
