"""One policy for several machines, through three members of etcd: what is pushed is enforced by every node, entries reach all of them,
groups go one after the other and stop at a node that refuses, and a node without etcd goes on with what it has."""

import json
import os
import shutil
import subprocess
import time

from weir_smoke import BUILD, Capture, check, equal, moved, skip, start_loop, write
from fault_rig import DAY, Switch
from fleet_rig import NAME, Etcd, Node, Operator
from frames import Ethernet, Frame, V4, number_of, udp

SOURCES = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5")  # as many frames each
FRAMES = [Frame([Ethernet(), V4(number_of(source), number_of("203.0.113.9")), udp(1, 2)]).bytes for source in SOURCES] * 200


def policy(entries, more=""):
    return (f"version: 1\n{more}lists:\n  - {{name: bad, action: drop, file: feeds/bad.txt, guard: {{max_shrink: 100%}}}}\n"
            f"  - {{name: here, action: drop, entries: [{entries}]}}\n  - {{name: jail, action: drop, dynamic: true}}\n")


def drops(node, address):
    code, out, err = node.controlctl("test", "-q", address)
    check(code in (0, 1), f"{node.name}: test {address} ended with {code}: {out}{err}")
    return code == 0


def trouble(node):
    """Why the node does not follow its fleet. The log may leave it out: it tells the same event five times in ten seconds."""
    return node.call("status")["fleet"].get("etcd_error", "")


def wait_for(what, nodes, test, seconds=30):
    for node in nodes:
        node.wait(f"{what} on node {node.name}", lambda one=node: test(one), seconds)


SHARE = "share: {lists: [jail], per_minute: 2, max_ttl: 1h}"

if shutil.which("etcd") is None:
    skip("program: no etcd: scripts/setup test installs it")
with Etcd() as etcd, Node(BUILD, etcd, "n1", "canary", SHARE) as first, Node(BUILD, etcd, "n2") as second:
    nodes = (first, second)
    clock = Switch(second.path("faults"))
    second.environment = clock.environment(BUILD)
    for node in nodes:
        start_loop(node, Capture(frames=FRAMES, headers=[(0, 0, len(frame)) for frame in FRAMES]))
        node.start()
        node.wait_enforced()
        equal(node.call("status")["generation"]["number"], 1, "a node that has not heard of its fleet runs a policy without lists")
    folder = first.path("operator")
    write(os.path.join(folder, "feeds"), "bad.txt", "192.0.2.1\n")
    operator = Operator(BUILD, etcd, folder)

    # A push is enforced by every node, and its files are found there.
    write(folder, "weir.yaml", policy("192.0.2.2"))
    pushed = operator.fleet("push", "weir.yaml", "--comment", "the first")
    equal((pushed["revision"], pushed["files_sent"], pushed["head"]["turn"]), (1, 2, 1), "what was pushed")
    wait_for("revision 1", nodes, lambda node: drops(node, "192.0.2.2"))
    for node in nodes:
        node.wait_enforced()
        totals, _ = moved(node)
        check(abs(totals["dropped"] / totals["packets"] - 0.4) < 0.01, f"two of five sources are dropped: {totals}")
    node.wait("the nodes' reports", lambda: all(
        (one["revision"], one["state"], one["is_alive"]) == (1, "enforcing", True) for one in operator.nodes().values()))
    equal(set(operator.nodes()), {"n1", "n2"}, "nodes")
    standing = first.call("status")["fleet"]
    equal({name: standing[name] for name in ("name", "node", "group", "turn", "revision", "wanted", "state")},
          {"name": "edge", "node": "n1", "group": "canary", "turn": 1, "revision": 1, "wanted": 1, "state": "enforcing"}, "the node's status")
    check("fleet       edge: node n1 of group canary enforces revision 1, turn 1" in first.controlctl("status")[1], first.controlctl("status"))
    again = operator.fleet("push", "weir.yaml")
    equal((again["revision"], again["files_sent"]), (2, 0), "what etcd has is not sent again")

    # Entries everywhere, and their end.
    added = operator.fleet("add", "192.0.2.3", "--ttl", "1h", "--comment", "ticket 7", "--enforced", "10s")
    equal((added["entries"], added["waiting"]), (1, 0), "an entry of the fleet")
    for node in nodes:
        check(drops(node, "192.0.2.3"), f"{node.name} has the entry")
        entry, = node.call("entries", name="jail")["entries"]
        check(entry["comment"].startswith("fleet: ticket 7 (") and 3500 < entry["expires"] - time.time() <= 3600, entry)
    operator.fleet("add", "192.0.2.4", "--ttl", "5s", "--enforced", "10s")
    wait_for("the end of a lease", nodes, lambda node: not drops(node, "192.0.2.4"))
    # A clock that jumps by a day ends none of them: their time is etcd's.
    for ahead in (DAY, -DAY, 0):
        clock.ahead(realtime=ahead)
        second.wait(f"the entry, with a clock that is {ahead} s ahead", lambda at=ahead: [
            entry for entry in second.call("entries", name="jail")["entries"] if 3400 < entry["expires"] - time.time() - at <= 3600])
        check(drops(second, "192.0.2.3"), f"a clock that is {ahead} s ahead ends an entry")
    # Nor those that come before the node has noticed the jump.
    for number, ahead in enumerate((DAY, 0)):
        text = f"192.0.2.{10 + number}"
        clock.ahead(realtime=ahead)
        operator.fleet("add", text, "--ttl", "1h", "--enforced", "10s")
        time.sleep(2.5)
        held = [entry for entry in second.call("entries", name="jail")["entries"] if entry["entry"] == text]
        check(held and 3400 < held[0]["expires"] - time.time() - ahead <= 3600 and drops(second, text), f"{text} after a jump to {ahead} s ahead: {held}")
        operator.fleet("del", text, "--enforced", "10s")
    equal(operator.fleet("del", "192.0.2.3", "192.0.2.33", "--enforced", "10s")["missing"], 1, "an entry that was not there")
    etcd.ctl("put", "/other", "is not the fleet's")  # nodes hear neither of it nor of what was not there
    equal(operator.fleet("del", "192.0.2.33", "--enforced", "10s")["missing"], 1, "nobody waits for an entry that was not there")
    for node in nodes:
        check(not drops(node, "192.0.2.3"), f"{node.name} has let the entry go")
    code, _, error = operator.try_fleet("add", "192.0.2.3", "--list", "here")
    check(code == 1 and "no dynamic list here" in error, error)

    # What one node finds, all know; past its budget it stays there.
    first.controlctl("add", "192.0.2.4", "--ttl", "10m", "--comment", "scan")
    wait_for("what n1 shares", nodes, lambda node: drops(node, "192.0.2.4"))
    entry, = second.call("entries", name="jail")["entries"]
    check(entry["comment"] == "fleet: scan (node n1)" and 500 < entry["expires"] - time.time() <= 600, entry)
    first.controlctl("add", "198.51.100.1", "198.51.100.2", "198.51.100.3")
    wait_for("the first of them", [second], lambda node: drops(node, "198.51.100.1"))
    time.sleep(1)
    check(not drops(second, "198.51.100.2") and drops(first, "198.51.100.2"), "two entries a minute are shared")
    check("the rest stays on this node" in first.log("controld"), "it is said that it is not shared")
    operator.fleet("del", "192.0.2.4", "--enforced", "10s")
    check(not any(drops(node, "192.0.2.4") for node in nodes), "what was shared is deleted like any other")

    # Group after group.
    write(folder, "weir.yaml", policy("192.0.2.2, 192.0.2.3"))
    staged = operator.fleet("push", "--stage", "weir.yaml")
    equal(staged["head"]["staged"], 3, "staged")
    time.sleep(0.5)
    check(not any(drops(node, "192.0.2.3") for node in nodes), "what is staged is enforced by nobody")
    rolled = operator.fleet("rollout", "--groups", "canary,rest", "--watch", "1s", "--wait", "30s")
    equal(rolled["groups"], ["canary", "rest"], "groups that have it")
    wait_for("revision 3", nodes, lambda node: drops(node, "192.0.2.3"))
    equal(operator.fleet("status")["head"]["revision"], 3, "everywhere")

    # Beforehand: every node says what a revision would do to its traffic, and enforces none of it.
    write(folder, "weir.yaml", policy("192.0.2.2, 192.0.2.4"))
    first.wait("samples of the traffic", lambda: all(
        one["samples"] >= 1000 for one in operator.fleet("plan", "weir.yaml")["told"]))
    planned = operator.fleet("plan")
    equal([one["node"] for one in planned["told"]], ["n1", "n2"], "who answers")
    for share in ("newly_dropped", "newly_passed"):
        check(abs(planned[share] - 0.2) < 0.06, f"one of five sources: {planned}")
        check(all(one[share]["low"] <= 0.2 + 0.06 and one[share]["high"] >= 0.2 - 0.06 for one in planned["told"]), planned)
    check(not any(drops(node, "192.0.2.4") for node in nodes), "what is planned is not enforced")

    # A revision that a node refuses stops in its group; the others do not see it.
    write(folder, "weir.yaml", policy("192.0.2.0/24", "plan: {max_newly_dropped: 10%}\n"))
    operator.fleet("push", "--stage", "weir.yaml")
    stopped = operator.fleet("rollout", "--groups", "canary,rest", "--watch", "1s", "--wait", "30s", expect=1)
    check(stopped["error"].startswith("group canary: node n1 refuses it: "), stopped)
    check(stopped.get("groups", []) == [], stopped)
    found = operator.nodes()
    equal([(found[name]["revision"], found[name]["state"]) for name in ("n1", "n2")], [(3, "refused"), (3, "enforcing")], "the nodes")
    check("of the fleet is REFUSED, what runs stays: " in first.controlctl("status")[1], first.controlctl("status"))
    back = operator.fleet("rollback")
    equal(back["revision"], 3, "where it goes back to")
    node.wait("n1 to be well again", lambda: operator.nodes()["n1"]["state"] == "enforcing")

    # Bad input is refused before anything is stored.
    write(folder, "bad.yaml", "version: 1\nlists:\n  - {name: a, action: drop, file: ../outside.txt}\n")
    write(first.folder, "outside.txt", "192.0.2.9\n")
    code, _, error = operator.try_fleet("push", "bad.yaml")
    check(code == 1 and "not in the folder of the policy" in error, error)
    write(folder, "bad.yaml", "version: 1\nlists: [{name: a}]\n")
    code, answer, error = operator.try_fleet("push", "bad.yaml")
    check(code == 1 and "has errors" in error, error)
    equal(operator.fleet("status")["head"]["revision"], 3, "nothing was pushed")

    # Without etcd: what is enforced stays, also over a restart; then the node catches up.
    for member in range(3):
        etcd.kill(member)
    code, _, error = operator.try_fleet("status")
    check(code == 1 and "127.0.0.1" in error, error)
    first.wait("that it does not follow its fleet", lambda: "FLEET NOT FOLLOWED, what runs stays" in first.controlctl("status")[1])
    first.stop("controld")
    first.start()
    first.wait_enforced()
    check(drops(first, "192.0.2.3") and drops(first, "192.0.2.1"), "a restart without etcd goes on with revision 3")
    for member in range(3):
        etcd.start(member)
    etcd.wait()
    first.wait("that it follows again", lambda: not trouble(first), 30)
    write(folder, "weir.yaml", policy("192.0.2.5"))
    operator.fleet("push", "weir.yaml")
    wait_for("the revision after etcd came back", nodes, lambda one: drops(one, "192.0.2.5"), 60)
    check(not any(drops(node, "192.0.2.3") for node in nodes), "and the one before is gone")

    # Of several who push at once each is told the truth: what he pushed has a number of its own, or somebody was faster.
    turn = operator.fleet("status")["head"]["turn"]
    at_once = [subprocess.Popen([operator.program, "fleet", "push", "weir.yaml", "--etcd", operator.urls, "--name", NAME, "--json", "--comment", str(number)],
                                cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for number in range(6)]
    answers = [(process.communicate(timeout=60), process.returncode) for process in at_once]
    done = {json.loads(out)["revision"]: str(number) for number, ((out, _), code) in enumerate(answers) if code == 0}
    equal(len(done), sum(code == 0 for _, code in answers), "revisions of those who pushed")
    for (_, error), code in answers:
        check(code == 0 or "somebody else changed the fleet meanwhile" in error, error)
    history = operator.fleet("history")
    told = {one["number"]: one["comment"] for one in history["revisions"]}
    equal({number: told.get(number) for number in done}, done, "what history says of them")
    newest = max(done)
    equal((max(told), history["log"][0]["turn"]), (newest, turn + len(done)), "nobody else's push is there, and each took a turn")
    wait_for("the last of them", nodes, lambda node: node.call("status")["fleet"]["revision"] == newest)

    # A member that lost the others says nothing that is believed; the nodes go to another one.
    etcd.kill(0)
    operator.fleet("add", "192.0.2.4", "--enforced", "30s")
    for node in nodes:
        check(drops(node, "192.0.2.4"), f"{node.name} hears of it from another member")

    # An etcd that was restored from an old backup: nobody goes back, and the next push is followed again.
    before = [node["revision"] for node in operator.nodes().values()]
    old_head = json.dumps({**operator.fleet("status")["head"], "turn": 1, "id": "old", "revision": 1, "groups": []})
    etcd.ctl("put", "/weir/edge/live/head", old_head, members=(1, 2))
    for node in nodes:
        node.wait("that it does not go back", lambda one=node: "it was restored from an older backup" in trouble(one))
    time.sleep(0.5)
    equal([node["revision"] for node in operator.nodes().values()], before, "revisions beside an older head")
    check(all(drops(node, "192.0.2.5") and not drops(node, "192.0.2.2") for node in nodes), "what was enforced stays")
    write(folder, "weir.yaml", policy("192.0.2.5, 192.0.2.6"))
    pushed = operator.fleet("push", "weir.yaml")
    check(pushed["head"]["turn"] > 1 and pushed["revision"] > max(before), f"a push goes past what nodes have followed: {pushed}")
    wait_for("the push after the restore", nodes, lambda node: drops(node, "192.0.2.6"))

    # A turn that no fleet reaches is not followed, and a push repairs it. A node that has one on disk recovers, too.
    head = operator.fleet("status")["head"]
    for turn, stays in ((2**64 - 1, False), (head["turn"] + 2**33, True)):
        etcd.ctl("put", "/weir/edge/live/head", json.dumps({**head, "turn": turn, "id": "far"}), members=(1, 2))
        for node in nodes:
            node.wait("that the turn is not possible", lambda one=node: f"the head's turn {turn} is not possible" in trouble(one))
        code, _, error = operator.try_fleet("pause")
        check(code == 1 and f"the head's turn {turn} is not possible" in error and "fleet push" in error, f"a change of such a head: {code} {error}")
        first.stop("controld")
        with open(first.state_path("controld") + "/fleet/followed", encoding="ascii") as file:
            followed = json.load(file)
        equal(followed["turn"], head["turn"], "turn on disk")
        with open(first.state_path("controld") + "/fleet/followed", "w", encoding="ascii") as file:
            json.dump({**followed, "turn": turn}, file)
        first.start()
        if stays:  # it follows the head that it has kept; the other node's turn says what is possible
            first.wait("the node's turn", lambda: operator.nodes()["n1"]["turn"] == turn)
        pushed = operator.fleet("push", "weir.yaml")
        equal(pushed["head"]["turn"], head["turn"] + 1, "the turn after one that is not possible")
        wait_for("the push after it", nodes, lambda node: node.call("status")["fleet"]["turn"] == head["turn"] + 1)
        check(not any(trouble(node) for node in nodes), "nothing is wrong any more")
        head = pushed["head"]

    # What nobody but a stranger writes: it is said, and what is enforced stays.
    etcd.ctl("put", "/weir/edge/live/head", "\x01" * 100_000, members=(1, 2))
    first.wait("that the head is no head", lambda: "too long" in trouble(first))
    etcd.ctl("put", "/weir/edge/live/head", '{"turn": "none"}', members=(1, 2))
    first.wait("that the head is no head", lambda: "the fleet's head is not understood" in trouble(first))
    for number in range(30):
        etcd.ctl("put", f"/weir/edge/live/entries/jail/{number}" + "\x01" * 500,
                 '{"by": "' + "x" * 200 + '", "comment": "' + "\\u0001" * 200 + '", "ttl_s": 0, "at": 0}', members=(1, 2))
    first.wait("the reports", lambda: drops(first, "192.0.2.4"))
    check(drops(first, "192.0.2.5") and drops(second, "192.0.2.4"), "what was enforced stays enforced")
    check("what is not understood" not in first.log("controld"), "the process that speaks to etcd keeps to its messages")
