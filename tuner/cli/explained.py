"""How an explanation looks on a terminal."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from tuner.cli.console import print_json, stdout
from tuner.cli.whatif import Case
from tuner.explain import GapStory, Scene, StepView, TtftStory, explain
from tuner.explain.words import duration, plural
from tuner.search.settings import resolve

MOST_STEPS = 40
"""rows of a table of steps; --json has all"""


def print_explained(case: Case, what: str, *, as_json: bool) -> None:
    """Explain `what` of the case: one sentence, then the steps."""
    problem = case.problem
    scene = Scene(
        trace=problem.trace,
        model=problem.model,
        config=resolve(case.config, problem.resolved),
        done=case.simulate(timeline=True),
        rerun=case.simulate,
    )
    stories = explain(scene, what)
    if as_json:
        plain = [{"sentence": s.sentence, "seconds": s.seconds, **asdict(s)} for s in stories]
        print_json({"explain": what, "stories": plain})
        return
    for story in stories:
        print_story(story, stdout)


def print_story(story: GapStory | TtftStory, console: Console) -> None:
    """The sentence, then the steps as a table."""
    console.print(story.sentence, highlight=False)
    console.print(steps_table(story.steps))
    if len(story.steps) > MOST_STEPS:
        console.print(f"... {len(story.steps) - MOST_STEPS} more steps; --json has them all")


def steps_table(steps: list[StepView]) -> Table:
    """One row a step: when, how long, what ran in it, and what each part of that cost."""
    table = Table(title="the steps (#N is request N)")
    table.add_column("at, s", justify="right")
    table.add_column("took", justify="right")
    table.add_column("what ran")
    for name in ("running", "waiting", "free KV"):
        table.add_column(name, justify="right")
    for step in steps[:MOST_STEPS]:
        table.add_row(
            f"{step.start_s:,.3f}",
            duration(step.seconds),
            "\n".join(_what_ran(step)),
            f"{step.num_running:,}",
            f"{step.num_waiting:,}",
            f"{step.free_blocks:,}",
        )
    return table


def _what_ran(step: StepView) -> list[str]:
    """Preemptions, chunks, decodes and jitter, a line each."""
    lines = [f"#{number:,} preempted" for number in step.preempted]
    lines += [f"{c.tokens:,} of #{c.request:,}: {duration(c.seconds)}" for c in step.chunks]
    if step.num_decodes or not step.chunks:
        lines.append(f"{plural(step.num_decodes, 'decode')}: {duration(step.decodes_s)}")
    if abs(step.jitter_s) >= 0.01 * step.seconds:
        lines.append(f"jitter: {duration(step.jitter_s)}")
    return lines
