"""CrowdSec itself, followed by `controlctl crowdsec`: decisions appear, expire and are deleted; neither program's absence loses any; a
local API that lies, or has 100,000 decisions, harms nothing."""

import http.server
import ipaddress
import json
import os
import signal
import subprocess
import threading
import time

from weir_smoke import BUILD, Session, check, equal, make_samples, moved, read_capture, skip, start_loop, write
from crowdsec_rig import CrowdSec, missing
from fleet_crowdsec import sources
from until import until

POLICY = """version: 1
lists:
  - {name: jail, action: drop, dynamic: true}
  - {name: short, action: drop, dynamic: true, max_ttl: 8s, max_entries: 5}
"""
CONTROLCTL = os.path.join(BUILD, "control/controlctl")
MANY = 100_000


class Follower:
    """controlctl crowdsec on the session, for as long as the `with` lasts; with its log."""

    def __init__(self, session, *options, name="bridge"):
        self.session, self.name = session, name
        self.process = session._start(name, [CONTROLCTL, "crowdsec", "--every", "1s", "--socket", session.path("controld.sock"), *options])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        equal(self.process.wait(90), 0, f"exit code of controlctl crowdsec when it is told to end: {self.log()}")

    def log(self):
        return self.session.log(self.name)


class FakeApi:
    """Says what the test wants of a local API."""

    def __init__(self):
        self.answer(200, b'{"new":null,"deleted":null}')
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # noqa: N802
                body = fake.body if fake.decided is None else fake.decisions()
                self.send_response(fake.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):  # a client that wants no more of a long answer
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, status, body):
        self.status, self.body, self.decided = status, body, None

    def decide(self, values):
        """For four hours from now."""
        self.status, self.decided = 200, (values, time.monotonic() + 4 * 3600)

    def decisions(self):
        values, end = self.decided
        return json.dumps({"deleted": None, "new": [
            {"id": number, "scope": "Ip", "value": value, "type": "ban", "duration": f"{end - time.monotonic():.3f}s", "origin": "lists",
             "scenario": "many"} for number, value in enumerate(values, 1)]}).encode()


def once(session, *options):
    """(exit code, what --json prints, standard error) of one round."""
    done = subprocess.run([CONTROLCTL, "crowdsec", "--once", "--json", "--socket", session.path("controld.sock"), *options],
                          capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def entries(session, name="jail"):
    """{entry: (comment, expires)}, of all pages."""
    found, after = {}, {}
    while True:
        page = session.call("entries", name=name, **after)
        found.update({one["entry"]: (one["comment"], one.get("expires")) for one in page["entries"]})
        if "next" not in page:
            return found
        after = {"after": page["next"]}


def dropped(session):
    """Frames that the list drops, of some."""
    return moved(session)[1]["jail"]["dropped"]


def follows_the_real_one(session, crowdsec, guest):
    options = ("--url", crowdsec.url, "--key-file", crowdsec.key_file, "--list", "jail")
    equal(once(session, *options)[:2], (0, {"list": "jail", "entries": 0, "added": 0, "renewed": 0, "deleted": 0, "no_room": 0, "elsewhere": 0,
                                            "skipped": 0, "acknowledged": True}), "a round without decisions")
    session.call("add", name="jail", entries=["192.0.2.250"], comment="by hand")
    equal(dropped(session), 0, "drops before anything is decided")
    with Follower(session, *options) as follower:
        # They appear.
        crowdsec.decide("--ip", guest, "--duration", "1h", "--reason", "guests")
        crowdsec.decide("--range", "100.64.9.0/25", "--duration", "2h")
        crowdsec.decide("--ip", "2001:db8::77")
        crowdsec.decide("--ip", "192.0.2.99", "--type", "captcha")
        crowdsec.decide("--scope", "Country", "--value", "FR")
        wanted = {guest, "100.64.9.0/25", "2001:db8::77", "192.0.2.250"}
        session.wait("the decisions", lambda: set(entries(session)) == wanted)
        session.wait("the first drop", lambda: dropped(session) > 0)
        comment, expires = entries(session)[guest]
        equal(comment, "crowdsec: guests (cscli)", "comment")
        check(3540 < expires - time.time() <= 3602, f"expires in {expires - time.time()} s")
        session.wait("what is skipped", lambda: "1 of scope Country" in follower.log() and "1 of type captcha" in follower.log())

        # They are deleted; what was added by hand stays.
        crowdsec.delete("--ip", guest)
        session.wait("the deletion", lambda: guest not in entries(session))
        session.wait("the last drop", lambda: dropped(session) == 0)
        equal(entries(session)["192.0.2.250"][0], "by hand", "comment of what was added by hand")

        # An address of two decisions stays until the last one is over.
        crowdsec.decide("--ip", guest, "--duration", "4h", "--reason", "long")
        crowdsec.decide("--ip", guest, "--duration", "1h", "--reason", "short")
        session.wait("the longer one", lambda: entries(session).get(guest, ("", 0))[0] == "crowdsec: long (cscli)")
        alerts = json.loads(crowdsec.cscli("alerts", "list", "-o", "json"))
        longer, = [one for alert in alerts for one in alert["decisions"] if one["scenario"] == "long"]
        crowdsec.delete("--id", str(longer["id"]))
        session.wait("the shorter one", lambda: entries(session).get(guest, ("", 0))[0] == "crowdsec: short (cscli)")
        check(3500 < entries(session)[guest][1] - time.time() <= 3602, "the shorter one's end")
        crowdsec.delete("--ip", guest)
        session.wait("no decision", lambda: guest not in entries(session))

        # They expire, also when nobody is left.
        crowdsec.decide("--ip", guest, "--duration", "12s")
        session.wait("a short decision", lambda: guest in entries(session))
        end = entries(session)[guest][1]
        follower.process.kill()
        follower.process.wait()
        session.wait("its end", lambda: guest not in entries(session), 60)
        check(time.time() > end - 1, f"it ended {end - time.time()} s before it was to")
        session.wait("the last drop", lambda: dropped(session) == 0)
        follower.process = session._start("bridge", follower.process.args)

        # controld is away for a while.
        session.wait("the list as it was", lambda: set(entries(session)) == {"100.64.9.0/25", "2001:db8::77", "192.0.2.250"})
        session.kill("controld")
        crowdsec.decide("--ip", guest, "--duration", "1h")
        crowdsec.delete("--range", "100.64.9.0/25")
        until("controld to be missed", lambda: "cannot reach controld" in follower.log(), about=follower.log)
        session.start_controld(session.path("jail.yaml"))
        session.wait("what was decided meanwhile", lambda: set(entries(session)) == {guest, "2001:db8::77", "192.0.2.250"})
        session.wait("a line about it", lambda: "follows CrowdSec's decisions again" in follower.log())

        # So is CrowdSec: entries stay.
        crowdsec.stop()
        session.wait("the trouble to be told", lambda: "Failed to connect" in follower.log() or "refused" in follower.log())
        time.sleep(3)
        equal(set(entries(session)), {guest, "2001:db8::77", "192.0.2.250"}, "entries while CrowdSec is away")
        equal(follower.log().count("controlctl: CrowdSec: "), 1, f"lines about it: {follower.log()}")
        crowdsec.start()
        crowdsec.delete("--ip", guest)
        session.wait("what was deleted", lambda: guest not in entries(session))
        session.wait("a line about it", lambda: "CrowdSec answers again" in follower.log())

        # And its key: another one is taken up.
        crowdsec.cscli("bouncers", "delete", "weir")
        session.wait("403", lambda: "answers 403: access forbidden" in follower.log())
        equal(once(session, *options)[0], 4, "exit code of --once with a wrong key")
        crowdsec.new_key("again")
        crowdsec.decide("--ip", guest)
        session.wait("a decision with another key", lambda: guest in entries(session))

    # What was decided and deleted while nobody followed.
    crowdsec.delete("--all")
    crowdsec.decide("--ip", "192.0.2.60")
    code, answer, err = once(session, *options)
    equal((code, answer["added"], answer["deleted"]), (0, 1, 2), f"a round after a while: {answer} {err}")
    equal(set(entries(session)), {"192.0.2.60", "192.0.2.250"}, "entries after it")
    code, answer, err = once(session, *options, "--type", "captcha", "--type", "ban")
    equal((code, answer["added"], answer["renewed"]), (0, 0, 0), "a round that finds nothing to do")
    session.call("flush", name="jail")


def follows_with_certificates(session):
    with CrowdSec(session.path("tls"), with_tls=True) as crowdsec:
        crowdsec.decide("--ip", "192.0.2.61")
        ca = ("--url", crowdsec.url, "--list", "jail", "--ca-file", crowdsec.path("ca.pem"))
        for who in (("--key-file", crowdsec.key_file), ("--cert", crowdsec.path("client.pem"), "--cert-key", crowdsec.path("client.key"))):
            code, answer, err = once(session, *ca, *who)
            equal((code, answer.get("added")), (0, 1), f"a round with {who[0]}: {answer} {err}")
            session.call("flush", name="jail")
        code, answer, err = once(session, "--url", crowdsec.url, "--list", "jail", "--key-file", crowdsec.key_file)
        equal(code, 4, "exit code with a certificate that nobody vouches for")
        check("certificate" in answer["api_error"], answer)


def survives_a_fake(session):
    fake = FakeApi()
    key = write(session.folder, "fake.key", "key\n")
    options = ("--url", fake.url, "--key-file", key, "--list", "jail")
    many = [str(ipaddress.ip_address(0x0b000000 + 3 * number)) for number in range(MANY)]
    fake.decide(many)
    begin = time.monotonic()
    code, answer, err = once(session, *options)
    equal((code, answer.get("added")), (0, MANY), f"{MANY} decisions: {answer} {err}")
    print(f"{MANY} decisions: {time.monotonic() - begin:.1f} s")
    equal(len(entries(session)), MANY, "entries")
    code, answer, _ = once(session, *options)
    equal((code, answer["added"], answer["renewed"], answer["deleted"]), (0, 0, 0, 0), "the same once more")

    for status, body, error in ((200, b"<html>", "not understood"), (200, b'{"new":[{"id":1}]}', "member new[0].scope is missing"),
                                (200, b"{}", "tells of no decisions"), (200, b" " * (65 << 20), "longer than"), (500, b"", "answers 500"),
                                (302, b"", "leads elsewhere"), (200, b"[" * 1_000_000, "not understood")):
        fake.answer(status, body)
        code, answer, err = once(session, *options)
        equal((code, answer["added"], answer["deleted"]), (4, 0, 0), f"{status} {body[:20]}: {answer} {err}")
        check(error in answer["api_error"] and answer["api_error"].count("\n") == 0, answer["api_error"])
    equal(len(entries(session)), MANY, "entries after lies")
    fake.decide(["192.0.2.1", "0.0.0.0/0", "192.0.2.0:80", "dst 192.0.2.9", "192.0.2.2"])
    code, answer, err = once(session, *options)
    equal((code, answer["added"], answer["deleted"], answer["skipped"]), (0, 2, MANY, 3), f"few decisions: {answer} {err}")
    session.call("flush", name="jail")

    # A list that takes five for eight seconds.
    fake.decide([f"192.0.2.{number}" for number in range(1, 9)])
    with Follower(session, "--url", fake.url, "--key-file", key, "--list", "short", name="short") as follower:
        session.wait("a full list", lambda: "list short is full: 3 entries are not added" in follower.log())
        equal(len(entries(session, "short")), 5, "entries of the full list")
        fake.answer(200, b'{"new":null,"deleted":null}')
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            equal(len(entries(session, "short")), 5, "entries while they are renewed")
            time.sleep(0.1)

    # Wrong command lines.
    fake.decide([])
    for more, error in ((("--url", fake.url), "several dynamic lists"), (("--url", fake.url, "--list", "none"), "none"),
                        (("--every", "soon"), "--every"), (("--url", "ftp://a"), "it must begin with http:// or https://"),
                        (("--cert", key), "--cert-key")):
        done = subprocess.run([CONTROLCTL, "crowdsec", "--once", "--key-file", key, "--socket", session.path("controld.sock"), *more],
                              capture_output=True, text=True, timeout=60, check=False)
        check(done.returncode in (1, 2) and error in done.stderr, f"{more}: {done.returncode}: {done.stderr}")
    silent = subprocess.Popen([CONTROLCTL, "crowdsec", "--url", "http://192.0.2.1:1", "--key-file", key, "--list", "jail"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    silent.send_signal(signal.SIGINT)
    until("the end after Ctrl-C while nobody answers", lambda: silent.poll() is not None, 5)
    equal(silent.returncode, 0, "exit code after Ctrl-C")


if missing():
    skip(f"package: no {missing()}: scripts/setup test installs it")
with Session(BUILD) as session:
    make_samples(session.folder, flows=100, frames=1000)
    capture = read_capture(session.path("capture.pcap"))
    start_loop(session, capture)
    session.start_controld(write(session.folder, "jail.yaml", POLICY))
    session.wait_enforced()
    with CrowdSec(session.path("crowdsec")) as real:
        follows_the_real_one(session, real, sources(capture, 1)[0])
    follows_with_certificates(session)
    survives_a_fake(session)
    equal((session.stop("dataplane"), session.stop("controld")), (0, 0), "exit codes of both")
