"""/metrics of the real controld and data plane.

It has everything that the design names, every counter of `controlctl stats --json` with the same value, and exactly the names of
docs/operate/metrics.md. The policy or the command line says where it is served. controld runs with a seccomp filter that ends it
at a system call it should not need."""

import http.client
import os
import re
import socket
import subprocess
import threading

import pytest

from weir_smoke import BUILD, ROOT, controlctl, needs_programs, write
from namespaces import free_port
from rack_metrics import fetch, missing_of, samples_of, start_loaded

TRY_AGAIN_S = 10  # control/daemon/web.cpp: kTryAgain
LISTS = "lists:\n  - {name: c2, action: drop, entries: [203.0.113.7]}\n"


@pytest.fixture
def loaded(session):
    """(session, address of the metrics) under traffic."""
    return session, start_loaded(session)


def families_of(text):
    """{name: its type}, of everything that is served."""
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))


def documented():
    """The names in the tables of the page."""
    with open(os.path.join(ROOT, "docs/operate/metrics.md"), encoding="utf-8") as file:
        return set(re.findall(r"^\| `(weir_\w+)` \|", file.read(), re.MULTILINE))


def metric_of(member):
    return f"{member}_total" if member.endswith(("bytes", "packets")) else f"{member}_packets_total"


def compare(before, samples, after):
    """Each counter of the metrics lies between those of the answers around it. How many were compared."""
    values = {(name, tuple(sorted(labels.items()))): value for name, labels, value in samples}
    target = before["targets"][0]["socket"]
    compared = 0
    for scope, prefix, labels in [("", "weir_", {})] + [(name, "weir_list_", {"list": name}) for name in before["lists"]]:
        first = before["lists"][scope] if scope else before["targets"][0]
        last = after["lists"][scope] if scope else after["targets"][0]
        for member, value in first.items():
            if not isinstance(value, int) or isinstance(value, bool) or member in ("start_time", "taken_us"):
                continue
            name = prefix + metric_of(member)
            key = (name, tuple(sorted({"target": target, **labels}.items())))
            assert key in values, f"{member} of `controlctl stats` is no metric: {name} {labels}"
            assert value <= values[key] <= last[member], f"{name} {labels}: {values[key]} is not between {value} and {last[member]}"
            compared += 1
    return compared


def check_names(text):
    """The page's metrics. A counter ends with _total."""
    families, known = families_of(text), documented()
    # Feeds with an url, and ports of unknown speed, are not part of this test; a fleet has one of its own.
    here = {name for name in known if not name.startswith(("weir_feed_fetch", "weir_port_speed", "weir_fleet_"))}
    assert (sorted(set(families) - known), sorted(here - set(families))) == ([], []), "(not documented, not served)"
    for name, kind in families.items():
        assert name.startswith("weir_") and (kind == "counter") == name.endswith("_total"), f"{name} is a {kind}"


def check_no_address(samples):
    """No address of traffic is a label."""
    for name, labels, _ in samples:
        for label, value in labels.items():
            assert label in ("target", "list", "port") or not re.search(r"\d+\.\d+\.\d+\.\d+|[0-9a-f]*:[0-9a-f]*:", value), (
                f"an address in {name} {labels}")


def test_every_counter_is_served_and_documented(loaded):
    session, address = loaded
    session.wait("the false positives of filters", lambda: "weir_filter_false_positive_ratio_low" in fetch(address))
    before = session.stats()
    text = fetch(address)
    after = session.stats()
    samples = samples_of(text)
    assert missing_of(samples) == [], "the design names them"
    compared = compare(before, samples, after)
    assert compared >= 16 + 8 * len(before["lists"]), f"{compared} counters were compared"
    check_names(text)
    check_no_address(samples)


@needs_programs("promtool")
def test_promtool_finds_no_fault(loaded):
    session, address = loaded
    session.wait("the false positives of filters", lambda: "weir_filter_false_positive_ratio_low" in fetch(address))
    done = subprocess.run(["promtool", "check", "metrics"], input=fetch(address), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, ""), "promtool check metrics"


def test_bypass_is_switched_while_eight_clients_fetch_metrics(loaded):
    session, address = loaded
    stop, failed = threading.Event(), []

    def ask():
        while not stop.is_set():
            try:
                fetch(address)
            except OSError as error:
                failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        assert controlctl(session, "bypass", "on")["bypass"] is True, "bypass on"
        bypass = [value for name, _, value in samples_of(fetch(address)) if name == "weir_target_bypass"]
        assert set(bypass) == {1.0}, "weir_target_bypass"
        assert controlctl(session, "bypass", "off")["bypass"] is False, "bypass off"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failed == [], "requests that failed"


def test_reloads_are_counted_by_outcome(loaded):
    session, address = loaded

    def reloads():
        counted = {labels["outcome"]: value for name, labels, value in samples_of(fetch(address))
                   if name == "weir_reloads_total" and labels["cause"] == "asked"}
        return counted.get("published", 0), counted.get("failed", 0)

    assert reloads() == (0, 0), "reloads so far"
    controlctl(session, "reload")
    with open(session.path("weir.yaml"), "a", encoding="ascii") as file:
        file.write("typo: 1\n")
    controlctl(session, "reload", expect=1)
    assert reloads() == (1, 1), "reloads"
    now = {name: value for name, labels, value in samples_of(fetch(address)) if not labels}
    assert (now["weir_last_reload_success"], now["weir_last_reload_errors"]) == (0, 1), "the last reload"


def test_a_target_that_is_away_has_no_counters(loaded):
    session, address = loaded
    session.stop("dataplane")
    session.wait("controld to notice", lambda: not session.call("status")["targets"][0]["connected"])
    away = samples_of(fetch(address))
    assert [value for name, _, value in away if name == "weir_target_up"] == [0.0], "weir_target_up"
    assert [name for name, _, _ in away if name == "weir_packets_total"] == [], "weir_packets_total"


# Where metrics are served.

def write_policy(session, listen=None):
    """The policy, with `metrics` when listen is something. Its path."""
    place = f"metrics: {{listen: '{listen}'}}\n" if listen else ""
    return write(session.folder, "weir.yaml", "version: 1\ntargets: []\n" + place + LISTS)


def serve(session, listen, metrics=None):
    """Starts controld. metrics: of the command line. The place of the answer to `status`."""
    session.start_controld(write_policy(session, listen), targets=False, metrics=metrics)
    return place_of(session)


def move(session, listen):
    """Reloads a policy with another place. The place of the answer to `status`."""
    write_policy(session, listen)
    assert session.call("reload")["ok"], f"a reload to {listen}"
    return place_of(session)


def place_of(session):
    return session.call("status")["metrics"]


def status_of(address, path="/", host=None):
    """HTTP's status of a page, or None: the connection is refused."""
    name, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(name.strip("[]"), int(port), timeout=30)
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        return connection.getresponse().status
    except ConnectionRefusedError:
        return None
    finally:
        connection.close()


@pytest.fixture
def taken():
    """A socket that listens. Its address is taken until it is closed."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield one


def address_of(listener):
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_port_0_is_a_free_port(session):
    address = serve(session, "127.0.0.1:0")["address"]
    assert address.startswith("127.0.0.1:") and not address.endswith(":0"), address
    assert (status_of(address), status_of(address, "/nothing")) == (200, 404), "pages"


def test_a_reload_moves_the_server(session):
    first = serve(session, "127.0.0.1:0")["address"]
    second = f"127.0.0.1:{free_port()}"
    assert move(session, second) == {"address": second, "error": ""}, "the place after a reload"
    assert (status_of(first), status_of(second)) == (None, 200), "status of the old place and of the new one"

    # The same port of every interface: the old socket has to go first.
    everywhere = "0.0.0.0:" + second.rpartition(":")[2]
    assert (move(session, everywhere)["address"], status_of(second)) == (everywhere, 200), "every interface"
    assert "without a password" in session.log("controld"), "the log warns of a place that others reach"

    assert (move(session, "off"), status_of(second)) == ({"address": "", "error": ""}, None), "off"
    assert "metrics     off\n" in session.controlctl("status")[1], "status says off"


def test_a_reload_to_a_taken_place_keeps_the_old_one_until_it_is_free(session, clock, taken):
    old, wanted = serve(session, "127.0.0.1:0")["address"], address_of(taken)
    now = move(session, wanted)
    assert now["address"] == old, "the place stays"
    assert wanted in now["error"] and "another program listens there" in now["error"], now
    assert status_of(old) == 200, "status of the old place"
    code, out, _ = session.controlctl("status")
    assert code == 0 and f"http://{old}/metrics; cannot listen on {wanted}" in out, out
    taken.close()
    clock.pass_time(TRY_AGAIN_S)
    session.wait("the place that is free now", lambda: place_of(session) == {"address": wanted, "error": ""})
    assert status_of(wanted) == 200, "status of the new place"


def test_a_start_with_a_taken_place_serves_it_when_it_is_free(session, clock, taken):
    now = serve(session, address_of(taken))
    assert now["address"] == "", "nothing is served"
    assert "another program listens there" in now["error"], now
    assert "metrics     NOT SERVED: " in session.controlctl("status")[1], "status says that nothing is served"
    wanted = address_of(taken)
    taken.close()
    clock.pass_time(TRY_AGAIN_S)
    session.wait("the place that is free now", lambda: place_of(session)["address"] == wanted)


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="kernel: no IPv6")
def test_ipv6_is_served_by_its_own_name_alone(session):
    serve(session, "off")
    address = move(session, "[::1]:0")["address"]
    assert address.startswith("[::1]:") and not address.endswith(":0"), address
    assert status_of(address) == 200, "status"
    assert status_of(address, host="evil.example.com") == 421, "status for another name"


def test_the_command_line_comes_before_the_policy(session):
    policys = f"127.0.0.1:{free_port()}"
    assert serve(session, policys, metrics="127.0.0.1:0")["address"] not in ("", policys), "the command line's place"
    session.stop("controld")
    assert (serve(session, policys, metrics="off"), status_of(policys)) == ({"address": "", "error": ""}, None), "off by the command line"


def test_a_wrong_place_on_the_command_line_ends_controld():
    done = subprocess.run([os.path.join(BUILD, "control/controld"), "--metrics", "localhost:1"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 2, "exit code"
    assert "is no address" in done.stderr and "127.0.0.1:9617" in done.stderr, done.stderr
