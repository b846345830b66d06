"""The Why page: a spike explained, chosen from the list, by number or in the URL; and fleets."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

from tests.dashboard.conftest import Look


def spike_in(app: AppTest) -> str:
    """The URL's; AppTest gives a list or a text."""
    found = app.query_params["spike"]
    return found if isinstance(found, str) else str(found[0])


def test_leads_with_the_longest_gap(look: Look, storage: Path) -> None:
    app = look(storage, "why", run="finished")
    assert app.markdown[0].value.startswith("**This gap of ")
    assert spike_in(app).startswith("step:")
    assert app.subheader[0].value == "The steps around the gap"
    assert any("no record of the steps" in c.value for c in app.caption)
    assert any("Measured steps: those of the first" in c.value for c in app.caption)
    assert not app.error


def test_another_spike_and_a_request_by_number(look: Look, storage: Path) -> None:
    app = look(storage, "why", run="finished")
    box = app.selectbox(key="spike-finished-recommended")
    ttft = next(option for option in box.options if option.startswith("TTFT"))
    box.select(ttft).run()
    assert app.markdown[0].value.startswith("**The first token of request ")
    assert spike_in(app).startswith("request:")
    app.selectbox(key="spike-finished-recommended").select("a request by its number").run()
    app.number_input(key="request-finished-recommended").set_value(5).run()
    assert app.markdown[0].value.startswith("**The first token of request 5 ")
    assert spike_in(app) == "request:5"
    assert "Its longest gap" in [h.value for h in app.subheader]
    assert any(m.value.startswith("TTFT of request 5: round 1 (speed ") for m in app.markdown)


def test_a_link_opens_the_same_request(look: Look, storage: Path) -> None:
    app = look(storage, "why", run="finished", spike="request:7")
    assert app.markdown[0].value.startswith("**The first token of request 7 ")


def test_a_link_to_no_such_spike_shows_the_longest_gap(look: Look, storage: Path) -> None:
    for spike in ("step:99999999", "nonsense", "request:x"):
        app = look(storage, "why", run="finished", spike=spike)
        assert not app.exception and not app.error
        assert app.markdown[0].value.startswith("**This gap of ")


def test_a_fleet_has_its_latest_requests(look: Look, fleet_place: Path) -> None:
    app = look(fleet_place, "why")
    assert app.markdown[0].value.startswith("**The latest first token, of request ")
    table = app.dataframe[0].value
    assert {"request", "TTFT, ms", "replica"} <= set(table.columns)
    assert list(table["TTFT, ms"]) == sorted(table["TTFT, ms"], reverse=True)
    assert any("no record of its steps" in c.value for c in app.caption)
