"""One policy for several machines, through three members of etcd. Every node enforces pushes and entries; groups go one after the other
and stop at a node that refuses. A node without etcd goes on with its last revision; a wrong head moves no node."""

import json
import subprocess
import time

import pytest

from weir_smoke import BUILD, Capture, moved, needs_programs, start_loop, write
from fault_rig import DAY, Switch
from fleet_rig import NAME, Etcd, Node, Operator
from frames import Ethernet, Frame, V4, number_of, udp

pytestmark = [pytest.mark.timeout(300), needs_programs("etcd", "etcdctl")]

SOURCES = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5")  # as many frames each
FRAMES = [Frame([Ethernet(), V4(number_of(source), number_of("203.0.113.9")), udp(1, 2)]).bytes for source in SOURCES] * 200
CAPTURE = Capture(frames=FRAMES, headers=[(0, 0, len(frame)) for frame in FRAMES])
SHARE = "share: {lists: [jail], per_minute: 2, max_ttl: 1h}"
HEAD = f"/weir/{NAME}/live/head"


class Clock(Switch):
    """The clock of a node: its time of day jumps, and time passes."""

    passed = 0

    def jump_to(self, ahead):
        self.ahead(realtime=ahead + self.passed, monotonic=self.passed, boottime=self.passed)

    def pass_time(self, seconds):
        self.passed += seconds
        super().pass_time(seconds)


class Fleet:
    """Two nodes with traffic, and an operator."""

    def __init__(self, etcd, first, second):
        self.etcd, self.first, self.second, self.nodes = etcd, first, second, (first, second)
        self.folder = first.path("operator")
        write(self.folder, "feeds/bad.txt", "192.0.2.1\n")
        self.operator = Operator(BUILD, etcd, self.folder)
        self.order = self.operator.fleet
        self.clock = Clock(second.path("clock"))
        second.environment = self.clock.environment(BUILD)
        for node in self.nodes:
            start_loop(node, CAPTURE)
            node.start()
            node.wait_enforced()

    def write_policy(self, entries, more=""):
        write(self.folder, "weir.yaml", f"version: 1\n{more}lists:\n"
              "  - {name: bad, action: drop, file: feeds/bad.txt, guard: {max_shrink: 100%}}\n"
              f"  - {{name: here, action: drop, entries: [{entries}]}}\n  - {{name: jail, action: drop, dynamic: true}}\n")

    def push(self, entries, *options, more=""):
        self.write_policy(entries, more)
        return self.order("push", "weir.yaml", *options)

    def refuses(self, *order):
        """Standard error."""
        code, answer, error = self.operator.try_fleet(*order)
        assert code == 1, f"{order}: {code} {answer}{error}"
        return error

    def add(self, entry, *options):
        return self.order("add", entry, *options, "--enforced", "30s")

    def delete(self, *entries):
        return self.order("del", *entries, "--enforced", "30s")

    def pass_marker(self):
        """Every node has taken all that was sent to it before."""
        self.add("192.0.2.99")
        self.delete("192.0.2.99")

    def put_head(self, text):
        self.etcd.ctl("put", HEAD, text)

    def head(self):
        return self.order("status")["head"]

    def wait(self, what, holds):
        """holds(node) of each."""
        for node in self.nodes:
            node.wait(f"{what} on node {node.name}", lambda one=node: holds(one))

    def wait_dropped(self, address):
        self.wait(f"{address} to be dropped", lambda node: drops(node, address))

    def dropped_by(self, address):
        """Names of the nodes."""
        return [node.name for node in self.nodes if drops(node, address)]


ALL, NONE = ["n1", "n2"], []


def drops(node, address):
    code, out, err = node.controlctl("test", "-q", address)
    assert code in (0, 1), f"{node.name}: test {address} ended with {code}: {out}{err}"
    return code == 0


def standing(node):
    return node.call("status")["fleet"]


def trouble(node):
    """Why the node does not follow its fleet. The log may leave it out: it tells the same event five times in ten seconds."""
    return standing(node).get("etcd_error", "")


def jailed(node):
    """{entry: its row}"""
    return {entry["entry"]: entry for entry in node.call("entries", name="jail")["entries"]}


@pytest.fixture
def fleet(keeps):
    with Etcd() as etcd, Node(BUILD, etcd, "n1", "canary", SHARE) as first, Node(BUILD, etcd, "n2") as second:
        yield Fleet(etcd, first, second)
        keeps(first, second, etcd)


@pytest.fixture
def running(fleet):
    """A fleet that enforces its first revision."""
    for node in fleet.nodes:
        assert node.call("status")["generation"]["number"] == 1, "a node that has not heard of its fleet runs a policy without lists"
    pushed = fleet.push("192.0.2.2", "--comment", "the first")
    assert (pushed["revision"], pushed["files_sent"], pushed["head"]["turn"]) == (1, 2, 1), pushed
    fleet.wait_dropped("192.0.2.2")
    for node in fleet.nodes:
        node.wait_enforced()
    return fleet


def a_push_is_enforced_by_every_node(fleet):
    for node in fleet.nodes:
        totals, _ = moved(node)
        assert abs(totals["dropped"] / totals["packets"] - 0.4) < 0.01, f"two of five sources are dropped: {totals}"
    fleet.first.wait("the nodes' reports", lambda: all(
        (one["revision"], one["state"], one["is_alive"]) == (1, "enforcing", True) for one in fleet.operator.nodes().values()))
    assert set(fleet.operator.nodes()) == set(ALL), "nodes"
    wanted = {"name": NAME, "node": "n1", "group": "canary", "turn": 1, "revision": 1, "wanted": 1, "state": "enforcing"}
    assert standing(fleet.first).items() >= wanted.items(), standing(fleet.first)
    out = fleet.first.controlctl("status")[1]
    assert "fleet       edge: node n1 of group canary enforces revision 1, turn 1" in out, out
    again = fleet.order("push", "weir.yaml")
    assert (again["revision"], again["files_sent"]) == (2, 0), "etcd has the files already"


def an_entry_reaches_every_node_until_its_end(fleet):
    begin = int(time.time())
    added = fleet.add("192.0.2.3", "--ttl", "1h", "--comment", "ticket 7")
    assert (added["entries"], added["waiting"]) == (1, 0), added
    assert fleet.dropped_by("192.0.2.3") == ALL, "nodes that have the entry"
    for node in fleet.nodes:
        entry, = jailed(node).values()
        assert entry["comment"].startswith("fleet: ticket 7 ("), entry
        assert begin + 3600 - 3 <= entry["expires"] <= time.time() + 3600, entry
    fleet.add("192.0.2.4", "--ttl", "5s")
    fleet.wait("the end of a lease", lambda node: not drops(node, "192.0.2.4"))


def a_clock_that_jumps_ends_no_entry(fleet):
    node, begin = fleet.second, int(time.time()) - 60  # before the entry was added

    def lasts(entry, ahead):
        """As long as etcd says, by the node's clock."""
        row = jailed(node).get(entry)
        return row and begin + 3600 - 3 <= row["expires"] - ahead - fleet.clock.passed <= time.time() + 3600 and drops(node, entry)

    for ahead in (DAY, -DAY, 0):
        fleet.clock.jump_to(ahead)
        node.wait(f"the entry, with a clock that is {ahead} s ahead", lambda at=ahead: lasts("192.0.2.3", at))
    for entry, ahead in (("192.0.2.10", DAY), ("192.0.2.11", 0)):  # the entry comes before the node has noticed the jump
        fleet.clock.jump_to(ahead)
        fleet.add(entry, "--ttl", "1h")
        fleet.clock.pass_time(10)
        fleet.pass_marker()
        assert lasts(entry, ahead), f"{entry} after a jump to {ahead} s ahead: {jailed(node)}"
        fleet.delete(entry)


def nobody_waits_for_an_entry_that_is_not_there(fleet):
    assert fleet.delete("192.0.2.3", "192.0.2.33")["missing"] == 1, "entries that were not there"
    fleet.etcd.ctl("put", "/other", "is not the fleet's")  # nodes hear neither of this nor of an entry that was not there
    assert fleet.delete("192.0.2.33")["missing"] == 1, "entries that were not there"
    assert fleet.dropped_by("192.0.2.3") == NONE, "nodes that still have the deleted entry"
    error = fleet.refuses("add", "192.0.2.3", "--list", "here")
    assert "list here is not dynamic" in error, error


def a_node_shares_entries_within_its_budget(fleet):
    begin = int(time.time())
    fleet.first.controlctl("add", "192.0.2.4", "--ttl", "10m", "--comment", "scan")
    fleet.wait_dropped("192.0.2.4")
    entry, = jailed(fleet.second).values()
    assert entry["comment"] == "fleet: scan (node n1)", entry
    assert begin + 600 - 3 <= entry["expires"] - fleet.clock.passed <= time.time() + 600, entry
    fleet.first.controlctl("add", "198.51.100.1", "198.51.100.2", "198.51.100.3")
    fleet.wait_dropped("198.51.100.1")
    assert "the rest stays on this node" in fleet.first.log("controld"), "the log says that the rest is not shared"
    fleet.pass_marker()
    assert fleet.dropped_by("198.51.100.2") == ["n1"], "two entries a minute are shared"
    fleet.delete("192.0.2.4")
    assert fleet.dropped_by("192.0.2.4") == NONE, "nodes that still have the shared entry"


def groups_go_one_after_the_other(fleet):
    staged = fleet.push("192.0.2.2, 192.0.2.3", "--stage")
    assert staged["head"]["staged"] == 3, staged
    fleet.pass_marker()
    assert fleet.dropped_by("192.0.2.3") == NONE, "nodes that enforce what is staged"
    rolled = fleet.order("rollout", "--groups", "canary,rest", "--watch", "1s", "--wait", "30s")
    assert rolled["groups"] == ["canary", "rest"], "groups that have the revision"
    fleet.wait_dropped("192.0.2.3")
    assert fleet.head()["revision"] == 3, "revision of all"


def every_node_tells_what_a_plan_would_do(fleet):
    fleet.write_policy("192.0.2.2, 192.0.2.4")
    fleet.first.wait("samples of the traffic", lambda: all(
        one["samples"] >= 1000 for one in fleet.order("plan", "weir.yaml")["told"]))
    planned = fleet.order("plan")
    assert [one["node"] for one in planned["told"]] == ALL, "nodes that answer"
    for share in ("newly_dropped", "newly_passed"):
        assert abs(planned[share] - 0.2) < 0.06, f"one of five sources: {planned}"
        assert all(one[share]["low"] <= 0.2 + 0.06 and one[share]["high"] >= 0.2 - 0.06 for one in planned["told"]), planned
    assert fleet.dropped_by("192.0.2.4") == NONE, "nodes that enforce what is planned"


def a_refusal_stops_the_rollout_in_its_group(fleet):
    fleet.push("192.0.2.0/24", "--stage", more="plan: {max_newly_dropped: 10%}\n")
    stopped = fleet.operator.fleet("rollout", "--groups", "canary,rest", "--watch", "1s", "--wait", "30s", expect=1)
    assert stopped["error"].startswith("group canary: node n1 refuses it: ") and stopped.get("groups", []) == [], stopped
    found = fleet.operator.nodes()
    assert [(found[name]["revision"], found[name]["state"]) for name in ALL] == [(3, "refused"), (3, "enforcing")], "the nodes"
    out = fleet.first.controlctl("status")[1]
    assert "of the fleet is REFUSED, what runs stays: " in out, out
    assert fleet.order("rollback")["revision"] == 3, "the revision before"
    fleet.first.wait("n1 to be well again", lambda: fleet.operator.nodes()["n1"]["state"] == "enforcing")


def bad_policies_are_not_stored(fleet):
    write(fleet.first.folder, "outside.txt", "192.0.2.9\n")
    for text, words in (("lists:\n  - {name: a, action: drop, file: ../outside.txt}\n", "not in the folder of the policy"),
                        ("lists: [{name: a}]\n", "has errors")):
        write(fleet.folder, "bad.yaml", "version: 1\n" + text)
        error = fleet.refuses("push", "bad.yaml")
        assert words in error, error
    assert fleet.head()["revision"] == 3, "revision after refused pushes"


def test_nodes_enforce_revisions_and_entries(running):
    a_push_is_enforced_by_every_node(running)
    an_entry_reaches_every_node_until_its_end(running)
    a_clock_that_jumps_ends_no_entry(running)
    nobody_waits_for_an_entry_that_is_not_there(running)
    a_node_shares_entries_within_its_budget(running)
    groups_go_one_after_the_other(running)
    every_node_tells_what_a_plan_would_do(running)
    a_refusal_stops_the_rollout_in_its_group(running)
    bad_policies_are_not_stored(running)


def a_node_without_etcd_keeps_its_revision(fleet):
    first, etcd = fleet.first, fleet.etcd
    for member in range(3):
        etcd.kill(member)
    error = fleet.refuses("status")
    assert "127.0.0.1" in error, error
    first.wait("the status to say so", lambda: "FLEET NOT FOLLOWED, what runs stays" in first.controlctl("status")[1])
    first.stop("controld")
    first.start()
    first.wait_enforced()
    assert drops(first, "192.0.2.1") and drops(first, "192.0.2.2"), "verdicts after a restart without etcd"
    for member in range(3):
        etcd.start(member)
    etcd.wait()
    first.wait("n1 to follow again", lambda: not trouble(first))
    fleet.push("192.0.2.5")
    fleet.wait_dropped("192.0.2.5")
    assert fleet.dropped_by("192.0.2.2") == NONE, "nodes that enforce the revision before"


def several_pushes_at_once_are_told_apart(fleet):
    turn, operator = fleet.head()["turn"], fleet.operator
    at_once = [subprocess.Popen([operator.program, "fleet", "push", "weir.yaml", "--etcd", operator.urls, "--name", NAME, "--json",
                                 "--comment", str(number)], cwd=fleet.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for number in range(6)]
    answers = [(process.communicate(timeout=60), process.returncode) for process in at_once]
    done = {json.loads(out)["revision"]: str(number) for number, ((out, _), code) in enumerate(answers) if code == 0}
    assert len(done) == sum(code == 0 for _, code in answers), "each push that succeeds has a revision of its own"
    for (_, error), code in answers:
        assert code == 0 or "somebody else changed the fleet meanwhile" in error, error
    history = fleet.order("history")
    told = {one["number"]: one["comment"] for one in history["revisions"]}
    assert {number: told.get(number) for number in done} == done, "history of the pushes"
    assert (max(told), history["log"][0]["turn"]) == (max(done), turn + len(done)), "each push took a turn, and no other is there"
    fleet.wait("the last push", lambda node: standing(node)["revision"] == max(done))


def nodes_leave_a_member_that_lost_the_others(fleet):
    fleet.etcd.kill(0)
    fleet.add("192.0.2.4")
    assert fleet.dropped_by("192.0.2.4") == ALL, "nodes that hear of the entry from another member"


def test_nodes_go_on_without_etcd_and_catch_up(running):
    a_node_without_etcd_keeps_its_revision(running)
    several_pushes_at_once_are_told_apart(running)
    nodes_leave_a_member_that_lost_the_others(running)


def an_older_head_moves_no_node(fleet):
    def told():
        return {node["revision"] for node in fleet.operator.nodes().values()}

    before = fleet.head()["revision"]
    fleet.first.wait("the nodes' reports", lambda: told() == {before})
    fleet.put_head(json.dumps({**fleet.head(), "turn": 1, "id": "old", "revision": 1, "groups": []}))
    fleet.wait("the head to be refused", lambda node: "it was restored from an older backup" in trouble(node))
    fleet.pass_marker()
    assert told() == {standing(node)["revision"] for node in fleet.nodes} == {before}, "revisions with an older head"
    assert (fleet.dropped_by("192.0.2.5"), fleet.dropped_by("192.0.2.2")) == (ALL, NONE), "verdicts with an older head"
    pushed = fleet.push("192.0.2.5, 192.0.2.6")
    assert pushed["head"]["turn"] > 1 and pushed["revision"] > before, f"a push goes past what nodes have followed: {pushed}"
    fleet.wait_dropped("192.0.2.6")


def an_impossible_turn_is_repaired_by_a_push(fleet, head, turn, is_told_by_node):
    """head: of the fleet. is_told_by_node: the operator is to learn the turn from the node that has it on disk."""
    first, words = fleet.first, f"the head's turn {turn} is not possible"
    fleet.put_head(json.dumps({**head, "turn": turn, "id": "far"}))
    fleet.wait("the turn to be refused", lambda node: words in trouble(node))
    error = fleet.refuses("pause")
    assert words in error and "fleet push" in error, error
    first.stop("controld")
    path = first.state_path("controld") + "/fleet/followed"
    with open(path, encoding="ascii") as file:
        followed = json.load(file)
    assert followed["turn"] == head["turn"], "turn on disk"
    with open(path, "w", encoding="ascii") as file:
        json.dump({**followed, "turn": turn}, file)
    first.start()
    if is_told_by_node:
        first.wait("the node's turn", lambda: fleet.operator.nodes()["n1"]["turn"] == turn)
    pushed = fleet.order("push", "weir.yaml")
    assert pushed["head"]["turn"] == head["turn"] + 1, "turn of the push"
    fleet.wait("the push", lambda node: standing(node)["turn"] == head["turn"] + 1)
    assert [trouble(node) for node in fleet.nodes] == ["", ""], "trouble after the push"
    return pushed["head"]


def text_of_a_stranger_changes_nothing(fleet):
    first = fleet.first
    fleet.add("192.0.2.4")
    fleet.put_head("\x01" * 100_000)
    first.wait("a head that is too long", lambda: "too long" in trouble(first))
    fleet.put_head('{"turn": "none"}')
    first.wait("a head without a turn", lambda: "the fleet's head is not understood" in trouble(first))
    for number in range(30):
        fleet.etcd.ctl("put", f"/weir/{NAME}/live/entries/jail/{number}" + "\x01" * 500,
                       '{"by": "' + "x" * 200 + '", "comment": "' + "\\u0001" * 200 + '", "ttl_s": 0, "at": 0}')
    fleet.etcd.ctl("put", f"/weir/{NAME}/live/entries/jail/192.0.2.98", '{"by": "x", "comment": "", "ttl_s": 0, "at": 0}')
    fleet.wait_dropped("192.0.2.98")
    assert (fleet.dropped_by("192.0.2.5"), fleet.dropped_by("192.0.2.4")) == (ALL, ALL), "what was enforced stays enforced"
    assert "what is not understood" not in first.log("controld"), "the process that speaks to etcd keeps to its messages"


def test_a_wrong_head_moves_no_node(running):
    running.push("192.0.2.5")
    running.wait_dropped("192.0.2.5")
    an_older_head_moves_no_node(running)
    head = an_impossible_turn_is_repaired_by_a_push(running, running.head(), 2**64 - 1, is_told_by_node=False)
    an_impossible_turn_is_repaired_by_a_push(running, head, head["turn"] + 2**33, is_told_by_node=True)
    text_of_a_stranger_changes_nothing(running)
