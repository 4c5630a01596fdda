"""Debian's Prometheus scrapes a controld with a loaded data plane. Every panel of the dashboard for Grafana has data, every alert is
valid, none fires while all is well, and the right one fires when bypass is on."""

import pytest

from weir_smoke import controlctl, needs_programs
from dashboard import Prometheus, panels_of, plain
from rack_metrics import start_loaded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), needs_programs("prometheus")]


def every_panel_has_data(prometheus):
    targets = [(panel["title"], target) for panel in panels_of() for target in panel["targets"]]
    assert len(targets) >= 38, "queries of panels"
    for title, target in targets:
        expression = plain(target["expr"])
        answer = prometheus.ask(expression) or prometheus.ask_range(expression)
        assert answer, f"{title}: no data for {expression}"
        legend = target["legendFormat"]
        labels = [part.split("}}")[0] for part in legend.split("{{")[1:]]
        for series in answer:
            assert set(labels) <= set(series["metric"]), f"{title}: {legend}"


def rules_of(prometheus):
    return [rule for group in prometheus.api("rules")["groups"] for rule in group["rules"]]


def firing(prometheus):
    return {one["labels"]["alertname"]: one["annotations"]["summary"] for one in prometheus.api("alerts")["alerts"]
            if one["state"] == "firing"}


def alerts_follow_the_state(session, prometheus):
    assert len(rules_of(prometheus)) >= 19, "rules"
    prometheus.wait("the rules to be evaluated", lambda: all(rule["health"] == "ok" for rule in rules_of(prometheus)))
    assert firing(prometheus) == {}, "alerts while all is well"
    controlctl(session, "bypass", "on")
    prometheus.wait("the alert about bypass", lambda: "WeirBypassOn" in firing(prometheus))


def test_prometheus_reads_dashboard_and_alerts(session):
    address = start_loaded(session)
    with Prometheus(session.path("prometheus"), address) as prometheus:
        prometheus.wait_scraped()
        controlctl(session, "reload")
        prometheus.wait_scraped(20)
        assert [one["value"][1] for one in prometheus.ask('up{job="weir"}')] == ["1"], "up"
        every_panel_has_data(prometheus)
        alerts_follow_the_state(session, prometheus)
