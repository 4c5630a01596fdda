"""Situations in which a peer of controld (a target, etcd, another operator) says what it should not, or at a bad time: whether the
fault shows.

    python3 tests/rig/faults/mended_peers.py [--build build] NAME...     runs those named and prints what they return
"""

import argparse
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from fleet_rig import NAME, Etcd, Node, Operator
from mended_rig import Feeds, write
from session import Session, SessionError
from until import until
from wire import WIRE_HEADER, WIRE_STATUS

WIRE_PUBLISH, WIRE_BYPASS = 2, 4  # common/wire.h
STATUS = struct.Struct("<32sQQQQQIIII16sQQQQQQQQII128sQQ")
PUBLISHED = struct.Struct("<QQIIIIII256s")
PUBLISH_GENERATION = struct.Struct("<QQ")
LARGEST = 2**64 - 1
STEP_CHECK = 2
FOLLOW_S = 15
POLICY = "version: 1\ntargets: []\nlists:\n  - {name: here, action: drop, entries: [192.0.2.2]}\n  - {name: jail, action: drop, dynamic: true}\n"


class Target(threading.Thread):
    """A target that says of itself what a test wants. claims: the number of controld's own epoch that it says it enforces instead
    of what it is given; None: it takes all that it is given, and notes the numbers."""

    def __init__(self, path, claims=None):
        super().__init__(daemon=True)
        self.claims, self.numbers, self.generation = claims, [], (0, 0)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(path)
        self.socket.listen(8)
        self.start()

    def run(self):
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, contextlib.suppress(OSError):
            while True:
                message, ancillary, _, _ = connection.recvmsg(1 << 17, 1024)
                for _, _, data in ancillary:
                    for place in range(0, len(data) - 3, 4):
                        os.close(struct.unpack_from("<i", data, place)[0])
                if not message:
                    return
                magic, version, kind, _, sequence = WIRE_HEADER.unpack_from(message)
                body = self.answer(kind, message[WIRE_HEADER.size:])
                if body is not None:
                    connection.sendmsg([WIRE_HEADER.pack(magic, version, kind, len(body), sequence) + body])

    def answer(self, kind, body):
        if kind == WIRE_PUBLISH:
            asked = PUBLISH_GENERATION.unpack_from(body)
            self.numbers.append(asked[1])
            self.generation = asked if self.claims is None else (asked[0], self.claims)
            is_taken = self.claims is None
            return PUBLISHED.pack(*self.generation, is_taken, 0 if is_taken else STEP_CHECK, 1, 1, 1, 0, b"" if is_taken else b"older")
        if kind in (WIRE_STATUS, WIRE_BYPASS):
            return STATUS.pack(b"0.1.0", *self.generation, 1_700_000_000, 0, 1 << 30, 1, 1, 0, 0, b"sse", 0, 0, *self.generation, 0, 0, 0, 0,
                               1, 1, b"", 0, 0)
        return None


def numbers_wrap(build):
    """A target claims the largest number of controld's own epoch."""
    with Session(build) as session:
        hostile, honest = (session.path(name) for name in ("hostile.sock", "honest.sock"))
        liar, target = Target(hostile, LARGEST), Target(honest)
        policy = POLICY.replace("targets: []", f"targets: [{{dataplane: {hostile}}}, {{dataplane: {honest}}}]")
        session.start_controld(write(session, "weir.yaml", policy), targets=False)
        session.wait("publications", lambda: liar.numbers and target.numbers)
        added = session.call("add", name="jail", entries=["198.51.100.1"])
        session.call("reload")
        again = session.call("add", name="jail", entries=["198.51.100.2"])
        numbers = list(target.numbers)
        is_rising = all(0 < a <= b < LARGEST for a, b in zip(numbers, numbers[1:]))
        errors = " ".join(answer.get("error", "") for answer in (added, again))
        return not is_rising or "proof" in errors, f"numbers {numbers[:8]}, error '{errors[:100]}'"


@contextlib.contextmanager
def fleet_of_one(build, text=POLICY):
    """(etcd, node, operator, its folder), with this policy as revision 1."""
    with Etcd(1) as etcd, Node(build, etcd, "n1", "canary") as node:
        node.has_dataplane = False
        node.start()
        folder = node.path("operator")
        os.makedirs(folder)
        operator = Operator(build, etcd, folder)
        put(folder, text)
        operator.fleet("push", "weir.yaml")
        node.wait("revision 1", lambda: node.call("status")["fleet"].get("revision") == 1, 30)
        yield etcd, node, operator, folder


def put(folder, text):
    with open(os.path.join(folder, "weir.yaml"), "w", encoding="utf-8") as file:
        file.write(text)


def follows(node, revision):
    with contextlib.suppress(SessionError):
        node.wait(f"revision {revision}", lambda: node.call("status")["fleet"].get("revision") == revision, FOLLOW_S)
        return True
    return False


def wait_heard(etcd, node):
    """Until the node has heard all that etcd was given: changes come in their order, and a head that is none changes nothing."""
    key = f"/weir/{NAME}/live/head"
    head = etcd.ctl("get", "--print-value-only", key).stdout.rstrip("\n")
    for text, is_troubled in (("none", True), (head, False)):
        etcd.ctl("put", key, text=text)
        node.wait("the head", lambda wanted=is_troubled: bool(node.call("status")["fleet"].get("etcd_error")) == wanted, 30)


def turn_wraps(build):
    """The fleet's head has the largest turn, and somebody pushes."""
    with fleet_of_one(build) as (etcd, node, operator, folder):
        key = f"/weir/{NAME}/live/head"
        head = json.loads(etcd.ctl("get", "--print-value-only", key).stdout)
        etcd.ctl("put", key, text=json.dumps(dict(head, turn=LARGEST, id="another")))
        pushes = []
        for number in range(2):
            put(folder, POLICY + f"  - {{name: more{number}, action: drop, entries: [192.0.2.1]}}\n")
            code, answer, error = operator.try_fleet("push", "weir.yaml")
            is_followed = code == 0 and follows(node, answer.get("revision"))
            pushes.append((code, is_followed, " ".join(error.split())[:100]))
        node.stop("controld")
        node.start()
        told = node.call("status")["fleet"]
        return not all(is_followed for _, is_followed, _ in pushes), f"pushes (exit code, followed, error) {pushes}, after a restart: {told.get('error', '')[:100]}"


def add_beside_rollout(build):
    """`fleet add` of a list that the revision does not have that a node is about to take."""
    with Feeds() as feeds, fleet_of_one(build) as (etcd, node, operator, folder):
        operator.fleet("add", "198.51.100.1", "198.51.100.2", "--enforced", "10s")
        put(folder, POLICY.replace("  - {name: jail, action: drop, dynamic: true}\n", feeds.list_of("/held/1")))
        operator.fleet("push", "--stage", "weir.yaml")
        rollout = subprocess.Popen([operator.program, "fleet", "rollout", "--groups", "canary", "--watch", "1s", "--wait", "30s", "--etcd",
                                    operator.urls, "--name", NAME], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            feeds.wait_asked()
            code, _, error = operator.try_fleet("add", "198.51.100.3", "198.51.100.4")
            wait_heard(etcd, node)  # while it waits
            feeds.release()
            with contextlib.suppress(SessionError):  # of wait(), when controld ends
                follows(node, 2)
                wait_heard(etcd, node)  # behind what it does with the entries
            ended = node.controld.poll()
        finally:
            rollout.terminate()
            rollout.wait()
        return ended is not None, f"controld: {'runs' if ended is None else f'ended with {ended}'}; fleet add: {code} {error[:80]}"


def delete_beside_reload(build):
    """An entry that waits behind a reload with others, of which one cannot be had, is deleted meanwhile."""
    with Feeds() as feeds, fleet_of_one(build) as (etcd, node, operator, folder):
        operator.fleet("add", "198.51.100.9", "--ttl", "1h", "--enforced", "10s")
        put(folder, POLICY + feeds.list_of("/held/1"))
        operator.fleet("push", "weir.yaml")
        feeds.wait_asked()
        key = f"/weir/{NAME}/live/entries/jail/"
        value = json.dumps(json.dumps({"by": "root@test", "ttl_s": 3600, "at": int(time.time())}))
        lease = etcd.ctl("lease", "grant", "3600").stdout.split()[1]
        entries = ("198.51.100.1", "198.51.100.2", "198.51.100.3", "::/0")
        done = etcd.ctl("txn", text="\n" + "".join(f"put --lease={lease} {key}{entry} {value}\n" for entry in entries) + "\n\n")
        if "SUCCESS" not in done.stdout:
            raise SessionError(f"entries are not put: {done.stdout}{done.stderr}")
        wait_heard(etcd, node)  # while it waits
        operator.try_fleet("del", "198.51.100.2")
        wait_heard(etcd, node)
        feeds.release()

        def held():
            return {entry["entry"] for entry in node.call("entries", name="jail")["entries"]}

        node.wait("the others", lambda: {"198.51.100.1", "198.51.100.3"} <= held(), 60)
        until("an entry to go", lambda: "198.51.100.2" not in held(), FOLLOW_S, error=None, turn=0.1)
        return "198.51.100.2" in held(), f"entries {sorted(held())}"


SITUATIONS = {"numbers": numbers_wrap, "turn": turn_wraps, "rollout": add_beside_rollout, "delete": delete_beside_reload}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("names", nargs="+", choices=SITUATIONS, metavar="NAME")
    arguments = parser.parse_args()
    for name in arguments.names:
        begin = time.monotonic()
        print(name, *SITUATIONS[name](os.path.abspath(arguments.build)), f"({time.monotonic() - begin:.1f} s)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
