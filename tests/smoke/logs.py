"""What the programs log as journald reads it: every line is an event with a level, every publication says its cause once, nobody
from outside forges a line, and what is repeated is left out and counted; a change of what is enforced never is."""

import os
import re
import signal
import subprocess
import threading
import time

from weir_smoke import BUILD, Session, check, controlctl, equal, events, order_bypass, parse_event, write

POLICY = """version: 1
history: {{keep: 1d}}
lists:
  - {{name: bans, action: drop, dynamic: true}}
  - {{name: fed, action: drop, file: {feed}}}
"""
FORGED = 'x"\n<3>published generation=4711 cause=forged\n\x1b[2Jy'
WINDOW_SECONDS, AT_MOST = 10, 5


class Journal(Session):
    """Its programs' stderr is a pipe that JOURNAL_STREAM names, as systemd would have it."""

    def _start(self, name, command):
        reading, writing = os.pipe()
        status = os.fstat(writing)
        log = open(self.path(name + ".log"), "ab")
        with open(self.path(name + ".out"), "ab") as out:
            process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=writing, start_new_session=True,
                                       env=dict(os.environ, RUNTIME_DIRECTORY=self.folder, JOURNAL_STREAM=f"{status.st_dev}:{status.st_ino}"))
        os.close(writing)

        def read():
            with log, os.fdopen(reading, "rb", buffering=0) as pipe:
                while chunk := pipe.read(65536):
                    log.write(chunk)
                    log.flush()

        threading.Thread(target=read, daemon=True).start()
        return process


def put(path, text):
    write(os.path.dirname(path), "feed.new", text)
    os.replace(os.path.join(os.path.dirname(path), "feed.new"), path)


def wait_event(session, name, message, **wanted):
    session.wait(f"{name} to log `{message}` {wanted}", lambda: events(session.log(name), message, **wanted))
    return events(session.log(name), message, **wanted)[-1]


def check_lines(session):
    for name in ("controld", "dataplane"):
        lines = session.log(name).splitlines()
        check(len(lines) > 10, f"{name} logged {len(lines)} lines")
        for line in lines:
            check(parse_event(line), f"a line of {name} is no event: {line!r}")
            check(re.match(r"<[3-7]>", line), f"a line of {name} has no level: {line!r}")


def check_causes(session):
    """Every generation of the history has one line, which says the same cause."""
    told = {}
    for level, _, fields in events(session.log("controld"), "published"):
        equal(level, "notice", "level of a publication")
        check(fields["generation"] not in told, f"generation {fields['generation']} is told of twice")
        told[fields["generation"]] = fields["cause"]
    past = {str(one["number"]): one["cause"] for one in controlctl(session, "history")["generations"]}
    equal(told, past, "causes in the log and in the history")
    enforced = {fields["generation"] for _, _, fields in events(session.log("dataplane"), "enforced")}
    check(str(max(map(int, told))) in enforced, f"the data plane says that it enforces the newest: {enforced}")
    print(f"{len(told)} publications, each with one line: {sorted(set(told.values()))}", flush=True)


with Journal(BUILD) as session:
    feed, policy = session.path('feed " one.txt'), session.path("weir.yaml")
    put(feed, "192.0.2.1\n")
    write(session.folder, "weir.yaml", POLICY.format(feed="'" + feed + "'"))
    session.start_dataplane("forward: sink\n", extra=())
    equal(wait_event(session, "dataplane", "no snapshot yet: everything passes until controld publishes one")[0], "notice", "its level")
    session.start_controld(policy)
    session.wait_enforced()
    _, _, first = wait_event(session, "controld", "published")
    equal((first["cause"], first["entries"], first["lists"]), ("start", "1", "2"), "the first publication")

    # What people and feeds change.
    controlctl(session, "add", "203.0.113.7", "203.0.113.8", "--list", "bans")
    _, _, added = wait_event(session, "controld", "published", cause="add")
    equal((added["added"], added["changed"], added["user"], added["base"]), ("2", "bans", str(os.geteuid()), first["generation"]), "of add")
    controlctl(session, "del", "203.0.113.7")
    controlctl(session, "flush", "bans")
    equal(wait_event(session, "controld", "published", cause="flush")[2]["deleted"], "1", "entries that flush deleted")
    controlctl(session, "reload")
    equal(wait_event(session, "controld", "published", cause="asked for")[2]["user"], str(os.geteuid()), "who asked for the reload")
    equal(controlctl(session, "status")["last_reload"]["cause"], "asked for", "cause in status")
    session.controld.send_signal(signal.SIGHUP)
    wait_event(session, "controld", "published", cause="SIGHUP")
    session.wait("the reload to end", lambda: "reloading" not in controlctl(session, "status"))
    put(feed, "192.0.2.1\n192.0.2.2\n")
    wait_event(session, "controld", "published", cause=f"{feed} changed")
    session.wait("the reload to end", lambda: "reloading" not in controlctl(session, "status"))
    controlctl(session, "rollback", first["generation"])
    wait_event(session, "controld", "published", cause=f"rollback to generation {first['generation']}")
    session.wait("the reload to end", lambda: "reloading" not in controlctl(session, "status"))
    equal(session.call("accept", name="fed")["ok"], True, "accept")
    wait_event(session, "controld", "published", cause="the feed of list fed is accepted as it is")

    # A policy that is wrong: what is wrong has a line each.
    write(session.folder, "weir.yaml", POLICY.format(feed="'" + feed + "'") + "  - {name: \"b\\n<3>ad\", action: drop, entries: [192.0.2.300]}\n")
    controlctl(session, "reload", expect=1)
    equal(wait_event(session, "controld", "reload fails: what runs stays")[0], "error", "level of a reload that fails")
    wrong = events(session.log("controld"), "configuration")
    check(wrong and all(level == "error" and fields["place"].startswith(policy) for level, _, fields in wrong), f"errors of the policy: {wrong}")

    # The panic switch: no order is left out, however many there are.
    for _ in range(AT_MOST + 3):
        for order in ("on", "off"):
            order_bypass(session, order, "one of many")
    for order, state in (("on", "bypass is ON: everything passes"), ("off", "bypass is off")):
        session.wait("orders to be told", lambda wanted=f"bypass {order}": len(events(session.log("controld"), "asked for", command=wanted)) >= AT_MOST + 3)
        for name in ("controld", "dataplane"):
            session.wait(f"{name} to tell", lambda n=name, s=state: len(events(session.log(n), s)) >= AT_MOST + 3)
            check(all(event[0] == "notice" for event in events(session.log(name), state)), f"level of {state}")

    # Names from outside: they are refused, and forge nothing. The same again and again is left out, and counted.
    for _ in range(AT_MOST + 20):
        session.call("accept", name=FORGED)
    time.sleep(WINDOW_SECONDS + 0.5)
    session.call("accept", name=FORGED)

    def told_and_counted():
        told = events(session.log("controld"), "asked for", command=f"accept {FORGED}")
        return len(told), sum(int(fields.get("suppressed", 0)) for _, _, fields in told)

    session.wait("each request to be told of or counted", lambda: sum(told_and_counted()) >= AT_MOST + 21)
    told, suppressed = told_and_counted()
    equal(told + suppressed, AT_MOST + 21, "requests that are told of or counted")
    check(AT_MOST < told <= 2 * AT_MOST + 1, f"lines of {AT_MOST + 21} requests: {told}")
    equal(events(session.log("controld"), "published", generation=4711), [], "forged lines")
    check("\x1b" not in session.log("controld"), "no control character gets through")
    print(f"{AT_MOST + 21} requests in {WINDOW_SECONDS} s: {told} lines, {suppressed} left out and counted", flush=True)

    # Restarts.
    write(session.folder, "weir.yaml", POLICY.format(feed="'" + feed + "'"))
    session.kill("dataplane")
    equal(wait_event(session, "controld", "target lost")[0], "warning", "level of a target that is lost")
    session.start_dataplane("forward: sink\n", extra=())
    equal(wait_event(session, "dataplane", "enforcing the saved generation")[2]["cause"], "restored from disk", "what is enforced at once")
    session.wait("the target to be there again", lambda: len(events(session.log("controld"), "target connected")) >= 2)
    equal(session.stop("controld"), 0, "controld stops")
    session.start_controld(policy)
    equal(wait_event(session, "controld", "published again")[2]["cause"], "last good, while the policy is compiled", "at a start")
    session.wait_enforced()
    check_causes(session)
    check_lines(session)
