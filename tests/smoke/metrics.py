"""/metrics of the real controld and data plane: promtool finds nothing wrong; everything that the design names is there; every
counter that `controlctl stats --json` tells is there, with the same value; docs/operate/metrics.md has exactly what is served;
a target that is away says so, and tells no counters; no address of traffic is a label."""

import os
import re
import shutil
import subprocess
import threading

from weir_smoke import BUILD, ROOT, Session, check, controlctl, equal  # first: it knows where the next one is
from rack_metrics import fetch, missing_of, samples_of, start_loaded


def families_of(text):
    """{name: its type}, of everything that is served."""
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))


def documented():
    """The names in the tables of the page."""
    with open(os.path.join(ROOT, "docs/operate/metrics.md"), encoding="utf-8") as file:
        return set(re.findall(r"^\| `(weir_\w+)` \|", file.read(), re.MULTILINE))


def metric_of(member, unit):
    kind = "bytes" if unit == "bytes" else "packets"
    return f"{member}_total" if member.endswith(kind) else f"{member}_{kind}_total"


def compare(before, samples, after):
    """Counters of the answers around it hold those of the metrics between them, member by member; how many there were."""
    values = {(name, tuple(sorted(labels.items()))): value for name, labels, value in samples}
    target = before["targets"][0]["socket"]
    compared = 0
    for scope, prefix, labels in [("", "weir_", {})] + [(name, "weir_list_", {"list": name}) for name in before["lists"]]:
        first = before["lists"][scope] if scope else before["targets"][0]
        last = after["lists"][scope] if scope else after["targets"][0]
        for member, value in first.items():
            if not isinstance(value, int) or isinstance(value, bool) or member in ("start_time", "taken_us"):
                continue
            name = prefix + metric_of(member, "bytes" if member.endswith("bytes") else "frames")
            key = (name, tuple(sorted({"target": target, **labels}.items())))
            check(key in values, f"{member} of `controlctl stats` is no metric: {name} {labels}")
            check(value <= values[key] <= last[member], f"{name} {labels}: {values[key]} is not between {value} and {last[member]}")
            compared += 1
    return compared


def check_bypass_beside(session, address):
    """The panic switch, while others ask for metrics all the time."""
    stop = threading.Event()
    failed = []

    def ask():
        while not stop.is_set():
            try:
                fetch(address)
            except OSError as error:
                failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    equal(controlctl(session, "bypass", "on")["bypass"], True, "bypass beside eight who ask for metrics")
    bypass = {labels["target"]: value for name, labels, value in samples_of(fetch(address)) if name == "weir_target_bypass"}
    equal(set(bypass.values()), {1.0}, "weir_target_bypass")
    equal(controlctl(session, "bypass", "off")["bypass"], False, "bypass off")
    stop.set()
    for thread in threads:
        thread.join()
    equal(failed, [], "requests that failed")


with Session(BUILD) as session:
    address = start_loaded(session)
    session.wait("what filters let through", lambda: "weir_filter_false_positive_ratio_low" in fetch(address))
    before = session.stats()
    text = fetch(address)
    after = session.stats()
    samples = samples_of(text)
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        equal((done.returncode, done.stdout + done.stderr), (0, ""), "promtool check metrics")
    equal(missing_of(samples), [], "what the design names and is missing")
    compared = compare(before, samples, after)
    check(compared >= 16 + 8 * len(before["lists"]), f"{compared} counters were compared")
    families = families_of(text)
    known = documented()
    # Feeds with an url, and ports of unknown speed, are not part of this test; a fleet has one of its own.
    here = {name for name in known if not name.startswith(("weir_feed_fetch", "weir_port_speed", "weir_fleet_"))}
    equal((sorted(set(families) - known), sorted(here - set(families))), ([], []), "what the page does not tell, and what is not served")
    for name, kind in families.items():
        check(name.startswith("weir_") and (kind == "counter") == name.endswith("_total"), f"{name} is a {kind}")
    for name, labels, _ in samples:
        for label, value in labels.items():
            check(label in ("target", "list", "port") or not re.search(r"\d+\.\d+\.\d+\.\d+|[0-9a-f]*:[0-9a-f]*:", value),
                  f"an address in {name} {labels}")

    check_bypass_beside(session, address)

    # A reload that fails, and one that a target that is away does not acknowledge.
    def reloads(outcome):
        return sum(value for name, labels, value in samples_of(fetch(address))
                   if name == "weir_reloads_total" and labels == {"cause": "asked", "outcome": outcome})

    equal((reloads("published"), reloads("failed")), (0, 0), "reloads so far")
    controlctl(session, "reload")
    with open(session.path("weir.yaml"), "a", encoding="ascii") as file:
        file.write("typo: 1\n")
    controlctl(session, "reload", expect=1)
    equal((reloads("published"), reloads("failed")), (1, 1), "reloads")
    now = {name: value for name, labels, value in samples_of(fetch(address)) if not labels}
    equal((now["weir_last_reload_success"], now["weir_last_reload_errors"]), (0, 1), "the last reload")

    session.stop("dataplane")
    session.wait("controld to notice", lambda: not session.call("status")["targets"][0]["connected"])
    away = samples_of(fetch(address))
    equal([value for name, _, value in away if name == "weir_target_up"], [0.0], "weir_target_up of a target that is away")
    equal([name for name, labels, _ in away if name == "weir_packets_total"], [], "counters of a target that is away")
