"""The programs' logs as journald reads them: every line is an event with a level, and every publication has one line with its cause.

Names from outside forge no line. Repeated requests are left out and counted; publications and orders of bypass are not."""

import os
import re
import signal
import subprocess
import threading

import pytest

from weir_smoke import BUILD, Session, controlctl, events, order_bypass, parse_event, write
from fault_rig import Switch

POLICY = """version: 1
history: {{keep: 1d}}
lists:
  - {{name: bans, action: drop, dynamic: true}}
  - {{name: fed, action: drop, file: {feed}}}
"""
FEED = 'feed " one.txt'
FORGED = 'x"\n<3>published generation=4711 cause=forged\n\x1b[2Jy'
WINDOW_SECONDS, AT_MOST = 10, 5  # common/log/limit.h: kWindow, kPerSubject


def start_as_systemd(session, name, command):
    """Its stderr is a pipe that JOURNAL_STREAM names."""
    reading, writing = os.pipe()
    status = os.fstat(writing)
    log = open(session.path(name + ".log"), "ab")
    with open(session.path(name + ".out"), "ab") as out:
        process = subprocess.Popen(
            command, cwd=session.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=writing, start_new_session=True,
            env=dict(os.environ, RUNTIME_DIRECTORY=session.folder, JOURNAL_STREAM=f"{status.st_dev}:{status.st_ino}",
                     **session.environment))
    os.close(writing)

    def read():
        with log, os.fdopen(reading, "rb", buffering=0) as pipe:
            while chunk := pipe.read(65536):
                log.write(chunk)
                log.flush()

    threading.Thread(target=read, daemon=True).start()
    return process


@pytest.fixture
def journal(session, monkeypatch):
    monkeypatch.setattr(Session, "_start", start_as_systemd)
    return session


def write_policy(session, more=""):
    feed = session.path(FEED)
    return write(session.folder, "weir.yaml", POLICY.format(feed=f"'{feed}'") + more)


def write_feed(session, text):
    os.replace(write(session.folder, "feed.new", text), session.path(FEED))


def wait_event(session, name, message, **wanted):
    session.wait(f"{name} to log `{message}` {wanted}", lambda: events(session.log(name), message, **wanted))
    return events(session.log(name), message, **wanted)[-1]


def check_lines(session, least=1):
    for name in ("controld", "dataplane"):
        lines = session.log(name).splitlines()
        assert len(lines) >= least, f"{name} logged {len(lines)} lines"
        for line in lines:
            assert parse_event(line), f"a line of {name} is no event: {line!r}"
            assert re.match(r"<[3-7]>", line), f"a line of {name} has no level: {line!r}"


def check_causes(session):
    """Every generation of the history has one line, with the same cause."""
    past = {str(one["number"]): one["cause"] for one in controlctl(session, "history")["generations"]}
    session.wait("a line of each", lambda: len(events(session.log("controld"), "published")) >= len(past))
    told = {}
    for level, _, fields in events(session.log("controld"), "published"):
        assert level == "notice", "level of a publication"
        assert fields["generation"] not in told, f"generation {fields['generation']} has two lines"
        told[fields["generation"]] = fields["cause"]
    assert told == past, "causes in the log and in the history"
    enforced = {fields["generation"] for _, _, fields in events(session.log("dataplane"), "enforced")}
    assert str(max(map(int, told))) in enforced, f"the data plane says that it enforces the newest: {enforced}"


def wait_reloaded(session):
    session.wait("the reload to end", lambda: "reloading" not in controlctl(session, "status"))


def start(session):
    """Both programs. The fields of the first publication."""
    policy = write_policy(session)
    write_feed(session, "192.0.2.1\n")
    session.start_dataplane("forward: sink\n", extra=())
    assert wait_event(session, "dataplane", "no snapshot yet: everything passes until controld publishes one")[0] == "notice", "its level"
    session.start_controld(policy)
    session.wait_enforced()
    _, _, first = wait_event(session, "controld", "published")
    assert (first["cause"], first["entries"], first["lists"]) == ("start", "1", "2"), "the first publication"
    return first


def change_entries(session, first):
    controlctl(session, "add", "203.0.113.7", "203.0.113.8", "--list", "bans")
    _, _, added = wait_event(session, "controld", "published", cause="add")
    assert (added["added"], added["changed"], added["user"], added["base"]) == ("2", "bans", str(os.geteuid()), first["generation"]), "add"
    controlctl(session, "del", "203.0.113.7")
    controlctl(session, "flush", "bans")
    assert wait_event(session, "controld", "published", cause="flush")[2]["deleted"] == "1", "entries that flush deleted"


def reload_in_every_way(session, first):
    controlctl(session, "reload")
    assert wait_event(session, "controld", "published", cause="asked for")[2]["user"] == str(os.geteuid()), "user of the reload"
    assert controlctl(session, "status")["last_reload"]["cause"] == "asked for", "cause in status"
    session.controld.send_signal(signal.SIGHUP)
    wait_event(session, "controld", "published", cause="SIGHUP")
    wait_reloaded(session)
    write_feed(session, "192.0.2.1\n192.0.2.2\n")
    wait_event(session, "controld", "published", cause=f"{session.path(FEED)} changed")
    wait_reloaded(session)
    controlctl(session, "rollback", first["generation"])
    wait_event(session, "controld", "published", cause=f"rollback to generation {first['generation']}")
    wait_reloaded(session)
    assert session.call("accept", name="fed")["ok"] is True, "accept"
    wait_event(session, "controld", "published", cause="the feed of list fed is accepted as it is")


def restart_both(session):
    session.kill("dataplane")
    assert wait_event(session, "controld", "target lost")[0] == "warning", "level of a target that is lost"
    session.start_dataplane("forward: sink\n", extra=())
    assert wait_event(session, "dataplane", "enforcing the saved generation")[2]["cause"] == "restored from disk", "the data plane's start"
    session.wait("the target to be there again", lambda: len(events(session.log("controld"), "target connected")) >= 2)
    assert session.stop("controld") == 0, "controld stops"
    session.start_controld(session.path("weir.yaml"))
    assert wait_event(session, "controld", "published again")[2]["cause"] == "last good, while the policy is compiled", "controld's start"
    session.wait_enforced()


def test_every_publication_has_one_line_with_its_cause(journal):
    first = start(journal)
    change_entries(journal, first)
    reload_in_every_way(journal, first)
    restart_both(journal)
    check_causes(journal)
    check_lines(journal, 11)


def test_every_error_of_a_policy_has_a_line(journal):
    start(journal)
    policy = write_policy(journal, "  - {name: \"b\\n<3>ad\", action: drop, entries: [192.0.2.300]}\n")
    controlctl(journal, "reload", expect=1)
    assert wait_event(journal, "controld", "reload fails: what runs stays")[0] == "error", "level of a reload that fails"
    wrong = events(journal.log("controld"), "configuration")
    assert wrong and all(level == "error" and fields["place"].startswith(policy) for level, _, fields in wrong), (
        f"errors of the policy: {wrong}")
    check_lines(journal)


def test_no_order_of_bypass_is_left_out(journal):
    start(journal)
    for _ in range(AT_MOST + 3):
        for order in ("on", "off"):
            order_bypass(journal, order, "one of many")
    for order, state in (("on", "bypass is ON: everything passes"), ("off", "bypass is off")):
        journal.wait("orders to be logged", lambda wanted=f"bypass {order}": len(
            events(journal.log("controld"), "asked for", command=wanted)) >= AT_MOST + 3)
        for name in ("controld", "dataplane"):
            journal.wait(f"{name} to log it", lambda n=name, s=state: len(events(journal.log(n), s)) >= AT_MOST + 3)
            assert all(event[0] == "notice" for event in events(journal.log(name), state)), f"level of {state}"
    check_lines(journal)


def test_repeated_requests_are_counted_and_forge_no_line(journal):
    clock = Switch(journal.path("clock"))
    journal.environment = clock.environment(BUILD)
    start(journal)
    for _ in range(AT_MOST + 20):
        journal.call("accept", name=FORGED)
    clock.pass_time(WINDOW_SECONDS)
    journal.call("accept", name=FORGED)

    def logged_and_counted():
        logged = events(journal.log("controld"), "asked for", command=f"accept {FORGED}")
        return len(logged), sum(int(fields.get("suppressed", 0)) for _, _, fields in logged)

    journal.wait("each request to be logged or counted", lambda: sum(logged_and_counted()) >= AT_MOST + 21)
    logged, suppressed = logged_and_counted()
    assert logged + suppressed == AT_MOST + 21, "requests that are logged or counted"
    assert AT_MOST < logged <= 2 * AT_MOST + 1, f"lines of {AT_MOST + 21} requests"
    assert events(journal.log("controld"), "published", generation=4711) == [], "forged lines"
    assert "\x1b" not in journal.log("controld"), "control characters"
    check_lines(journal)
