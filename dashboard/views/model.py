"""Can the predictions be believed? The latency model against steps, and against replays."""

from __future__ import annotations

import streamlit as st

from dashboard import data, parts
from dashboard.derive import model_frames
from dashboard.derive.coverage import coverage
from dashboard.derive.held_out import held_out
from dashboard.derive.machine import machine_speed
from dashboard.derive.profiles import profiles_of
from dashboard.figures import model, style
from dashboard.words import model_words
from dashboard.work import Job
from profiler.collect import Profile
from tuner.results import Results


def page() -> None:
    """Draw the page."""
    st.title("Model")
    run = parts.chosen_run()
    if not run.has_results:
        parts.say_state(run)
        _before_results(run)
        return
    results = run.results
    name, profile = _chosen_profile(run)
    _answer(results, profile)
    source = style.source_of(results)
    _confirmed(results, source)
    _steps(run, name, profile, source)
    _coverage(run, results, (name, profile), source)
    _speed(profile, source)
    _facts(profile)


def _before_results(run: data.Run) -> None:
    """A profile is there before the rest of its run is."""
    if not profiles_of(run.folder):
        return
    profile = run.profile
    parts.answer(model_words.answer(profile.report, profile.facts))
    table = model_frames.error_rows(profile.report)
    parts.show_table(table, "model-errors", f"{run.name}-errors")


def _chosen_profile(run: data.Run) -> tuple[str, Profile]:
    """The run's profile, or one of its kinds of replicas."""
    known = {name: run.profile_named(name) for name in profiles_of(run.folder)}
    if len(known) <= 1:
        return "profile", run.profile
    name = st.selectbox(
        "Profile of",
        list(known),
        format_func=lambda name: str(known[name].facts.get("device") or name),
        help="A fleet rests on a latency model of each kind of replica.",
    )
    return name, known[name]


def _answer(results: Results, profile: Profile) -> None:
    parts.answer(model_words.answer(profile.report, profile.facts))
    lines = model_words.of_the_machine(profile.report, profile.facts)
    lines.append(model_words.of_candidates(model_frames.confirmed_errors(results), results))
    st.markdown("\n".join(f"- {line}" for line in lines))


def _confirmed(results: Results, source: str) -> None:
    """Whole replays: what all parts of a prediction together are worth."""
    errors = model_frames.confirmed_errors(results)
    if errors.empty:
        return
    seen = results.evidence.value
    st.subheader(f"Predicted and {seen}")
    figure = style.finish(model.confirmed_figure(errors, seen), source, height=420)
    parts.show_figure(figure, "model-confirmed")
    st.caption(
        "Filled: within the 90 % interval of the prediction, which holds what other traffic of "
        "this kind would give, not the error of the latency model. Open: outside it."
    )
    table = model_frames.confirmed_table(errors, results)
    with st.expander("The figures"):
        parts.show_table(table, "model-confirmed-table", f"{results.study}-confirmed")


def _steps(run: data.Run, name: str, profile: Profile, source: str) -> None:
    """Single steps: error by kind and size, each step, and its distribution."""
    st.subheader("Step times")
    height = 180 + 34 * len(profile.report.rows)
    figure = style.finish(model.errors_figure(profile.report), source, height=height)
    parts.show_figure(figure, "model-errors-figure")
    st.caption(
        f"Against {profile.report.reference}. A step is decode-only, chunk-only (prompt tokens "
        "alone) or mixed; half of a kind's steps have no larger error than its median."
    )
    with st.expander("The errors as a table"):
        table = model_frames.error_rows(profile.report)
        parts.show_table(table, "model-errors", f"{run.name}-errors")
    job = Job("predicting held-out steps", held_out, run.folder.path, (name,))
    found = parts.result_of(job)
    if found is None:
        return
    figure = style.finish(model.scatter_figure(found), source, height=520)
    parts.show_figure(figure, "model-scatter")
    st.caption(
        "What the added terms amount to: the model's device time over the published GPU time alone."
        if found["predicted_profile"]
        else "Each step predicted by a model fitted without its engine configuration, at the "
        "profile's machine speed. At most 2,000 steps of a kind are drawn, the extremes among them."
    )
    figure = style.finish(model.residual_figure(found), source)
    parts.show_figure(figure, "model-residuals")
    st.caption(model_words.of_residuals(found))


def _coverage(run: data.Run, results: Results, chosen: tuple[str, Profile], source: str) -> None:
    """What was sampled, and what the recommended configuration's simulation reaches."""
    st.subheader("What was sampled")
    name, profile = chosen
    arguments = (name, results.recommended.settings)
    found = parts.result_of(
        Job(
            "simulating the recommended configuration's steps", coverage, run.folder.path, arguments
        )
    )
    if found is not None:
        st.write(model_words.of_coverage(found))
        figure = style.finish(model.coverage_figure(found), source, height=700)
        parts.show_figure(figure, "model-coverage")
        st.caption(
            "Steps of the profile, and over them steps of the recommended configuration on this "
            "traffic (simulated). No decodes beside a chunk are drawn at 0.5."
        )
    sentences = [*results.recommended.not_sampled, *profile.report.not_sampled]
    st.markdown("\n".join(f"- Not sampled: {sentence}." for sentence in sentences))


def _speed(profile: Profile, source: str) -> None:
    reference = profile.facts.get("sentinel_reference_s")
    speed = None if not reference else machine_speed(profile.samples, float(reference))
    if speed is None:
        return
    st.subheader("The machine's speed while it was profiled")
    parts.show_figure(style.finish(model.speed_figure(speed), source), "model-speed")
    st.caption(
        "The sentinel is one small batch, always the same, repeated all through the profile; "
        "2 is twice as fast as the profile's reference."
    )


def _facts(profile: Profile) -> None:
    st.subheader("What the profile is of")
    parts.show_table(model_frames.facts_table(profile.facts), "model-facts", "facts")
    if "silicon" in profile.facts:
        st.write("Added to the published GPU time:")
        parts.show_table(model_frames.terms_table(profile.facts), "model-terms", "terms")
    if "calibration" in profile.facts:
        st.write("Corrected by measured steps, median errors before and after:")
        table = model_frames.calibration_table(profile.facts)
        parts.show_table(table, "model-calibration", "calibration")
    with st.expander("Every setting, as the engine resolved it"):
        parts.show_table(model_frames.settings_table(profile.facts), "model-settings", "settings")
