"""Engine settings as deployment repositories keep them, read back as knobs.

Understood are a file for `vllm serve --config` (YAML), a plain YAML or JSON mapping of settings, a
text file with a `vllm serve ...` command line, and a folder that `stallfree export` wrote. Flags
are matched by the knob table; what it does not have is kept apart, never dropped in silence.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from profiler.engine_config import EngineConfig, check_value, parse_value
from profiler.errors import InputError, KnobError
from profiler.knobs import KNOBS

IN_FOLDER = ("vllm.yaml", "command.sh")
"""files of an exported bundle that hold its settings; the first that is there is read"""
MOST_BYTES = 1024 * 1024
Pair = tuple[str, Any]
"""flag with underscores and without dashes in front, and its value"""

_KNOB_OF_FLAG = {k.flag.removeprefix("--").replace("-", "_"): k.name for k in KNOBS.values()}
_SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "q": "quantization",
    "sc": "speculative_config",
}
_SPECULATIVE = {"num_speculative_tokens": "num_speculative_tokens", "method": "speculative_method"}
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_COMMAND = re.compile(r"\bvllm\s+serve\b|\bvllm\.entrypoints\b")


@dataclass(frozen=True)
class FileSettings:
    """What a file says. Filled by `read_settings`."""

    config: EngineConfig
    """settings of the knob table; the others are left to the engine"""
    others: dict[str, Any]
    """flags that are no knobs, with underscores, and their values"""
    notes: list[str]
    """what a reader should know of how the engine takes the file, in words"""


def read_settings(path: Path) -> FileSettings:
    """The engine settings in a file or an exported bundle.

    Raises
    ------
    InputError
        The file cannot be read or is of none of the forms.
    KnobError
        A value is illegal, as the engine would refuse it at start.
    """
    pairs, notes = _pairs(_file_in(path))
    settings: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in _flat(pairs):
        known = _KNOB_OF_FLAG.get(name, name)
        if known not in KNOBS:
            others[name] = value
        elif not _is_auto(known, value):
            settings[known] = _value(known, value)
    return FileSettings(EngineConfig.from_settings(settings), others, notes)


def _file_in(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in IN_FOLDER:
        if (path / name).is_file():
            return path / name
    if (path / "decode.yaml").is_file():
        raise InputError(
            f"{path} is a bundle of prefill and decode pools, and settings are judged on one "
            "engine; give a bundle of one pool"
        )
    if (path / "evidence.json").is_file():
        raise InputError(
            f"{path} is a bundle of another target than vllm; write one to judge with "
            "`stallfree export STUDY --target vllm -o FOLDER`"
        )
    raise InputError(
        f"{path} is no exported bundle: none of {', '.join(IN_FOLDER)} is in it; give a bundle or "
        "a file"
    )


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} is larger than {MOST_BYTES} bytes; give a file of settings")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text; give a file of settings") from error


def _pairs(path: Path) -> tuple[list[Pair], list[str]]:
    """Flags and values in the order in which later ones win, and notes."""
    text = _read(path)
    if path.suffix not in (".yaml", ".yml", ".json") and _COMMAND.search(text):
        return _command_pairs(text, path)
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        what = " ".join(str(error).split())
        raise InputError(f"{path} is neither YAML, JSON nor a command line: {what}") from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InputError(
            f"{path} must be a mapping of settings or hold a `vllm serve` command, got "
            f"{type(content).__name__}"
        )
    if "apiVersion" in content or "services" in content:
        raise InputError(
            f"{path} is a manifest; give the engine's settings alone, for example as a file for "
            "`vllm serve --config`"
        )
    return list(_mapping_pairs(content)), _dropped(content, path)


def _mapping_pairs(content: dict[str, Any]) -> Iterator[Pair]:
    for key, value in content.items():
        yield _negated(key.replace("-", "_"), value)


def _negated(name: str, value: Any) -> Pair:
    """`no_flag: true` as `flag: false`, for flags of the knob table."""
    plain = name.removeprefix("no_")
    if plain != name and _KNOB_OF_FLAG.get(plain, plain) in KNOBS and value is True:
        return plain, False
    return name, value


def _dropped(content: dict[str, Any], path: Path) -> list[str]:
    """A word on each false that vLLM's own reader of such files may drop."""
    if path.suffix == ".json":
        return []
    return [
        f"{key}: false is judged as false, but many versions of vLLM drop it from a --config file; "
        f"write no-{key.replace('_', '-')}: true"
        for key, value in content.items()
        if value is False and _KNOB_OF_FLAG.get(key.replace("-", "_")) is not None
    ]


def _command_pairs(text: str, path: Path) -> tuple[list[Pair], list[str]]:
    """Flags of the `vllm serve` command in `text`, those of its --config file first."""
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise InputError(f"{path} holds no command line: {error}; check its quotes") from error
    start = next(
        (i for i, w in enumerate(words) if w == "serve" or w.startswith("vllm.entrypoints")), None
    )
    if start is None:
        raise InputError(f"{path} holds no `vllm serve` command; give one, or YAML")
    pairs = list(_word_pairs(words[start + 1 :]))
    files = [value for name, value in pairs if name == "config"]
    if not files:
        return pairs, []
    place = path.parent / str(files[-1])
    if place.suffix not in (".yaml", ".yml"):
        raise InputError(f"--config {files[-1]} in {path} must be a .yaml file, as vLLM asks")
    below, notes = _pairs(place)
    return [*below, *(pair for pair in pairs if pair[0] != "config")], notes


_ENDS = (";", "&&", "||", "|", "&", "$@")


def _word_pairs(words: list[str]) -> Iterator[Pair]:
    """Flags among the words of a command line, up to its end."""
    stop = next((i for i, word in enumerate(words) if word in _ENDS), len(words))
    words = words[:stop]
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _is_flag(word):
            continue
        name, equals, value = word.partition("=")
        name = name.lstrip("-").replace("-", "_")
        name = name if word.startswith("--") else _SHORT.get(name, name)
        if equals:
            yield name, value
            continue
        values = []
        while at < len(words) and not _is_flag(words[at]) and not _is_switch(name):
            values.append(words[at])
            at += 1
        found = values[0] if len(values) == 1 else values
        yield _negated(name, found if values else True)


def _is_flag(word: str) -> bool:
    """A word that names a flag; -1 is a value."""
    return re.match(r"--?[A-Za-z]", word) is not None


def _is_switch(name: str) -> bool:
    """Whether the flag is a boolean knob, which takes no value."""
    plain = name.removeprefix("no_")
    known = KNOBS.get(_KNOB_OF_FLAG.get(plain, plain))
    return known is not None and known.kind == "bool"


def _flat(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The same with what `speculative_config` holds as pairs of their own."""
    for name, value in pairs:
        head, _, key = name.partition(".")
        if head != "speculative_config":
            yield name, value
            continue
        for inner, given in _speculative(key, value).items():
            key = inner.replace("-", "_")
            yield _SPECULATIVE.get(key, f"{head}.{key}"), given


def _speculative(key: str, value: Any) -> dict[str, Any]:
    if key:
        return {key: value}
    try:
        content = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise InputError(f"speculative_config must be a JSON object, got {value!r}")
    return content


def _is_auto(name: str, value: Any) -> bool:
    """Whether a value leaves the setting to the engine."""
    return value is None or (name == "max_model_len" and str(value).lower() in ("-1", "auto"))


def _value(name: str, value: Any) -> Any:
    """The knob's value, from text as well; 8k is 8000 and 8K 8192, as vLLM reads them."""
    if not isinstance(value, str):
        return check_value(name, value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgKMG])", value.strip())
    if match is None or KNOBS[name].kind != "int":
        return parse_value(name, value)
    if "." in match[1] and match[2].isupper():
        raise KnobError(f"{name} must be int, got {value!r}; write {value.lower()} or a number")
    return check_value(name, int(float(match[1]) * _SUFFIXES[match[2]]))
