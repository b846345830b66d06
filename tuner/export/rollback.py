"""The way back: the configuration that is replaced, what differs, and the commands."""

from __future__ import annotations

import difflib
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from profiler.errors import ExportError
from tuner.export.deployment import Deployment
from tuner.export.settings_report import shown
from tuner.export.targets import Target

PREVIOUS = "previous"
MOST_BYTES, _MOST_LINES = 256 * 1024, 5_000
"""of a configuration that is given as bytes"""
_MOST_LEAVES, _MOST_ALIASES, _MOST_DEPTH = 10_000, 20, 50
"""of YAML that is compared setting by setting; by aliases a small file can stand for billions"""
_NAME_LENGTH = 80


def read_current(path: Path) -> tuple[str, str]:
    """(name, text) of the file of the running configuration. Raises `ExportError`."""
    try:
        return path.name, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExportError(
            f"--current {path} cannot be read ({error}); give the file that is deployed now"
        ) from error


def given_current(name: str, content: bytes) -> tuple[str, str]:
    """(name, text) of a configuration that came from elsewhere: `name` is made a plain file name
    of letters, digits, dots and dashes. Raises `ExportError`."""
    last = re.split(r"[/\\]", name)[-1]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", last).lstrip("._-")[-_NAME_LENGTH:] or "current"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ExportError(
            f"{plain} is not UTF-8 text ({error.reason}); give the file that is deployed now"
        ) from error
    if len(content) > MOST_BYTES or text.count("\n") > _MOST_LINES:
        raise ExportError(
            f"a configuration may have {MOST_BYTES // 1024} KB and {_MOST_LINES:,} lines, {plain} "
            "has more; give only the file that the new one replaces"
        )
    return plain, text


def rollback_files(
    deployment: Deployment, target: Target, files: dict[str, str], current: tuple[str, str]
) -> dict[str, str]:
    """`previous/NAME`, `diff.txt` and `ROLLBACK.md` for the running configuration `current`."""
    name, text = current
    ours = _counterparts(deployment, files, name)
    return {
        f"{PREVIOUS}/{name}": text,
        "diff.txt": "\n".join(_difference(name, text, one, files[one]) for one in ours),
        "ROLLBACK.md": _page(deployment, target, name, ours[0]),
    }


def _counterparts(deployment: Deployment, files: dict[str, str], name: str) -> list[str]:
    """Our file of the same name, else those of the same kind: one, or one for each pool."""
    if name in files:
        return [name]
    kinds = {".yml": ".yaml"}
    suffix = kinds.get(Path(name).suffix, Path(name).suffix)
    of_pools = [own for pool in deployment.pools if (own := f"{pool.label}{suffix}") in files]
    first = next((n for n in files if n.endswith(suffix)), next(iter(files)))
    return of_pools or [first]


def _difference(name: str, text: str, ours: str, our_text: str) -> str:
    """Settings that differ where both are YAML, then the lines that differ."""
    old, new = _leaves_of(text), _leaves_of(our_text)
    parts = []
    if old and new:
        parts = ["Settings that change:", *_changes(old, new), ""]
    lines = difflib.unified_diff(
        text.splitlines(), our_text.splitlines(), f"{PREVIOUS}/{name}", ours, lineterm=""
    )
    return "\n".join([*parts, *lines]) + "\n"


def _changes(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        before, after = (shown(d[key]) if key in d else "(not set)" for d in (old, new))
        if before != after:
            yield f"  {key}: {before} -> {after}"


def _leaves_of(text: str) -> dict[str, Any]:
    """Path -> value of every leaf of YAML documents; nothing for what is not YAML mappings, is
    too large or contains itself."""
    try:
        if not _is_harmless(text):
            return {}
        documents = [d for d in yaml.safe_load_all(text) if d is not None]
        if not all(isinstance(d, dict) for d in documents):
            return {}
        named = {_document_name(d): d for d in documents}
        if len(documents) == 1:
            named = {"": _plain_flags(documents[0])}
        pairs = (pair for name, d in named.items() for pair in _leaves(name, d))
        leaves = list(itertools.islice(pairs, _MOST_LEAVES + 1))
    except (yaml.YAMLError, ValueError, RecursionError):  # a ValueError: a date that is none
        return {}
    return dict(leaves) if len(leaves) <= _MOST_LEAVES else {}


def _is_harmless(text: str) -> bool:
    """Whether YAML has few aliases and is not deep, found without building it."""
    aliases = depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        aliases += isinstance(event, yaml.AliasEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if aliases > _MOST_ALIASES or depth > _MOST_DEPTH:
            return False
    return True


def _plain_flags(document: dict[str, Any]) -> dict[str, Any]:
    """`no-flag: true` of a vLLM configuration as `flag: false`, underscores as dashes."""
    plain: dict[str, Any] = {}
    for key, value in document.items():
        name = str(key).replace("_", "-")
        negated = name.startswith("no-") and value is True
        plain[name.removeprefix("no-") if negated else name] = False if negated else value
    return plain


def _document_name(document: dict[str, Any]) -> str:
    meta = document.get("metadata")
    return f"{document.get('kind')}/{meta.get('name') if isinstance(meta, dict) else None}"


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), child)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for i, child in enumerate(value):
            yield from _leaves(f"{path}[{i}]", child)
    else:
        yield path, str(value) if value.__class__.__name__ in ("date", "datetime") else value


def _page(deployment: Deployment, target: Target, name: str, ours: str) -> str:
    def commands(templates: tuple[str, ...], file: str) -> list[str]:
        known = {"name": deployment.name, "namespace": deployment.namespace}
        filled = [_own_form(t, file).format(file=shlex.quote(file), **known) for t in templates]
        return ["```sh", *filled, "```"]

    back = f"{PREVIOUS}/{name}"
    new = commands(target.apply, ours)
    if target.start is not None:
        new = ["```sh", *target.start(deployment), "```"]
    lines = [
        f"# Back from {deployment.name}",
        "",
        "Run these in this folder.",
        "",
        "Put the new configuration into effect"
        + (f" (`{ours}`):" if target.start is None else ":"),
        "",
        *new,
        "",
        f"Go back to what ran before (`{back}`):",
        "",
        *commands(target.apply, back),
        "",
        "See that it is in effect:",
        "",
        *commands(target.watch, back),
    ]
    if "kubectl apply" in target.apply[0]:
        lines += [
            "",
            "Then remove what the new configuration added under other names (objects that "
            f"`{back}` has as well must stay; see diff.txt):",
            "",
            "```sh",
            f"kubectl diff -f {shlex.quote(back)} # empty: all of it is in effect again",
            f"kubectl get -f {shlex.quote(ours)} -o name # what is left of the new one",
            "```",
        ]
    return "\n".join(lines) + "\n"


def _own_form(template: str, file: str) -> str:
    """A shell script is run, not given to `--config`."""
    return "sh {file}" if file.endswith(".sh") else template
