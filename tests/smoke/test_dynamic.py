"""`add`, `del` and `flush` are enforced and on disk when they answer. An entry ends with its ttl. Acknowledged entries outlive kill -9
of either program. A wrong change changes nothing."""

import glob
import ipaddress
import os
import random
import signal
import subprocess

import pytest

from weir_smoke import BUILD, ask_dataplane, controlctl, flow_addresses, make_samples, moved, read_capture, start_loop, write
from until import until

KILLS, ADDERS = 6, 3
CONTROLCTL = os.path.join(BUILD, "control/controlctl")
POLICY = """version: 1
lists:
  - {name: friends, action: pass, dynamic: true}
  - {name: bans, action: drop, dynamic: true, max_entries: 150000, max_ttl: 1h}
  - {name: files, action: drop, entries: [192.0.2.200, 192.0.2.240/28], file: feed.txt}
"""


def busiest_sources(capture):
    seen = {}
    for frame in capture.frames:
        source, _ = flow_addresses(frame)
        if len(source) == 4:
            seen[source] = seen.get(source, 0) + 1
    return [str(ipaddress.ip_address(source)) for source in sorted(seen, key=seen.get, reverse=True)]


def counted(session, name, counter):
    """By how much a list's counter grows over some traffic."""
    return moved(session)[1].get(name, {}).get(counter, 0)


def dropped(session):
    return counted(session, "bans", "dropped")


def verdict(session, key):
    return session.call("explain", key=key)["as_source"]["action"]


def entries_of(network, count):
    return [f"{network}.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}" for i in range(count)]


@pytest.fixture
def policy(session):
    write(session.folder, "feed.txt", "192.0.2.1\n")
    return write(session.folder, "dynamic.yaml", POLICY)


@pytest.fixture
def running(session, policy):
    """A session whose data plane enforces the policy."""
    session.start_dataplane("forward: sink\n")
    session.start_controld(policy)
    session.wait_enforced()
    return session


@pytest.fixture
def capture(session):
    make_samples(session.folder, flows=500, frames=5000)
    return read_capture(session.path("capture.pcap"))


@pytest.fixture
def loop(session, policy, capture):
    """The same under traffic."""
    start_loop(session, capture)
    session.start_controld(policy)
    session.wait_enforced()
    assert dropped(session) == 0, "drops before anything is added"
    return session


def test_a_change_is_enforced_when_it_answers(loop, capture):
    guest = busiest_sources(capture)[0]
    answer = controlctl(loop, "add", guest, "--list", "bans", "--ttl", "10m", "--comment", "ticket 12")
    assert (answer["ok"], answer["added"], answer["entries"], len(answer["targets"])) == (True, 1, 1, 1), "add"
    assert ask_dataplane(loop)[0] == answer["generation"]["number"], "generation of the data plane when add answers"
    assert dropped(loop) > 0, "drops of the added entry"
    assert loop.call("status")["limits"]["overlay_keys"]["used"] == 1, "keys of the overlay"
    assert controlctl(loop, "add", guest, "--list", "bans")["renewed"] == 1, "added again"
    explained = loop.call("explain", key=guest)["as_source"]
    assert (explained["action"], explained["because"]["file"]) == ("drop", "controlctl add"), "explain of the added entry"
    assert controlctl(loop, "add", f"{guest}/32", "--list", "friends")["added"] == 1, "a pass list"
    assert dropped(loop) == 0, "drops of an entry that a pass list has, too"
    assert controlctl(loop, "flush", "friends")["deleted"] == 1, "flush"
    assert dropped(loop) > 0, "drops after the flush"
    answer = controlctl(loop, "del", guest, "192.0.2.99", "--list", "bans")
    assert (answer["deleted"], answer["missing"], answer["entries"]) == (1, 1, 0), "del"
    assert dropped(loop) == 0, "drops of the deleted entry"


def drops_in_its_last_second(session, clock, end, earlier):
    """Whether the list bans drops anything in the second before `end`. An entry of friends that ends earlier shows that the data
    plane has read its clock."""
    def look():
        clock.set_time_of_day(earlier - 2)
        session.wait("the earlier entry", lambda: counted(session, "friends", "matched") > 0)
        clock.set_time_of_day(end - 1)
        session.wait("its end", lambda: counted(session, "friends", "matched") == 0)
        found = dropped(session) > 0
        return (found,) if clock.time_of_day() < end else None  # too late: the second is over

    return until("a look within the second", look)[0]


def test_an_entry_ends_with_its_ttl_without_a_publication(clock, loop, capture):
    guest, other = busiest_sources(capture)[:2]
    controlctl(loop, "add", other, "--list", "friends", "--ttl", "595s")
    controlctl(loop, "add", guest, "--list", "bans", "--ttl", "10m")
    end, earlier = (loop.call("entries", name=name)["entries"][0]["expires"] for name in ("bans", "friends"))
    number = ask_dataplane(loop)[0]
    assert " expires " in loop.call("explain", key=guest)["origins"][0]["entry"], "explain has its end"
    clock.pass_time(earlier - clock.time_of_day() - 2)
    assert drops_in_its_last_second(loop, clock, end, earlier), "drops in its last second"

    def has_ended():
        clock.set_time_of_day(end)  # again in each turn: no later end is seen
        return dropped(loop) == 0

    loop.wait("its end", has_ended)
    assert ask_dataplane(loop)[0] == number, "generation after the end"
    assert loop.call("entries", name="bans")["entries"] == [], "entries after the end"


def test_a_wrong_change_changes_nothing_and_says_why(running):
    generation = controlctl(running, "status")["generation"]
    for arguments, expect, words in (
            (("add", "203.0.113.400", "--list", "bans"), 1, "203.0.113.400"),
            (("add", "203.0.113.4", "203.0.113.5/33", "--list", "bans"), 1, "entry 2 of 2"),
            (("add", "203.0.113.4", "--ttl", "2h"), 1, "entries of list bans may stay"),
            (("allow", "203.0.113.400"), 1, "203.0.113.400"),
            (("add", "203.0.113.4", "--list", "files"), 1, "dynamic: true"),
            (("add", "203.0.113.4", "--list", "nobody"), 1, "no list is called 'nobody'"),
            (("add", "203.0.113.4", "--list", "bans", "--ttl", "2h"), 1, "max_ttl"),
            (("add", "203.0.113.4", "--list", "bans", "--ttl", "soon"), 2, "10m"),
            (("add", "0.0.0.0/0", "--list", "bans"), 1, "allow_any"),
            (("del", "192.0.2.241", "--list", "files"), 1, "not dynamic"),
            (("flush", "files"), 1, "not dynamic"),
            (("add", "{dst: 203.0.113.9, colour: red}", "--list", "bans"), 2, "colour")):
        code, out, err = running.controlctl(*arguments)
        assert code == expect, f"{arguments}: {out}{err}"
        assert words in err, f"{arguments}: {err}"
    assert controlctl(running, "status")["generation"] == generation, "generation"


def test_every_form_of_an_entry_is_read_from_stdin(running):
    forms = ["203.0.113.0/24", "198.51.100.7-198.51.100.9", "[2001:db8::7]:443", "203.0.114.1:22",
             "src 10.0.0.0/8 dst 203.0.113.9 proto tcp dport 8000-8010"]
    lines = "# comment\n\n" + "\n".join(forms) + "\n{dst: 192.0.2.77, proto: udp}  # a map\n"
    done = subprocess.run([CONTROLCTL, "add", "-", "--list", "bans", "--socket", running.path("controld.sock")], input=lines,
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "list bans: 6 entries added; 6 entries added to it now\n"), done.stderr
    packet = running.call("explain", key="src 1.2.3.4 dst 192.0.2.77 proto udp")
    assert packet["origins"][0]["entry"].split(" expires")[0] == "dst 192.0.2.77 udp", "explain of the added flow"


def test_100000_entries_are_one_publication(running):
    number = ask_dataplane(running)[0]
    many = entries_of(100, 100_000)
    answer = running.call("add", name="bans", entries=many)
    assert (answer.get("error"), answer["added"]) == (None, 100_000), "add"
    assert ask_dataplane(running)[0] == number + 1, "generation"
    assert "max_entries" in running.call("add", name="bans", entries=[many[0]] + entries_of(101, 60_000))["error"], "more than max_entries"
    assert running.call("flush", name="bans")["deleted"] == 100_000, "flush"
    assert "at once" in running.call("add", name="bans", entries=many + ["1.2.3.4"])["error"], "more than 100,000 at once"


def test_forty_clients_add_at_once_and_each_has_its_answer(running):
    children = [subprocess.Popen([CONTROLCTL, "add", f"192.0.2.{i}" if i % 10 else "wrong", "--list", "bans", "--socket",
                                  running.path("controld.sock")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for i in range(40)]
    codes = [child.wait(60) for child in children]
    assert codes == [0 if i % 10 else 1 for i in range(40)], "exit codes"
    assert [verdict(running, f"192.0.2.{i}") for i in range(1, 40) if i % 10] == ["drop"] * 36, "verdicts"


def add_until_killed(session, number, count):
    """Several shells add entries, one by one. controld is killed when `count` are acknowledged. The acknowledged ones."""
    one = (f'for i in $(seq 200); do "{CONTROLCTL}" add 10.{number}.$shell.$i --list bans --socket "{session.path("controld.sock")}" '
           f'>/dev/null 2>&1 && echo 10.{number}.$shell.$i; done')
    adder = subprocess.Popen(["/bin/sh", "-c", f"for shell in $(seq {ADDERS}); do ({one}) & done; wait"], stdout=subprocess.PIPE,
                             text=True, start_new_session=True)
    acknowledged = [adder.stdout.readline().strip() for _ in range(count)]
    session.kill("controld")
    os.killpg(adder.pid, signal.SIGKILL)
    return acknowledged + adder.communicate()[0].split()


def test_acknowledged_entries_outlive_kills_of_controld(running, policy):
    rng = random.Random(1)
    acknowledged = []
    for number in range(KILLS):
        acknowledged += add_until_killed(running, number, rng.randrange(1, 40))
        running.start_controld(policy)
        lost = [key for key in acknowledged if verdict(running, key) != "drop"]
        assert lost == [], f"acknowledged entries that kill {number} lost"
    running.wait_enforced()
    assert controlctl(running, "reload")["changes"] == [], "changes of a reload after all that"


def test_a_data_plane_that_returns_has_all_entries(loop, capture):
    guest, other = busiest_sources(capture)[:2]
    loop.call("add", name="bans", entries=[guest])
    assert dropped(loop) > 0, "drops before the data plane is killed"
    loop.kill("dataplane")
    answer = controlctl(loop, "add", other, "--list", "bans", expect=3)
    assert (answer["ok"], answer["added"], answer["targets"][0]["acknowledged"]) == (False, 1, False), "add without a data plane"
    start_loop(loop, capture)
    loop.wait_enforced()
    assert dropped(loop) > 0, "drops after the data plane returned"


def test_a_last_good_has_the_entries_and_takes_no_others(running, policy):
    controlctl(running, "add", "203.0.113.7", "--list", "bans")
    running.stop("controld")
    write(running.folder, "dynamic.yaml", "lists: [nonsense\n")
    running.start_controld(policy)
    assert verdict(running, "203.0.113.7") == "drop", "verdict of the last good"
    assert "policy is bad" in running.call("add", name="bans", entries=["1.2.3.4"])["error"], "add to the last good"
    write(running.folder, "dynamic.yaml", POLICY)
    assert controlctl(running, "reload")["ok"] is True, "reload of the good policy"
    assert verdict(running, "203.0.113.7") == "drop", "verdict after the reload"


def test_a_last_good_gives_back_the_entries_of_a_damaged_journal(running, policy):
    controlctl(running, "add", "203.0.113.7", "--list", "bans")
    controlctl(running, "reload")  # the last good has the entry from then on
    running.stop("controld")
    for path in glob.glob(running.path("controld-state/journal.db*")):  # its write-ahead log could mend it
        with open(path, "r+b") as file:
            file.write(b"damaged!" * 500)
    running.start_controld(policy)
    assert "journal.db.damaged" in running.log("controld"), "the log names the damaged journal"
    assert verdict(running, "203.0.113.7") == "drop", "verdict after the journal was damaged"
    assert controlctl(running, "del", "203.0.113.7", "--list", "bans")["deleted"] == 1, "del of the entry"
    assert (running.stop("dataplane"), running.stop("controld")) == (0, 0), "exit codes of both"
