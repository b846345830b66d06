"""Launching studies from the page: queue, stop, resume, clone. Only with --allow-launch.

Nothing runs in the dashboard: a study is checked (`dashboard.launching.admission`), put into a run
folder, and left to a worker (`stallfree worker`).
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard import data, session
from dashboard.launching import admission, draft, form
from dashboard.markdown import plain
from dashboard.options import current
from dashboard.uploads.kept import keep_trace, kept_traces
from profiler.errors import ResultsError, StallfreeError, StudyError
from tuner.search import run_queue
from tuner.search.run_state import Phase
from tuner.search.worker import is_at_work

HOW_TO_GET = (
    "This page only looks. Start `stallfree dashboard --allow-launch` to launch, stop and resume "
    "studies here."
)
_QUEUED = "launch-queued"


def queue(text: str, base: Path | None = None) -> str:
    """Queue the study in `text`, whose paths start from `base` or else the storage folder; its
    name. Raises `StudyError`, `ResultsError`."""
    _require_allowed()
    root = current().root
    place = root if base is None else base
    admission.admitted(text, root, place)
    return run_queue.enqueue(root, text, place).path.name


def _require_allowed() -> None:
    if not current().allow_launch:
        raise ResultsError("launching is off; start `stallfree dashboard --allow-launch`")


def show(run: data.Run | None) -> None:
    """The controls of `run`, and what launches another study."""
    if not current().allow_launch:
        st.caption(HOW_TO_GET)
        return
    said = _say_queued()
    if run is not None:
        _controls(run)
        if not said and run.state.phase is Phase.QUEUED and not is_at_work(current().root):
            st.caption(f"No worker runs; start one: {_worker_command()}")
    with st.expander("Launch a study", expanded=run is None):
        by_form, by_file, trace = st.tabs(["Form", "Study file", "Upload a trace"])
        with by_form:
            _form()
        with by_file:
            _study_file()
        with trace:
            _trace()


def _say_queued() -> bool:
    """What became of the click that queued a study, once; whether there was one."""
    name = st.session_state.pop(_QUEUED, None)
    if name is None:
        return False
    if is_at_work(current().root):
        st.success(f"{name} is queued; a worker takes it when those before it are done.")
    else:
        st.warning(f"{name} is queued, and no worker runs. Start one: {_worker_command()}")
    return True


def _worker_command() -> str:
    return f"`stallfree worker {current().root}`"


def _queue_and_look(text: str, base: Path | None = None) -> None:
    """Queue, look at the new run, and say so; or say in one line why not."""
    try:
        name = queue(text, base)
    except StallfreeError as error:
        st.error(_short(error))
        return
    _look_at_queued(name)


def _look_at_queued(name: str) -> None:
    st.session_state[_QUEUED] = name
    session.look_at(name)
    st.rerun()


def _short(error: StallfreeError) -> str:
    text = str(error)
    return plain(text if len(text) <= 500 else f"{text[:500]} ...")


def _controls(run: data.Run) -> None:
    """Buttons for what can be done with `run`."""
    phase = run.state.phase
    with st.container(horizontal=True):
        if phase in (Phase.RUNNING, Phase.QUEUED) and st.button(f"Stop {run.name}"):
            _do(run, stop=True)
        if phase in run_queue.RESUMABLE and st.button(f"Resume {run.name}"):
            _do(run, stop=False)
        clone = st.toggle(f"Clone {run.name}", key=f"clone-{run.name}")
    if clone:
        _clone(run)


def _do(run: data.Run, *, stop: bool) -> None:
    try:
        _require_allowed()
        (run_queue.stop if stop else run_queue.resume)(run.folder)
    except StallfreeError as error:
        st.error(_short(error))
        return
    if stop:
        st.toast(f"{run.name} is asked to stop; what it has finished is kept.")
        st.rerun()
    _look_at_queued(run.name)


def _clone(run: data.Run) -> None:
    """The study's text, to change and to queue under another name."""
    try:
        text = run.folder.study_file.read_text(encoding="utf-8")
        base = run.folder.base
    except (OSError, UnicodeDecodeError, StallfreeError) as error:
        st.error(plain(f"the study of {run.name} cannot be read: {error}"))
        return
    new = draft.renamed(text, f"{run.name}-2")
    edited = st.text_area("Study file", new, height=420, key=f"text-{run.name}")
    if st.button("Queue the clone", type="primary"):
        _queue_and_look(edited, base)


def _form() -> None:
    made = form.show(kept_traces(current().root))
    if made is None:
        return
    try:
        text = made()
    except StudyError as error:
        st.error(_short(error))
        return
    _queue_and_look(text)


def _study_file() -> None:
    given = st.file_uploader(
        "Study file (YAML); its paths start from the storage folder",
        type=["yaml", "yml"],
        max_upload_size=1,
    )
    if given is None or not st.button("Queue this study", type="primary"):
        return
    content = given.getvalue()
    if len(content) > admission.MAX_STUDY_BYTES:
        st.error(f"a study has at most {admission.MAX_STUDY_BYTES:,} bytes; shorten it")
        return
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        st.error("a study is text in UTF-8; save it as such")
        return
    _queue_and_look(text)


def _trace() -> None:
    """Upload a trace; it is kept as Parquet with times and lengths alone."""
    most = current().max_upload_mb
    st.caption(
        f"CSV, JSONL, JSON or Parquet, up to {most} MB. Kept are times and lengths, no text; the "
        "study then names it as traffic.path: uploads/NAME.parquet."
    )
    given = st.file_uploader("Recorded traffic", max_upload_size=most)
    name = st.text_input("Name of the trace", key="trace-name")
    if given is None or not st.button("Keep this trace"):
        return
    try:
        _require_allowed()
        with st.spinner("reading the trace ..."):
            place = keep_trace(current().root, name, given.getvalue())
    except StallfreeError as error:
        st.error(_short(error))
        return
    st.success(f"Kept as {place.relative_to(current().root)}; choose it in the form's traffic.")
