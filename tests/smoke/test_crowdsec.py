"""CrowdSec itself, followed by `controlctl crowdsec`: decisions appear, expire and are deleted; neither program's absence loses any; a
local API that lies, or has 100,000 decisions, harms nothing."""

import ipaddress
import json
import os
import signal
import subprocess
import time

import pytest

from weir_smoke import BUILD, make_samples, moved, needs_programs, read_capture, start_loop, write
import lying_server as lies
from crowdsec_rig import CrowdSec
from fleet_crowdsec import sources
from until import until

pytestmark = pytest.mark.slow

POLICY = """version: 1
lists:
  - {name: jail, action: drop, dynamic: true}
  - {name: short, action: drop, dynamic: true, max_ttl: 1m, max_entries: 5}
"""
CONTROLCTL = os.path.join(BUILD, "control/controlctl")
MANY = 100_000
HOUR = 3600
NOTHING = {"added": 0, "renewed": 0, "deleted": 0}
needs_crowdsec = needs_programs("crowdsec", "cscli")


class Follower:
    """controlctl crowdsec on the session, for as long as the `with` lasts; with its log."""

    def __init__(self, session, *options):
        self.session = session
        self.command = [CONTROLCTL, "crowdsec", "--every", "1s", "--socket", session.path("controld.sock"), *options]
        self.start()

    def start(self):
        self.process = self.session._start("follower", self.command)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(90)
        assert kind or code == 0, f"exit code of controlctl crowdsec: {self.log()}"

    def log(self):
        return self.session.log("follower")

    def wait_for_line(self, *texts):
        self.session.wait(f"a line: {texts[0]}", lambda: any(text in self.log() for text in texts))


class FakeApi(lies.LyingServer):
    """A local API that answers as the test says."""

    def answer(self, status, body):
        self.says = lies.whole(body, status=status)

    def decide(self, values):
        """For four hours from now."""
        end = time.monotonic() + 4 * HOUR

        def says(handler):
            decisions = [{"id": number, "scope": "Ip", "value": value, "type": "ban", "duration": f"{end - time.monotonic():.3f}s",
                          "origin": "lists", "scenario": "many"} for number, value in enumerate(values, 1)]
            lies.whole(json.dumps({"deleted": None, "new": decisions}).encode())(handler)

        self.says = says


def run_once(session, *options):
    """One round: (exit code, what --json prints, standard error)."""
    done = subprocess.run([CONTROLCTL, "crowdsec", "--once", "--json", "--socket", session.path("controld.sock"), *options],
                          env=dict(os.environ, **session.environment), capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def does_once(session, options, **wanted):
    """One round does as much as is wanted."""
    code, answer, err = run_once(session, *options)
    assert code == 0 and answer.items() >= wanted.items(), f"{code}: {answer} {err}"


def entries(session, name="jail"):
    """{entry: (comment, expires)}, of all pages."""
    found, after = {}, {}
    while True:
        page = session.call("entries", name=name, **after)
        found.update({one["entry"]: (one["comment"], one.get("expires")) for one in page["entries"]})
        if "next" not in page:
            return found
        after = {"after": page["next"]}


def wait_for_entries(session, what, *wanted):
    session.wait(what, lambda: set(entries(session)) == set(wanted))


def ends_in(session, entry, seconds, begin):
    """begin: before it was decided."""
    expires = entries(session)[entry][1]
    return begin + seconds - 2 <= expires <= time.time() + seconds + 2


def dropped(session):
    """Frames of some traffic that the list drops."""
    return moved(session)[1]["jail"]["dropped"]


@pytest.fixture
def guest(session, clock):
    """Address of a source in the traffic of a data plane, whose controld has the lists."""
    make_samples(session.folder, flows=100, frames=1000)
    capture = read_capture(session.path("capture.pcap"))
    start_loop(session, capture)
    session.start_controld(write(session.folder, "jail.yaml", POLICY))
    session.wait_enforced()
    return sources(capture, 1)[0]


RANGE, V6, BY_HAND = "100.64.9.0/25", "2001:db8::77", "192.0.2.250"


def decisions_appear(session, crowdsec, follower, guest):
    begin = time.time()
    crowdsec.decide("--ip", guest, "--duration", "1h", "--reason", "guests")
    crowdsec.decide("--range", RANGE, "--duration", "4h")
    crowdsec.decide("--ip", V6)
    crowdsec.decide("--ip", "192.0.2.99", "--type", "captcha")
    crowdsec.decide("--scope", "Country", "--value", "FR")
    wait_for_entries(session, "the decisions", guest, RANGE, V6, BY_HAND)
    session.wait("the first drop", lambda: dropped(session) > 0)
    assert entries(session)[guest][0] == "crowdsec: guests (cscli)", "comment"
    assert ends_in(session, guest, HOUR, begin), entries(session)[guest]
    follower.wait_for_line("1 of scope Country")
    follower.wait_for_line("1 of type captcha")


def a_deleted_decision_takes_its_entry_away(session, crowdsec, guest):
    crowdsec.delete("--ip", guest)
    session.wait("the deletion", lambda: guest not in entries(session))
    session.wait("the last drop", lambda: dropped(session) == 0)
    assert entries(session)[BY_HAND][0] == "by hand", "comment of the entry that was added by hand"


def an_address_of_two_decisions_stays_until_the_last_ends(session, crowdsec, guest):
    def wait_for_comment(comment):
        session.wait(f"the decision {comment}", lambda: entries(session).get(guest, ("",))[0] == f"crowdsec: {comment} (cscli)")

    crowdsec.decide("--ip", guest, "--duration", "4h", "--reason", "long")
    begin = time.time()
    crowdsec.decide("--ip", guest, "--duration", "1h", "--reason", "short")
    wait_for_comment("long")
    alerts = json.loads(crowdsec.cscli("alerts", "list", "-o", "json"))
    longer, = [one for alert in alerts for one in alert["decisions"] if one["scenario"] == "long"]
    crowdsec.delete("--id", str(longer["id"]))
    wait_for_comment("short")
    assert ends_in(session, guest, HOUR, begin), entries(session)[guest]
    crowdsec.delete("--ip", guest)
    session.wait("no decision", lambda: guest not in entries(session))


def an_entry_ends_with_its_decision_when_nobody_follows(session, crowdsec, follower, guest, clock):
    crowdsec.decide("--ip", guest, "--duration", "1h")
    session.wait("the decision", lambda: guest in entries(session))
    follower.kill()
    crowdsec.delete("--ip", guest)
    end = entries(session)[guest][1]
    clock.pass_time(end - clock.time_of_day() - 2)

    def is_there_in_its_last_second():
        """(yes or no,); None: the look ended too late."""
        clock.set_time_of_day(end - 1)
        found = guest in entries(session)
        return (found,) if clock.time_of_day() < end else None

    assert until("a look within the second", is_there_in_its_last_second)[0], "an entry ends before its decision"

    def has_ended():
        clock.set_time_of_day(end)  # again in each turn: no later end is seen
        return guest not in entries(session)

    session.wait("the end", has_ended)
    session.wait("the last drop", lambda: dropped(session) == 0)
    follower.start()
    wait_for_entries(session, "the list as it was", RANGE, V6, BY_HAND)


def decisions_wait_while_controld_is_away(session, crowdsec, follower, guest):
    session.kill("controld")
    crowdsec.decide("--ip", guest, "--duration", "1h")
    crowdsec.delete("--range", RANGE)
    until("controld to be missed", lambda: "cannot reach controld" in follower.log(), about=follower.log)
    session.start_controld(session.path("jail.yaml"))
    wait_for_entries(session, "the decisions made meanwhile", guest, V6, BY_HAND)
    follower.wait_for_line("follows CrowdSec's decisions again")


def entries_stay_while_crowdsec_is_away(session, crowdsec, follower, guest, clock):
    crowdsec.stop()
    follower.wait_for_line("Failed to connect", "refused")
    clock.arm("connect")  # counts: a round connects to CrowdSec and to controld
    session.wait("two more rounds", lambda: clock.counts("connect")[0] > 4)
    assert set(entries(session)) == {guest, V6, BY_HAND}, "entries while CrowdSec is away"
    assert follower.log().count("controlctl: CrowdSec: ") == 1, f"lines about it: {follower.log()}"
    crowdsec.start()
    crowdsec.delete("--ip", guest)
    session.wait("the deletion", lambda: guest not in entries(session))
    follower.wait_for_line("CrowdSec answers again")


def another_key_is_read(session, crowdsec, follower, guest, options):
    crowdsec.cscli("bouncers", "delete", "weir")
    follower.wait_for_line("answers 403: access forbidden")
    assert run_once(session, *options)[0] == 4, "exit code of --once with a wrong key"
    crowdsec.new_key("again")
    crowdsec.decide("--ip", guest)
    session.wait("a decision with another key", lambda: guest in entries(session))


def one_round_makes_up_for_a_pause(session, crowdsec, options):
    crowdsec.delete("--all")
    crowdsec.decide("--ip", "192.0.2.60")
    does_once(session, options, added=1, deleted=2)
    assert set(entries(session)) == {"192.0.2.60", BY_HAND}, "entries after the round"
    does_once(session, (*options, "--type", "captcha", "--type", "ban"), added=0, renewed=0)


@needs_crowdsec
@pytest.mark.timeout(300)
def test_a_list_follows_crowdsec(session, clock, guest):
    with CrowdSec(session.path("crowdsec")) as crowdsec:
        options = ("--url", crowdsec.url, "--key-file", crowdsec.key_file, "--list", "jail")
        does_once(session, options, **NOTHING, list="jail", entries=0, no_room=0, elsewhere=0, skipped=0, acknowledged=True)
        session.call("add", name="jail", entries=[BY_HAND], comment="by hand")
        assert dropped(session) == 0, "drops before anything is decided"
        with Follower(session, *options) as follower:
            decisions_appear(session, crowdsec, follower, guest)
            a_deleted_decision_takes_its_entry_away(session, crowdsec, guest)
            an_address_of_two_decisions_stays_until_the_last_ends(session, crowdsec, guest)
            an_entry_ends_with_its_decision_when_nobody_follows(session, crowdsec, follower, guest, clock)
            decisions_wait_while_controld_is_away(session, crowdsec, follower, guest)
            entries_stay_while_crowdsec_is_away(session, crowdsec, follower, guest, clock)
            another_key_is_read(session, crowdsec, follower, guest, options)
        one_round_makes_up_for_a_pause(session, crowdsec, options)
    assert (session.stop("dataplane"), session.stop("controld")) == (0, 0), "exit codes of both"


@needs_crowdsec
@needs_programs("openssl")
def test_certificates_are_checked_both_ways(session, guest):
    with CrowdSec(session.path("tls"), with_tls=True) as crowdsec:
        crowdsec.decide("--ip", "192.0.2.61")
        options = ("--url", crowdsec.url, "--list", "jail")
        key = ("--key-file", crowdsec.key_file)
        for proof in (key, ("--cert", crowdsec.path("client.pem"), "--cert-key", crowdsec.path("client.key"))):
            does_once(session, (*options, "--ca-file", crowdsec.path("ca.pem"), *proof), added=1)
            session.call("flush", name="jail")
        code, answer, _ = run_once(session, *options, *key)
        assert code == 4 and "certificate" in answer["api_error"], f"a server with an unknown authority: {code}: {answer}"


@pytest.fixture
def fake(session, guest):
    """A local API of the test; fake.options to ask it."""
    api = FakeApi()
    api.answer(200, b'{"new":null,"deleted":null}')
    api.options = ("--url", api.url, "--key-file", write(session.folder, "fake.key", "key\n"))
    return api


@pytest.mark.timeout(300)
def test_lies_leave_100000_decisions_in_force(session, fake):
    options = (*fake.options, "--list", "jail")
    fake.decide([str(ipaddress.ip_address(0x0b000000 + 3 * number)) for number in range(MANY)])
    does_once(session, options, added=MANY)
    assert len(entries(session)) == MANY, "entries"
    does_once(session, options, **NOTHING)
    for status, body, error in ((200, b"<html>", "not understood"), (200, b'{"new":[{"id":1}]}', "member new[0].scope is missing"),
                                (200, b"{}", "tells of no decisions"), (200, b" " * (65 << 20), "longer than"), (500, b"", "answers 500"),
                                (302, b"", "leads elsewhere"), (200, b"[" * 1_000_000, "not understood")):
        fake.answer(status, body)
        code, answer, err = run_once(session, *options)
        assert (code, answer["added"], answer["deleted"]) == (4, 0, 0), f"{status} {body[:20]}: {answer} {err}"
        assert error in answer["api_error"] and answer["api_error"].count("\n") == 0, answer["api_error"]
    assert len(entries(session)) == MANY, "entries after lies"
    fake.decide(["192.0.2.1", "0.0.0.0/0", "192.0.2.0:80", "dst 192.0.2.9", "192.0.2.2"])
    does_once(session, options, added=2, deleted=MANY, skipped=3)


def test_a_full_list_keeps_its_entries(session, fake, clock):
    fake.decide([f"192.0.2.{number}" for number in range(1, 9)])
    with Follower(session, *fake.options, "--list", "short") as follower:
        follower.wait_for_line("list short is full: 3 entries are not added")
        fake.answer(200, b'{"new":null,"deleted":null}')
        begin = time.time()
        for passed in range(20, 161, 20):  # max_ttl is a minute
            clock.pass_time(20)

            def are_renewed():
                held = entries(session, "short")
                assert len(held) == 5, "entries while they are renewed"
                return all(expires >= begin + passed + 28 for _, expires in held.values())

            session.wait("the entries to be renewed", are_renewed)


def test_wrong_command_lines_are_refused(session, fake):
    fake.decide([])
    key = fake.options[3]
    for more, error in ((("--url", fake.url), "several dynamic lists"), (("--url", fake.url, "--list", "none"), "none"),
                        (("--every", "soon"), "--every"), (("--url", "ftp://a"), "it must begin with http:// or https://"),
                        (("--cert", key), "--cert-key")):
        done = subprocess.run([CONTROLCTL, "crowdsec", "--once", "--key-file", key, "--socket", session.path("controld.sock"), *more],
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (1, 2) and error in done.stderr, f"{more}: {done.returncode}: {done.stderr}"


def test_ctrl_c_ends_it_while_nobody_answers(folder):
    silent = FakeApi()
    silent.says = lies.silent
    process = subprocess.Popen([CONTROLCTL, "crowdsec", "--url", silent.url, "--key-file", write(folder, "key", "key\n"), "--list", "jail"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until("the question", lambda: silent.asked)
    process.send_signal(signal.SIGINT)
    until("the end", lambda: process.poll() is not None)
    assert process.returncode == 0, "exit code"
