#!/usr/bin/env python3
"""A fake etcd for unit tests: the part of its JSON gateway (v3) that control/sources/etcd/client.cpp uses, and errors on request.

    fake_etcd.py [--members N]     prints the port of each member, on loopback; ends when its standard input ends

All members have one store. tests/smoke/test_fake_etcd.py compares their answers with those of a real etcd. Time stands still: a lease
ends when a test moves it. A test asks any member:

    /fake/set {...}                changes how this member behaves: SETTINGS below
    /fake/cut {}                   closes every watch of this member
    /fake/pass {"seconds": N}      moves the time
    /fake/users {"NAME": ["PASSWORD", "PREFIX"], ...}     turns authentication on; PREFIX: of the keys that this user may use
    /fake/end_tokens {}            no token is valid any more
    /fake/change_users {}          tokens are older than the users, as JSON web tokens become; a new login mends that
    /fake/state {}                 the number of open watches and of waiting requests; all requests so far, of all members
Standard library only.
"""

import argparse
import base64
import contextlib
import http.server
import json
import os
import socket
import sys
import threading

SETTINGS = {
    "is_silent": False,   # holds every answer until this is false again
    "drops": False,       # closes connections instead of an answer
    "has_leader": True,   # false: holds what needs a leader, ends watches that ask for one
    "is_full": False,     # the alarm NOSPACE: takes nothing new
    "fails_with": None,   # [HTTP status, gRPC code, message]: the answer to everything
}
LOOK_S = 0.05               # how often a watch asks whether its client is there
TIMEOUT_S = 7               # of a request that waits for a leader
MOST_OPERATIONS = 128       # of a transaction
MOST_REQUEST = 1536 << 10   # bytes
MOST_TTL_S = 9_000_000_000
LEAST_TTL_S = 2
STATUS = {3: 400, 5: 404, 7: 403, 8: 429, 9: 412, 11: 400, 14: 503, 16: 401}  # HTTP, by the code of gRPC
NAMES = {3: "InvalidArgument", 7: "PermissionDenied", 16: "Unauthenticated"}
CODES = {
    "key is not provided": 3, "duplicate key given in txn request": 3, "too many operations in txn request": 3, "request is too large": 3,
    "requested lease not found": 5, "lease already exists": 9, "too large lease TTL": 11, "mvcc: database space exceeded": 8,
    "mvcc: required revision is a future revision": 11, "mvcc: required revision has been compacted": 11,
    "authentication is not enabled": 9, "authentication failed, invalid user ID or password": 3, "user name is empty": 3,
    "invalid auth token": 16, "permission denied": 7, "revision of auth store is old": 3, "request timed out": 14, "no leader": 14,
}


class Refused(Exception):
    def __init__(self, message, code=None, status=None):
        super().__init__(message)
        self.message = message if code is not None else f"etcdserver: {message}"
        self.code = CODES[message] if code is None else code
        self.status = STATUS[self.code] if status is None else status


class Dropped(Exception):
    pass


def to_text(data):
    return base64.b64encode(data).decode()


def to_bytes(text):
    return base64.b64decode(text or "")


def sparse(**members):
    """As etcd's JSON: without members that are 0, false or empty; whole numbers are texts."""
    return {name: str(value) if type(value) is int else value for name, value in members.items() if value}


def is_inside(key, begin, end):
    """end: empty: begin alone; a zero byte: no end."""
    return key == begin if not end else begin <= key and (end == b"\0" or key < end)


class Store:
    """Keys with all their versions, and leases. Its callers hold the lock."""

    def __init__(self):
        self.revision, self.compacted = 1, 0
        self.versions = {}   # key: [(revision, its JSON or None: deleted)]
        self.events = []     # (revision, key, event), in their order
        self.leases = {}     # ID: [TTL, end, keys]
        self.now_s = 0

    def at(self, key, revision):
        found = None
        for changed_at, pair in self.versions.get(key, ()):
            if changed_at <= revision:
                found = pair
        return found

    def range(self, request):
        begin, end = to_bytes(request.get("key")), to_bytes(request.get("range_end"))
        if not begin:
            raise Refused("key is not provided")
        at = int(request.get("revision", 0)) or self.revision
        if at > self.revision:
            raise Refused("mvcc: required revision is a future revision")
        if at < self.compacted:
            raise Refused("mvcc: required revision has been compacted")
        found = [pair for key in sorted(self.versions) if is_inside(key, begin, end) and (pair := self.at(key, at))]
        limit = int(request.get("limit", 0)) or len(found)
        pairs = [{name: value for name, value in pair.items() if name != "value" or not request.get("keys_only")} for pair in found[:limit]]
        return {"header": sparse(revision=self.revision), **sparse(kvs=pairs, more=len(found) > limit, count=len(found))}

    def put(self, request, revision):
        key, lease = to_bytes(request.get("key")), int(request.get("lease", 0))
        before = self.at(key, revision)
        self.leave_lease(key, before)
        if lease:
            self.leases[lease][2].add(key)
        pair = sparse(key=to_text(key), create_revision=int(before["create_revision"]) if before else revision, mod_revision=revision,
                      version=int(before["version"]) + 1 if before else 1, value=request.get("value"), lease=lease)
        self.versions.setdefault(key, []).append((revision, pair))
        self.events.append((revision, key, {"kv": pair}))

    def delete(self, begin, end, revision):
        gone = [key for key in sorted(self.versions) if is_inside(key, begin, end) and self.at(key, revision)]
        for key in gone:
            self.leave_lease(key, self.at(key, revision))
            self.versions[key].append((revision, None))
            self.events.append((revision, key, {"type": "DELETE", "kv": {"key": to_text(key), "mod_revision": str(revision)}}))
        return len(gone)

    def leave_lease(self, key, pair):
        if pair and "lease" in pair:
            self.leases[int(pair["lease"])][2].discard(key)

    def transaction(self, request, is_full):
        steps = {branch: [next(iter(step.items())) for step in request.get(branch) or ()] for branch in ("success", "failure")}
        for branch in steps.values():
            self.check_steps(branch)
        if is_full and any(kind == "request_put" for branch in steps.values() for kind, _ in branch):
            raise Refused("mvcc: database space exceeded")
        holds = all(self.holds(compare) for compare in request.get("compare") or ())
        chosen = steps["success" if holds else "failure"]
        if any(int(step.get("lease", 0)) not in self.leases for kind, step in chosen if kind == "request_put" and step.get("lease")):
            raise Refused("requested lease not found")
        answers, begun = [], len(self.events)
        next_revision = self.revision + 1
        for kind, step in chosen:
            if kind == "request_put":
                self.put(step, next_revision)
                answers.append({"response_put": {"header": sparse(revision=next_revision)}})
            elif kind == "request_delete_range":
                deleted = self.delete(to_bytes(step["key"]), to_bytes(step.get("range_end")), next_revision)
                now = next_revision if len(self.events) > begun else self.revision
                answers.append({"response_delete_range": {"header": sparse(revision=now), **sparse(deleted=deleted)}})
            else:
                is_changed = len(self.events) > begun
                saved, self.revision = self.revision, next_revision if is_changed else self.revision
                answers.append({"response_range": self.range(step)})
                self.revision = saved
        if len(self.events) > begun:
            self.revision = next_revision
        return {"header": sparse(revision=self.revision), **sparse(succeeded=holds, responses=answers)}

    @staticmethod
    def check_steps(steps):
        if len(steps) > MOST_OPERATIONS:
            raise Refused("too many operations in txn request")
        puts = [to_bytes(step.get("key")) for kind, step in steps if kind == "request_put"]
        if not all(to_bytes(step.get("key")) for _, step in steps):
            raise Refused("key is not provided")
        deleted = [(to_bytes(step["key"]), to_bytes(step.get("range_end"))) for kind, step in steps if kind == "request_delete_range"]
        if len(set(puts)) < len(puts) or any(is_inside(key, begin, end) for key in puts for begin, end in deleted):
            raise Refused("duplicate key given in txn request")

    def holds(self, compare):
        if (compare.get("target"), compare.get("result")) != ("MOD", "EQUAL"):
            raise Refused(f"the fake compares MOD EQUAL only, not {compare}", 12, 501)
        pair = self.at(to_bytes(compare["key"]), self.revision)
        return int(pair["mod_revision"] if pair else 0) == int(compare["mod_revision"])

    def compact(self, revision):
        if revision <= self.compacted:
            raise Refused("mvcc: required revision has been compacted")
        if revision > self.revision:
            raise Refused("mvcc: required revision is a future revision")
        self.compacted = revision
        return {"header": sparse(revision=self.revision)}

    def grant(self, request, is_full):
        ttl, lease = int(request.get("TTL", 0)), int(request.get("ID", 0))
        if is_full:
            raise Refused("mvcc: database space exceeded")
        if ttl > MOST_TTL_S:
            raise Refused("too large lease TTL")
        if lease in self.leases:
            raise Refused("lease already exists")
        lease, ttl = lease or 7_000_000_000_000_000_001 + len(self.leases) + 2 * self.revision, max(ttl, LEAST_TTL_S)
        self.leases[lease] = [ttl, self.now_s + ttl, set()]
        return {"header": sparse(revision=self.revision), "ID": str(lease), "TTL": str(ttl)}

    def keep_alive(self, lease):
        if lease in self.leases:
            self.leases[lease][1] = self.now_s + self.leases[lease][0]
        ttl = self.leases[lease][0] if lease in self.leases else 0
        return {"result": {"header": sparse(revision=self.revision), **sparse(ID=lease, TTL=ttl)}}

    def time_to_live(self, lease):
        answer = {"header": sparse(revision=self.revision), "ID": str(lease)}
        if lease not in self.leases:
            return {**answer, "TTL": "-1"}
        ttl, end, _ = self.leases[lease]
        left = end - self.now_s - 1  # whole seconds: a part of the first one has always passed
        return {**answer, **sparse(TTL=left), "grantedTTL": str(ttl)}

    def revoke(self, lease):
        if lease not in self.leases:
            raise Refused("requested lease not found")
        keys = self.leases[lease][2].copy()
        for key in sorted(keys):
            self.delete(key, b"", self.revision + 1)
        if keys:
            self.revision += 1
        del self.leases[lease]
        return {"header": sparse(revision=self.revision)}

    def pass_time(self, seconds):
        self.now_s += seconds
        for lease in [lease for lease, (_, end, _) in self.leases.items() if end <= self.now_s]:
            self.revoke(lease)

    def events_of(self, begin, end, first, last):
        return [(revision, event) for revision, key, event in self.events if first <= revision <= last and is_inside(key, begin, end)]


class Users:
    def __init__(self):
        self.users, self.tokens, self.number, self.revision = {}, {}, 0, 1

    def authenticate(self, request):
        if not self.users:
            raise Refused("authentication is not enabled")
        if self.users.get(request.get("name"), (None,))[0] != request.get("password"):
            raise Refused("authentication failed, invalid user ID or password")
        self.number += 1
        token = f"token.{self.number}"
        self.tokens[token] = (request["name"], self.revision)
        return token

    def check(self, token, keys):
        if token and token not in self.tokens:
            raise Refused("invalid auth token")
        if not self.users:
            return
        if not token:
            raise Refused("user name is empty")
        name, revision = self.tokens[token]
        if revision < self.revision:
            raise Refused("revision of auth store is old")
        if not all(key.startswith(self.users[name][1].encode()) for key in keys):
            raise Refused("permission denied")


class Cluster:
    def __init__(self):
        self.changed = threading.Condition()  # guards all that follows
        self.store, self.users, self.asked, self.waiting = Store(), Users(), [], 0


class Member(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, cluster, number):
        super().__init__(("127.0.0.1", 0), Handler)
        self.cluster, self.number, self.settings, self.watches = cluster, number, dict(SETTINGS), set()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def keys_of(path, body):
    if path == "/v3/kv/range":
        return [to_bytes(body.get("key"))]
    if path == "/v3/kv/txn":
        steps = [step for branch in ("success", "failure") for one in body.get(branch) or () for step in one.values()]
        return [to_bytes(one.get("key")) for one in (body.get("compare") or []) + steps]
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = json.loads(text or b"{}")
        try:
            if self.path.startswith("/fake/"):
                self.answer(200, self.fake(self.path.removeprefix("/fake/"), body))
            elif self.path == "/v3/watch":
                self.watch(body["create_request"])
            else:
                self.answer(200, self.etcd(body))
        except Refused as refused:
            self.answer(refused.status, {"error": refused.message, "message": refused.message, "code": refused.code})
        except Dropped:
            self.close_connection = True
            with contextlib.suppress(OSError):  # the client may have ended it
                self.connection.shutdown(socket.SHUT_RDWR)

    def answer(self, status, body):
        text = json.dumps(body, separators=(",", ":")).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.wfile.flush()

    # --- what tests ask ---

    def fake(self, what, body):
        member, cluster = self.server, self.server.cluster
        with cluster.changed:
            if what == "set":
                assert all(name in SETTINGS for name in body), body
                member.settings.update(body)
            elif what == "cut":
                for connection in member.watches:
                    connection.shutdown(socket.SHUT_RDWR)
            elif what == "pass":
                cluster.store.pass_time(int(body["seconds"]))
            elif what == "users":
                cluster.users.users = body
            elif what == "end_tokens":
                cluster.users.tokens.clear()
            elif what == "change_users":
                cluster.users.revision += 1
            elif what != "state":
                raise Refused(f"the fake has no {what}", 12, 501)
            cluster.changed.notify_all()
            return {"watches": len(member.watches), "waiting": cluster.waiting, "asked": cluster.asked}

    # --- etcd ---

    def begin(self, body, needs_leader):
        """The lock is taken. Waits as long as this member does not answer."""
        member, cluster = self.server, self.server.cluster
        cluster.asked.append({"member": member.number, "path": self.path, "body": body})
        settings, end = member.settings, cluster.store.now_s + TIMEOUT_S
        cluster.waiting += 1
        while settings["is_silent"] or (needs_leader and not settings["has_leader"] and cluster.store.now_s < end):
            if settings["drops"]:
                break
            cluster.changed.wait()
        cluster.waiting -= 1
        if settings["drops"]:
            raise Dropped
        if settings["fails_with"]:
            status, code, message = settings["fails_with"]
            raise Refused(message, code, status)
        if needs_leader and not settings["has_leader"]:
            raise Refused("request timed out")

    def etcd(self, body):
        member, cluster = self.server, self.server.cluster
        store, is_full = cluster.store, member.settings["is_full"]
        with cluster.changed:
            self.begin(body, self.path != "/v3/maintenance/status")
            keys = keys_of(self.path, body)
            if keys is not None or "Authorization" in self.headers:
                cluster.users.check(self.headers.get("Authorization"), keys or ())
            if self.path == "/v3/kv/range":
                answer = store.range(body)
            elif self.path == "/v3/kv/txn":
                if int(self.headers["Content-Length"]) * 3 // 4 > MOST_REQUEST:
                    raise Refused("request is too large")
                answer = store.transaction(body, is_full)
            elif self.path == "/v3/kv/compaction":
                answer = store.compact(int(body["revision"]))
            elif self.path == "/v3/lease/grant":
                answer = store.grant(body, is_full)
            elif self.path == "/v3/lease/keepalive":
                answer = store.keep_alive(int(body["ID"]))
            elif self.path == "/v3/lease/timetolive":
                answer = store.time_to_live(int(body["ID"]))
            elif self.path == "/v3/lease/revoke":
                answer = store.revoke(int(body["ID"]))
            elif self.path == "/v3/auth/authenticate":
                answer = {"header": sparse(revision=store.revision), "token": cluster.users.authenticate(body)}
            elif self.path == "/v3/maintenance/status":
                answer = self.status()
            else:
                raise Refused(f"the fake has no {self.path}", 12, 501)
            cluster.changed.notify_all()
            return answer

    def status(self):
        settings = self.server.settings
        errors = ["memberID:1 alarm:NOSPACE "] * settings["is_full"] + ["etcdserver: no leader"] * (not settings["has_leader"])
        return {"header": sparse(revision=self.server.cluster.store.revision), "version": "3.4.23", "dbSize": "20480",
                **sparse(leader=1 if settings["has_leader"] else 0, errors=errors)}

    # --- watches ---

    def say(self, line):
        text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()

    def begin_stream(self, status):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def end_stream(self):
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def watch(self, create):
        member, cluster = self.server, self.server.cluster
        store, begin, end = cluster.store, to_bytes(create["key"]), to_bytes(create.get("range_end"))
        asks_for_leader = self.headers.get("Grpc-Metadata-hasleader") == "true"
        no_leader = {"error": {"grpc_code": 14, "http_code": 503, "message": "etcdserver: no leader", "http_status": "Service Unavailable"}}
        with cluster.changed:
            self.begin(create, False)
            if asks_for_leader and not member.settings["has_leader"]:
                self.begin_stream(503)
                self.say(no_leader)
                return self.end_stream()
            self.begin_stream(200)
            try:
                cluster.users.check(self.headers.get("Authorization"), [begin])
            except Refused as refused:
                return self.say({"result": {"header": sparse(revision=store.revision), "watch_id": "-1", "created": True, "canceled": True,
                                            "cancel_reason": f"rpc error: code = {NAMES[refused.code]} desc = {refused.message}"}})
            first = int(create.get("start_revision", 0)) or store.revision + 1
            self.say({"result": {"header": sparse(revision=store.revision), "created": True}})
            if first < store.compacted:
                return self.say({"result": {"header": {}, "canceled": True, "compact_revision": str(store.compacted)}})
            older = store.events_of(begin, end, first, store.revision)
            if older:
                self.say({"result": {"header": sparse(revision=store.revision), "events": [event for _, event in older]}})
            first = max(first, store.revision + 1)
            member.watches.add(self.connection)
            try:
                while not asks_for_leader or member.settings["has_leader"]:
                    for revision in range(first, store.revision + 1):
                        events = [event for _, event in store.events_of(begin, end, revision, revision)]
                        if events:
                            self.say({"result": {"header": sparse(revision=revision), "events": events}})
                        first = revision + 1
                    cluster.changed.wait(LOOK_S)
                    if self.is_gone():
                        raise Dropped
                self.say(no_leader)
                self.end_stream()
            finally:
                member.watches.discard(self.connection)

    def is_gone(self):
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1)
    options = parser.parse_args()
    cluster = Cluster()
    members = [Member(cluster, number) for number in range(options.members)]
    for member in members:
        threading.Thread(target=member.serve_forever, daemon=True).start()
    print(*(member.server_address[1] for member in members), flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
