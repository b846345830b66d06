"""A configuration as deployment files: what it is, its files, and all of them as one archive."""

from __future__ import annotations

import streamlit as st

from dashboard import archive, data, parts, session
from dashboard.markdown import plain
from dashboard.words import export_words
from profiler.errors import ExportError, StallfreeError, StudyError
from tuner.candidate import Evidence
from tuner.export.bundle import BundleOptions, bundle, held_out_of
from tuner.export.from_results import BEST, KNEE, RECOMMENDED, Pick, picked
from tuner.export.rollback import MOST_BYTES, PREVIOUS, given_current
from tuner.export.targets import TARGETS
from tuner.results import Results

_BESIDE = ("settings-report.json", "settings-report.txt", "evidence.json", "EVIDENCE.md")
_AFTER = ("CANARY.md", "alerts.yaml", "diff.txt", "ROLLBACK.md")


def page() -> None:
    """Draw the page."""
    st.title("Export")
    run, results = parts.finished_run()
    top = st.container()
    name = _chosen_name(results)
    pick = parts.chosen_point(results)
    with top:
        _say(results, pick)
    target = _target(run)
    current = _current()
    options = BundleOptions(target, name, current)
    try:
        files = bundle(results, options, held_out_of(run.folder))
    except ExportError as error:
        st.error(plain(f"{target} cannot run this configuration: {error}"))
        return
    _download(run, results, options, files)
    _show(run, files, current is not None)


def _chosen_name(results: Results) -> str:
    """What to export; other pages see it too. A number of the session is among the choices."""
    names = [n for n in (RECOMMENDED, KNEE, BEST) if _exists(results, n)]
    now = session.point()
    if now not in names and now.isdecimal() and _exists(results, now):
        names.append(now)
    chosen = st.selectbox(
        "Configuration",
        names,
        index=names.index(now) if now in names else 0,
        format_func=lambda n: _words(results, n),
        help="knee: nearest to the ideal point of the front; best: highest predicted goodput, of "
        "fleets per GPU. Any other one: choose it on the page Front.",
    )
    if now in names:  # else `parts.chosen_point` says that there is none
        session.choose(chosen)
    return chosen


def _exists(results: Results, name: str) -> bool:
    try:
        return picked(results, name) is not None
    except StudyError:
        return False


def _words(results: Results, name: str) -> str:
    label = picked(results, name).candidate.label
    first = f"trial {name}" if name.isdecimal() else name
    return first if label in (name, f"trial-{name}") else f"{first} ({label})"


def _say(results: Results, pick: Pick) -> None:
    """What is exported, its evidence, and whether it meets the SLOs."""
    parts.answer(export_words.what(results, pick))
    text = plain(export_words.standing(results, pick))
    if not pick.meets_slo:
        st.error(text)
    elif pick.evidence is Evidence.PREDICTED:
        st.warning(text)
    elif pick.evidence is Evidence.REHEARSED:
        st.info(text)
    else:
        st.success(text)


def _target(run: data.Run) -> str:
    """What to deploy to: at first what the study asks for."""
    names = list(TARGETS)
    try:
        wanted = run.study.export.target
    except StallfreeError:
        wanted = names[0]
    index = names.index(wanted) if wanted in names else 0
    return st.selectbox("Target", names, index=index, key=f"target-{run.name}")


def _current() -> tuple[str, str] | None:
    """The configuration that runs now, where it was given."""
    given = st.file_uploader(
        "What runs now, for the difference and the way back (optional)",
        max_upload_size=1,
        help="The file that the new one replaces: a vLLM configuration, values, a manifest or a "
        f"script, at most {MOST_BYTES // 1024} KB. It is not kept.",
    )
    if given is None:
        return None
    try:
        return given_current(given.name, given.getvalue())
    except ExportError as error:
        st.error(plain(str(error)))
        return None


def _download(
    run: data.Run, results: Results, options: BundleOptions, files: dict[str, str]
) -> None:
    st.download_button(
        f"Download all {len(files)} files as one archive",
        archive.archive_of(files),
        archive.archive_name(results.study, options.pick, options.target),
        "application/zip",
        type="primary",
        on_click="ignore",
    )
    current = None if options.current is None else options.current[0]
    st.caption("The same from a shell:")
    command = archive.export_command(run.folder.path, options.target, options.pick, current)
    st.code(command, language="bash", wrap_lines=True)


def _show(run: data.Run, files: dict[str, str], with_current: bool) -> None:
    """The files and what they say, one tab each."""
    names = ["Files", "Settings", "Evidence", "Canary", "Alerts", "Difference"]
    shown, settings, evidence, canary, alerts, difference = st.tabs(names)
    with shown:
        _files(files)
    with settings:
        _settings(run, files)
    with evidence:
        st.markdown(files["EVIDENCE.md"])
    with canary:
        st.markdown(files["CANARY.md"])
    with alerts:
        st.code(files["alerts.yaml"], language="yaml", wrap_lines=True)
    with difference:
        if not with_current:
            st.info("Give the file of what runs now (above) to see what changes, and the way back.")
            return
        st.code(files["diff.txt"], language="diff", wrap_lines=True)
        st.markdown(files["ROLLBACK.md"])


def _files(files: dict[str, str]) -> None:
    """One file at a time, the target's own first."""
    own = [n for n in files if n not in (*_BESIDE, *_AFTER) and not n.startswith(f"{PREVIOUS}/")]
    name = st.selectbox("File", [*own, *(n for n in files if n not in own)])
    if name is not None:
        language = export_words.language_of(name)
        long = files[name].count("\n") > 30
        st.code(files[name], language, wrap_lines=True, height=600 if long else "content")


def _settings(run: data.Run, files: dict[str, str]) -> None:
    report = export_words.settings_of(files)
    st.markdown(plain(export_words.settings_sentence(report)))
    table = export_words.settings_table(report)
    parts.show_table(table, "settings", f"{run.name}-{report['target']}-settings")
    for note in report["notes"]:
        st.caption(plain(note))
    st.caption(
        f"Files of this target are checked in Stallfree's tests against "
        f"{plain(report['checked_against'])}."
    )
