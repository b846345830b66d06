"""A study from a form."""

from __future__ import annotations

import pytest
import yaml

from dashboard.launching.draft import USUAL, Draft, renamed, searchable, usual_range
from tuner.study import parse_study


def test_a_draft_is_a_study() -> None:
    space = {knob.name: yaml.safe_load(usual_range(knob.name)) for knob in searchable()}
    draft = Draft(
        "x", {"like": "azure-conv-2023", "rate_rps": None}, {"model": "m"}, {"budget_s": 60.0},
        {"ttft_p99_s": 1.0, "itl_p99_s": None}, 10, space,
    )  # fmt: skip
    study = parse_study(draft.text(), "the study")
    assert study.search.space.keys() == {knob.name for knob in searchable()}
    assert set(USUAL) <= set(space)
    assert study.slo.default.itl_p99_s is None and study.traffic.rate_rps is None


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("# mine\nname: old\ntraffic: x\n", "# mine\nname: new\ntraffic: x\n"),
        ("traffic: x\n", "name: new\ntraffic: x\n"),
    ],
)
def test_a_clone_has_another_name(text: str, changed: str) -> None:
    assert renamed(text, "new") == changed
