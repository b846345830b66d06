"""Pieces that pages share: a run in the state a page needs, figures, tables, results of jobs."""

from __future__ import annotations

import concurrent.futures
import time
from concurrent.futures import Future
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from dashboard import data, session, work
from dashboard.markdown import plain
from dashboard.options import current
from tuner.export.from_results import Pick, picked
from tuner.results import Results
from tuner.search.run_state import Phase

_POLL_S = 0.5
_UNTIL = "patience-until"


def chosen_run() -> data.Run:
    """The run that the session looks at. The page ends here, with a word, where there is none."""
    name = session.run_name()
    if name is None:
        st.info(f"No study under {current().root} yet. Run `stallfree tune STUDY` first.")
        st.stop()
    return data.run_named(name)


def finished_run() -> tuple[data.Run, Results]:
    """The same with its results; without any, the page says what the run is doing and ends."""
    run = chosen_run()
    if not run.has_results:
        say_state(run)
        st.stop()
    return run, run.results


def say_state(run: data.Run) -> None:
    """One line of what an unfinished run is doing, and the way out."""
    state, name = run.state, plain(run.name)
    tune = f"`stallfree tune {run.folder.path} --resume`"
    if state.phase is Phase.FAILED:
        st.error(f"{name} failed: {plain(str(state.error))}. Go on with {tune}.")
    elif state.phase is Phase.RUNNING:
        share = f" ({state.done} of {state.total})" if state.total else ""
        stage = plain(state.stage)
        st.info(f"{name} is running: {stage}{share}. This page needs a finished run.")
    elif state.phase is Phase.QUEUED:
        st.info(f"{name} waits for a worker; start one with `stallfree worker`.")
    else:
        st.warning(f"{name} has not finished ({state.phase}); go on with {tune}.")


def chosen_point(results: Results) -> Pick:
    """The point that the session looks at; one that the run does not have is said, and the
    recommended one taken. Raises `StudyError`."""
    name = session.point()
    numbers = {str(point["number"]) for point in results.front}
    if name not in {"recommended", "knee", "best"} and name not in numbers:
        st.warning(plain(f"This run has no point {name!r}; shown is the recommended one."))
        session.choose("recommended")
    return picked(results, session.point())


def answer(sentence: str, place: Any = st) -> None:
    """What a page has to say first; nothing in it is taken for Markdown."""
    place.markdown(f"**{plain(sentence)}**")


def show_figure(figure: go.Figure, key: str) -> None:
    """A figure as wide as the page, with a menu that saves it as a picture."""
    st.plotly_chart(figure, width="stretch", key=key, config={"displaylogo": False})


def show_table(frame: pd.DataFrame, key: str, name: str) -> None:
    """A table, and a button that downloads it as `name`.csv."""
    st.dataframe(frame, hide_index=True, width="stretch", key=key)
    csv = frame.to_csv(index=False)
    st.download_button("Download as CSV", csv, f"{name}.csv", "text/csv", key=f"{key}-csv")


def result_of(job: work.Job) -> dict[str, Any] | None:
    """The result of `job`, or None while it is computed or when it failed, which is said in its
    place. The rest of the page goes on; the page runs again when it is there."""
    future = work.start(job)
    try:
        return future.result(timeout=_patience_left_s())
    except concurrent.futures.TimeoutError:
        _wait(job, future)
    except Exception as error:
        st.error(plain(f"{job.title}: {work.failure(error)}"))
    return None


def begin() -> None:
    """Call at the start of every run of a page: all its jobs together may hold it up for
    `Options.patience_s`."""
    st.session_state[_UNTIL] = time.monotonic() + current().patience_s


def _patience_left_s() -> float:
    return max(0.0, float(st.session_state.get(_UNTIL, 0.0)) - time.monotonic())


@st.fragment(run_every=_POLL_S)
def _wait(job: work.Job, future: Future[dict[str, Any]]) -> None:
    """Shows progress; runs the page again when the job has ended, and says why when it failed."""
    if not future.done():
        done, total = work.progress_of() if future.running() else (0, 0)
        st.progress(done / total if total else 0.0, text=f"{job.title} ...")
    elif error := future.exception():
        st.error(plain(f"{job.title}: {work.failure(error)}"))
    else:
        st.rerun()
