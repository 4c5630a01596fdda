"""Debian's Prometheus scrapes a controld with a loaded data plane: every panel of the dashboard for Grafana is answered with data,
every alert's expression is valid, none fires while all is well, and the right one fires when bypass is on."""

import shutil

from weir_smoke import BUILD, Session, check, controlctl, equal, skip  # first: it knows where the next ones are
from dashboard import Prometheus, panels_of, plain
from rack_metrics import start_loaded

if not shutil.which("prometheus"):
    skip("package: no prometheus")
with Session(BUILD) as session:
    address = start_loaded(session)
    with Prometheus(session.path("prometheus"), address) as prometheus:
        prometheus.wait_scraped()
        controlctl(session, "reload")
        prometheus.wait_scraped(20)
        equal([one["value"][1] for one in prometheus.ask('up{job="weir"}')], ["1"], "up")
        asked = 0
        for panel in panels_of():
            for target in panel["targets"]:
                expression = plain(target["expr"])
                answer = prometheus.ask(expression) or prometheus.ask_range(expression)
                check(answer, f"{panel['title']}: no data for {expression}")
                label = target["legendFormat"]
                for series in answer:
                    for name in [part.split("}}")[0] for part in label.split("{{")[1:]]:
                        check(name in series["metric"], f"{panel['title']}: {label} of {series['metric']}")
                asked += 1
        check(asked >= 38, f"{asked} queries of panels")
        rules = [rule for group in prometheus.api("rules")["groups"] for rule in group["rules"]]
        check(len(rules) >= 19, f"{len(rules)} rules")
        prometheus.wait("the rules to be evaluated", lambda: all(
            rule["health"] == "ok" for group in prometheus.api("rules")["groups"] for rule in group["rules"]))
        firing = [(one["labels"]["alertname"], one["annotations"]["summary"]) for one in prometheus.api("alerts")["alerts"]
                  if one["state"] == "firing"]
        equal(firing, [], "alerts while all is well")
        controlctl(session, "bypass", "on")
        prometheus.wait("the alert about bypass", lambda: any(
            one["labels"]["alertname"] == "WeirBypassOn" and one["state"] == "firing" for one in prometheus.api("alerts")["alerts"]))
    print(f"{asked} queries of panels, {len(rules)} alerts")
