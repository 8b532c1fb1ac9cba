"""The dashboard, as far as no Prometheus is needed; its queries run in tests/cluster."""

from __future__ import annotations

from tests.support.dashboard import dashboard, panels, queries, variables_used


def test_it_asks_the_datasource_and_the_job_that_are_chosen_in_it() -> None:
    variables = {variable["name"]: variable for variable in dashboard()["templating"]["list"]}
    assert set(variables) == variables_used() == {"datasource", "job"}
    assert variables["datasource"]["query"] == "prometheus"
    for panel in panels():
        for asked in (panel, *panel["targets"]):
            assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert [query for query in queries() if 'job_name="$job"' not in query.expr] == []


def test_panels_have_ids_and_places_of_their_own() -> None:
    listed = dashboard()["panels"]
    assert len({panel["id"] for panel in listed}) == len(listed)
    taken: set[tuple[int, int]] = set()
    for panel in listed:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not taken & cells, panel["title"]
        taken |= cells


def test_what_the_page_promises_is_shown() -> None:
    titles = {panel["title"] for panel in panels()}
    assert titles >= {
        "Hit rate",
        "Verdicts",
        "Gate",
        "Complete until",
        "Table is behind by",
        "Held events",
        "Held bytes",
        "Dead letters",
        "Retries",
        "Stream lag",
        "Restarts",
        "Checkpoint age",
    }
