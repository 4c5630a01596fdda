"""The fake etcd of the unit tests (tests/rig/fleet/fake_etcd.py) answers as a real one: both get the same requests, of the kinds that
control/sources/etcd/client.cpp makes, and their answers are compared, without the ids of cluster, members and terms.
"""
import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from weir_smoke import ROOT, needs_programs
from fleet_rig import Etcd

pytestmark = needs_programs("etcd", "etcdctl")

FAKE = os.path.join(ROOT, "tests/rig/fleet/fake_etcd.py")
OF_CLUSTER = ("cluster_id", "member_id", "raft_term")
PATIENCE_S = 60
USER, PASSWORD, PREFIX = "u", "p", "/weir/"


def text(data):
    return base64.b64encode(data.encode()).decode()


def key(name, end=None, **more):
    return {"key": text(name), **({"range_end": text(end)} if end else {}), **more}


def put(name, value="", lease=0):
    return {"request_put": key(name, value=text(value), **({"lease": str(lease)} if lease else {}))}


def erase(name, end=None):
    return {"request_delete_range": key(name, end)}


def read(name):
    return {"request_range": key(name)}


def changed_at(name, revision):
    return key(name, target="MOD", result="EQUAL", mod_revision=str(revision))


def transaction(steps, conditions=(), otherwise=()):
    return {"compare": list(conditions), "success": list(steps), "failure": list(otherwise)}


def without_ids(answer):
    if isinstance(answer, dict):
        return {name: without_ids(value) for name, value in answer.items() if name not in OF_CLUSTER}
    return [without_ids(one) for one in answer] if isinstance(answer, list) else answer


class Fake:
    """As fleet_rig.Etcd, with one member."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, FAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ports = [int(self.process.stdout.readline())]
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0, "the fake's end"


class Pair:
    """A real etcd, and a fake."""

    def __init__(self, real, fake):
        self.ports = {"etcd": real.ports[0], "the fake": fake.ports[0]}
        self.real, self.fake = real, fake

    def ask_one(self, name, path, body, token=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[name], timeout=PATIENCE_S)
        connection.request("POST", path, json.dumps(body),
                           {"Content-Type": "application/json", **({"Authorization": token} if token else {})})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def agree(self, path, body, tokens=None, change=without_ids):
        """Asks both. tokens: by name; change: of an answer before it is compared. Returns the one that they agree on."""
        answers = {name: self.ask_one(name, path, body, tokens and tokens[name]) for name in self.ports}
        told = {name: (status, change(answer)) for name, (status, answer) in answers.items()}
        assert told["the fake"] == told["etcd"], f"the fake's answer to {path} {json.dumps(body)[:300]}"
        return told["etcd"]

    def settle(self, path, status, body, **more):
        """As agree(); both answer with this status."""
        found, answer = self.agree(path, body, **more)
        assert found == status, f"status of {path} {json.dumps(body)[:300]}: {answer}"
        return answer

    def commit(self, status, *arguments, **more):
        return self.settle("/v3/kv/txn", status, transaction(*arguments), **more)

    def range(self, status, *arguments, **more):
        return self.settle("/v3/kv/range", status, key(*arguments, **more))

    def watch(self, create, events, act=lambda: None, tokens=None):
        """The lines of a watch, until there are so many events or it is cancelled; act() comes when it is there. etcd may tell several
        revisions in one line or in several ones, so their events are joined."""
        streams = {name: Stream(self.ports[name], create, tokens and tokens[name]) for name in self.ports}
        firsts = {name: stream.line() for name, stream in streams.items()}
        assert without_ids(firsts["the fake"]) == without_ids(firsts["etcd"]), f"the first line of watch {create}"
        act()
        told = {name: stream.events(events) for name, stream in streams.items()}
        assert told["the fake"] == told["etcd"], f"events of watch {create}"
        return firsts["etcd"], told["etcd"]


class Stream:
    def __init__(self, port, create, token=None, leader=True):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        body = json.dumps({"create_request": create}).encode()
        headers = {"Host": "etcd", "Content-Type": "application/json", "Content-Length": len(body),
                   **({"Authorization": token} if token else {}), **({"Grpc-Metadata-hasleader": "true"} if leader else {})}
        head = "POST /v3/watch HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.socket.sendall(head.encode() + b"\r\n" + body)
        self.answer = http.client.HTTPResponse(self.socket)
        self.answer.begin()
        self.status = self.answer.status

    def line(self):
        while True:
            read_line = self.answer.readline()
            if read_line.strip() or not read_line:
                return json.loads(read_line or b"null")

    def events(self, most):
        """{"events": ...}, and what a line tells beside them."""
        found = {"events": []}
        while len(found["events"]) < most or most == 0:
            line = without_ids(self.line())
            found["events"] += line["result"].get("events", [])
            if line["result"].get("canceled"):
                return {**found, "end": line}
        return found


@pytest.fixture
def pair(request):
    """param: more options of the real one."""
    with Etcd(**{"members": 1, **getattr(request, "param", {})}) as real, Fake() as fake:
        yield Pair(real, fake)


def test_ranges(pair):
    pair.range(200, "a")
    pair.commit(200, [put("a", "1")])
    pair.commit(200, [put("a", "2"), put("b"), put("c", "3")])
    pair.range(200, "a")
    pair.range(200, "a", "z")
    pair.range(200, "a", "z", limit="1")
    pair.range(200, "a", "z", limit="3")
    pair.range(200, "a", "z", limit="2", keys_only=True)
    pair.range(200, "a", "z", revision="2")
    pair.range(200, "a", revision="3")
    pair.range(200, "b", "\0")
    pair.range(200, "\0", "\0")
    pair.range(200, "none", "nonf")
    pair.range(400, "a", revision="99")
    pair.range(400, "")


def test_transactions(pair):
    pair.commit(200, [put("a", "1"), put("b", "1")])
    pair.commit(200, [put("a", "2")], [changed_at("a", 2)], [read("a")])
    pair.commit(200, [put("a", "3")], [changed_at("a", 2), changed_at("b", 2)], [read("a"), read("none")])
    pair.commit(200, [put("c", "1")], [changed_at("c", 0)])
    pair.commit(200, [put("c", "1")], [changed_at("c", 0)])
    pair.commit(200, [erase("c")], [changed_at("c", 4)])
    pair.commit(200, [put("c", "1")], [changed_at("c", 0)])
    pair.range(200, "c")
    pair.commit(200, [erase("none"), read("a"), put("d", "4"), read("d")])
    pair.commit(200, [read("a"), read("b"), read("none")])
    pair.commit(200, [erase("a", "c"), put("c", "5")])
    pair.commit(200, [erase("none")])
    pair.commit(200, [])
    pair.commit(400, [put("a", "1"), put("a", "2")])
    pair.commit(400, [erase("a", "c"), put("b", "2")])
    pair.commit(400, [put("b", "2"), erase("a", "c")])
    pair.commit(400, [], (), [put("a", "1"), put("a", "2")])
    pair.commit(400, [put("")])
    pair.commit(200, [put(f"many/{n:03}") for n in range(128)])
    pair.commit(400, [put(f"many/{n:03}") for n in range(129)])
    pair.commit(400, [put("large", "x" * (1600 << 10))])
    pair.commit(404, [put("a", "1", 4711)])
    pair.range(200, "\0", "\0", keys_only=True)


def test_leases(pair):
    def without_lease(answer):
        assert int(answer["ID"]) > 0, f"a lease has an ID: {answer}"
        return {**without_ids(answer), "ID": "some"}

    def about(answer):
        assert 50 < int(answer["TTL"]) < 60, f"a part of 60 s is left: {answer}"
        return {**without_ids(answer), "TTL": "some"}

    pair.settle("/v3/lease/grant", 200, {"TTL": "100"}, change=without_lease)
    pair.settle("/v3/lease/grant", 200, {"TTL": "1"}, change=without_lease)
    pair.settle("/v3/lease/grant", 200, {"TTL": "60", "ID": "77"})
    pair.settle("/v3/lease/grant", 412, {"TTL": "60", "ID": "77"})
    pair.settle("/v3/lease/grant", 400, {"TTL": "9000000001"})
    pair.commit(200, [put("l/1", "1", 77), put("l/2", "2", 77), put("l/3", "3", 77)])
    pair.range(200, "l/", "l0")
    pair.commit(200, [put("l/2", "stays")])  # it has no lease any more
    pair.commit(200, [erase("l/3")])
    pair.settle("/v3/lease/keepalive", 200, {"ID": "77"})
    pair.settle("/v3/lease/keepalive", 200, {"ID": "78"})
    pair.settle("/v3/lease/timetolive", 200, {"ID": "77"}, change=about)
    pair.settle("/v3/lease/timetolive", 200, {"ID": "78"})
    pair.settle("/v3/lease/revoke", 200, {"ID": "77"})
    pair.settle("/v3/lease/revoke", 404, {"ID": "77"})
    pair.range(200, "l/", "l0")
    pair.settle("/v3/lease/grant", 200, {"TTL": "60", "ID": "79"})
    pair.settle("/v3/lease/revoke", 200, {"ID": "79"})
    pair.settle("/v3/lease/timetolive", 200, {"ID": "79"})


def test_watches(pair):
    pair.settle("/v3/lease/grant", 200, {"TTL": "60", "ID": "77"})
    pair.commit(200, [put("a", "1"), put("b", "1", 77), put("z/1", "1")])
    pair.commit(200, [erase("a"), put("c", "1")])
    pair.watch(key("a", "z", start_revision="2"), 4)
    pair.watch(key("a", "z", start_revision="3"), 2)
    pair.watch(key("a", start_revision="2"), 2)

    def changes():
        pair.commit(200, [put("a", "2"), put("zz", "no"), erase("c")])
        pair.settle("/v3/lease/revoke", 200, {"ID": "77"})
    pair.watch(key("a", "z"), 3, changes)
    pair.watch(key("d", "e", start_revision="6"), 1, lambda: pair.commit(200, [put("d", "of a later revision")]))


def test_compaction(pair):
    for value in "123":
        pair.commit(200, [put("a", value)])
    pair.settle("/v3/kv/compaction", 200, {"revision": "3"})
    pair.settle("/v3/kv/compaction", 400, {"revision": "3"})
    pair.settle("/v3/kv/compaction", 400, {"revision": "99"})
    pair.range(400, "a", revision="2")
    pair.range(200, "a", revision="3")
    _, told = pair.watch(key("a", start_revision="2"), 0)
    assert told["end"]["result"]["canceled"] and told["end"]["result"]["compact_revision"] == "3", f"the watch ends: {told}"
    pair.watch(key("a", start_revision="3"), 2)


def test_status(pair):
    def kinds(answer):
        return {**without_ids(answer), "dbSize": int(answer["dbSize"]) > 0, "leader": int(answer["leader"]) > 0,
                "raftIndex": 0, "raftTerm": 0, "raftAppliedIndex": 0, "dbSizeInUse": 0, "version": answer["version"].split(".")[0]}
    pair.commit(200, [put("a")])
    pair.settle("/v3/maintenance/status", 200, {}, change=kinds)
    pair.settle("/v3/auth/authenticate", 412, {"name": USER, "password": PASSWORD})


def test_users(pair):
    pair.commit(200, [put(PREFIX + "a", "1")])
    pair.real.ctl("user", "add", "root:r")
    pair.real.ctl("user", "grant-role", "root", "root")
    pair.real.ctl("user", "add", f"{USER}:{PASSWORD}")
    pair.real.ctl("role", "add", "r")
    pair.real.ctl("role", "grant-permission", "r", "readwrite", "--prefix=true", PREFIX)
    pair.real.ctl("user", "grant-role", USER, "r")
    pair.real.ctl("auth", "enable")
    pair.ask_one("the fake", "/fake/users", {USER: [PASSWORD, PREFIX]})
    tokens = {}
    for name in pair.ports:
        status, answer = pair.ask_one(name, "/v3/auth/authenticate", {"name": USER, "password": PASSWORD})
        assert status == 200, f"{name} lets the user in: {answer}"
        tokens[name] = answer["token"]
    none, wrong = None, {"etcd": "wrong", "the fake": "wrong"}
    for name in (USER, "nobody"):
        pair.settle("/v3/auth/authenticate", 400, {"name": name, "password": "wrong"})
    for status, held in ((200, tokens), (400, none), (401, wrong)):
        pair.settle("/v3/kv/range", status, key(PREFIX + "a"), tokens=held)
        pair.commit(status, [put(PREFIX + "b")], tokens=held)
    pair.settle("/v3/kv/range", 403, key("/other"), tokens=tokens)
    pair.commit(403, [put("/other")], tokens=tokens)
    pair.settle("/v3/lease/grant", 200, {"TTL": "60", "ID": "77"}, tokens=tokens)
    pair.settle("/v3/lease/keepalive", 200, {"ID": "77"}, tokens=tokens)
    watched = key(PREFIX, PREFIX[:-1] + "0", start_revision="2")
    pair.watch(watched, 2, tokens=tokens)
    for held in (none, wrong):
        first, _ = pair.watch(watched, -1, tokens=held)
        assert first["result"]["canceled"], f"it ends at once: {first}"


@pytest.mark.parametrize("pair", [{"more": ("--quota-backend-bytes", "200000")}], indirect=True, ids=["so"])
def test_full(pair):
    """etcd has a quota here. How much one put takes of it is etcd's own business, so revisions are not compared."""
    def without_revisions(answer):
        return json.loads(json.dumps(without_ids(answer)), object_hook=lambda one: {
            name: value for name, value in one.items() if not name.endswith("revision")})
    pair.commit(200, [put("a", "1")])
    for n in range(20):
        if pair.ask_one("etcd", "/v3/kv/txn", transaction([put(f"filler/{n}", "x" * 60000)]))[0] == 429:
            break
    pair.ask_one("the fake", "/fake/set", {"is_full": True})
    pair.commit(429, [put("a", "2")], change=without_revisions)
    pair.commit(429, [read("a")], (), [put("a", "2")], change=without_revisions)
    pair.settle("/v3/lease/grant", 429, {"TTL": "60", "ID": "77"}, change=without_revisions)
    pair.settle("/v3/lease/keepalive", 200, {"ID": "77"}, change=without_revisions)
    pair.settle("/v3/kv/range", 200, key("a"), change=without_revisions)
    errors = pair.agree("/v3/maintenance/status", {}, change=lambda answer: [one.split()[-1] for one in answer["errors"]])
    assert errors == (200, ["alarm:NOSPACE"]), "what a full member says"
    pair.commit(200, [erase("a")], change=without_revisions)


@pytest.mark.parametrize("pair", [{"members": 2}], indirect=True, ids=["so"])
def test_no_leader(pair):
    """etcd has two members here, and one of them ends."""
    watched = key("a", "b")
    watches = {name: Stream(port, watched) for name, port in pair.ports.items()}
    still = Stream(pair.ports["the fake"], watched, leader=False)
    for name, watch in (*watches.items(), ("the fake, which is asked for no leader", still)):
        assert watch.line()["result"]["created"], f"{name} begins a watch"
    pair.real.kill(1)
    pair.ask_one("the fake", "/fake/set", {"has_leader": False})
    lines = {name: watch.line() for name, watch in watches.items()}
    assert lines["the fake"] == lines["etcd"], "how a watch ends"
    assert [watch.answer.read().strip() for watch in watches.values()] == [b"", b""], "what comes after it"
    again = {name: Stream(port, watched) for name, port in pair.ports.items()}
    assert [watch.status for watch in again.values()] == [503, 503], "status of a watch without a leader"
    assert again["the fake"].line() == again["etcd"].line(), "answer to a watch without a leader"
    # A request waits for a leader, and is given up.
    late = {}
    threads = [threading.Thread(target=lambda name=name: late.update({name: pair.ask_one(name, "/v3/kv/range", key("a"))}))
               for name in pair.ports]
    for thread in threads:
        thread.start()
    threads[list(pair.ports).index("etcd")].join()
    assert "the fake" not in late, "time stands still in the fake"
    pair.ask_one("the fake", "/fake/pass", {"seconds": 7})
    for thread in threads:
        thread.join()
    assert late["the fake"] == late["etcd"], "answer to a range without a leader"
    errors = pair.agree("/v3/maintenance/status", {}, change=lambda answer: (answer["errors"], "leader" in answer))
    assert errors == (200, (["etcdserver: no leader"], False)), "what a member without a leader says"
