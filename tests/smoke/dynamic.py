"""Entries that come and go while controld runs: `add`, `del` and `flush` are enforced and on disk when they answer, an
entry ends to the second, what was acknowledged outlives kill -9 of either program, and what is wrong changes nothing."""

import ipaddress
import os
import random
import signal
import subprocess
import time

from weir_smoke import (BUILD, Session, ask_dataplane, check, controlctl, equal, flow_addresses, make_samples, moved,
                        read_capture, start_loop, write)
from until import until

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


def dropped(session, name="bans"):
    return moved(session)[1].get(name, {}).get("dropped", 0)


def verdict(session, key):
    return session.call("explain", key=key)["as_source"]["action"]


with Session(BUILD) as session:
    make_samples(session.folder, flows=500, frames=5000)
    capture = read_capture(session.path("capture.pcap"))
    guest, other, *more = busiest_sources(capture)
    write(session.folder, "feed.txt", "192.0.2.1\n")
    policy = write(session.folder, "dynamic.yaml", POLICY)
    start_loop(session, capture)
    session.start_controld(policy)
    session.wait_enforced()
    equal(dropped(session), 0, "drops before anything is added")

    # Enforced when it answers, by the data plane itself.
    answer = controlctl(session, "add", guest, "--list", "bans", "--ttl", "10m", "--comment", "ticket 12")
    equal((answer["ok"], answer["added"], answer["entries"], len(answer["targets"])), (True, 1, 1, 1), "add")
    equal(ask_dataplane(session)[0], answer["generation"]["number"], "generation of the data plane when add answers")
    check(dropped(session) > 0, "what was added drops")
    equal(session.call("status")["limits"]["overlay_keys"]["used"], 1, "keys of the overlay")
    equal(controlctl(session, "add", guest, "--list", "bans")["renewed"], 1, "added again")
    explained = session.call("explain", key=guest)["as_source"]
    equal((explained["action"], explained["because"]["file"]), ("drop", "controlctl add"), "explain of what was added")
    equal(controlctl(session, "add", f"{guest}/32", "--list", "friends")["added"], 1, "a pass list")
    equal(dropped(session), 0, "drops of what a pass list lets through")
    equal(controlctl(session, "flush", "friends")["deleted"], 1, "flush")
    check(dropped(session) > 0, "drops after the flush")
    answer = controlctl(session, "del", guest, "192.0.2.99", "--list", "bans")
    equal((answer["deleted"], answer["missing"], answer["entries"]), (1, 1, 0), "del")
    equal(dropped(session), 0, "drops of what was deleted")

    # It ends to the second, without a publication.
    answer = controlctl(session, "add", guest, "--list", "bans", "--ttl", "3s")
    ends = session.call("explain", key=guest)["origins"][0]["entry"]
    number = ask_dataplane(session)[0]
    before = session.stats()["lists"]["bans"]["dropped"]
    check(" expires " in ends, ends)
    expires = time.mktime(time.strptime(ends.split(" expires ")[1], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    last = [time.time(), before]  # when it was seen that something was dropped, and how much by then

    def has_ended():
        now = session.stats()["lists"]["bans"]["dropped"]
        if now > last[1]:
            last[:] = time.time(), now
        return time.time() > expires + 0.5  # the data plane looks at its clock ten times a second

    until("its end", has_ended)
    check(last[0] >= expires - 1, f"the last drop was {expires - last[0]:.3f} s before the end")
    session.stats()
    equal(dropped(session), 0, "drops after its end")
    equal(ask_dataplane(session)[0], number, "generation after the end")
    equal(session.call("entries", name="bans")["entries"], [], "entries after the end")
    session.call("flush", name="bans")

    # What is wrong changes nothing, and says why.
    generation = controlctl(session, "status")["generation"]
    for arguments, expect, words in (
            (("add", "203.0.113.400", "--list", "bans"), 1, "203.0.113.400"),
            (("add", "203.0.113.4", "203.0.113.5/33", "--list", "bans"), 1, "entry 2 of 2"),
            (("add", "203.0.113.4"), 1, "friends, bans"),
            (("add", "203.0.113.4", "--list", "files"), 1, "dynamic: true"),
            (("add", "203.0.113.4", "--list", "nobody"), 1, "no list is called 'nobody'"),
            (("add", "203.0.113.4", "--list", "bans", "--ttl", "2h"), 1, "max_ttl"),
            (("add", "203.0.113.4", "--list", "bans", "--ttl", "soon"), 2, "10m"),
            (("add", "0.0.0.0/0", "--list", "bans"), 1, "allow_any"),
            (("del", "192.0.2.241", "--list", "files"), 1, "not dynamic"),
            (("flush", "files"), 1, "not dynamic"),
            (("add", "{dst: 203.0.113.9, colour: red}", "--list", "bans"), 2, "colour")):
        code, out, err = session.controlctl(*arguments)
        equal(code, expect, f"{arguments}: {out}{err}")
        check(words in err, f"{arguments}: {err}")
    equal(controlctl(session, "status")["generation"], generation, "generation after what was wrong")

    # Every form, from stdin too; a flow stands in the answer of explain.
    forms = ["203.0.113.0/24", "198.51.100.7-198.51.100.9", "[2001:db8::7]:443", "203.0.114.1:22",
             "src 10.0.0.0/8 dst 203.0.113.9 proto tcp dport 8000-8010"]
    lines = "# comment\n\n" + "\n".join(forms) + "\n{dst: 192.0.2.77, proto: udp}  # a map\n"
    done = subprocess.run([os.path.join(BUILD, "control/controlctl"), "add", "-", "--list", "bans", "--socket",
                           session.path("controld.sock")], input=lines, capture_output=True, text=True, check=False)
    equal((done.returncode, done.stdout), (0, "list bans: 6 entries added; 6 entries added to it now\n"), done.stderr)
    packet = session.call("explain", key="src 1.2.3.4 dst 192.0.2.77 proto udp")
    equal(packet["origins"][0]["entry"].split(" expires")[0], "dst 192.0.2.77 udp", "explain of a flow that was added")

    # 100,000 at once, in one publication.
    number = ask_dataplane(session)[0]
    many = [f"100.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}" for i in range(100_000)]
    began = time.monotonic()
    answer = session.call("add", name="bans", entries=many)
    took = time.monotonic() - began
    equal((answer.get("error"), answer["added"]), (None, 100_000), "100,000 at once")
    equal(ask_dataplane(session)[0], number + 1, "generation after 100,000")
    check("max_entries" in session.call("add", name="bans", entries=[many[0]] + [f"101.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}" for i in range(60_000)])["error"],
          "more than max_entries")
    equal(session.call("flush", name="bans")["deleted"], 100_006, "flush of 100,000")
    check("at once" in session.call("add", name="bans", entries=many + ["1.2.3.4"])["error"], "more than 100,000 at once")

    # Many ask at once: each is answered, and what is wrong does not hinder the others.
    children = [subprocess.Popen([os.path.join(BUILD, "control/controlctl"), "add", f"192.0.2.{i}" if i % 10 else "wrong", "--list", "bans",
                                  "--socket", session.path("controld.sock")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for i in range(40)]
    codes = [child.wait(60) for child in children]
    equal(codes, [0 if i % 10 else 1 for i in range(40)], "exit codes of many")
    equal([verdict(session, f"192.0.2.{i}") for i in range(1, 40) if i % 10], ["drop"] * 36, "verdicts of many")
    session.call("flush", name="bans")

    # What was acknowledged outlives controld, however it ends; a reload keeps it.
    rng = random.Random(1)
    acknowledged = []
    for round_number in range(6):
        adder = subprocess.Popen(["/bin/sh", "-c", f'for i in $(seq 200); do "{BUILD}/control/controlctl" add 10.{round_number}.0.$i --list bans '
                                  f'--socket "{session.path("controld.sock")}" >/dev/null 2>&1 && echo 10.{round_number}.0.$i; done'],
                                 stdout=subprocess.PIPE, text=True, start_new_session=True)
        time.sleep(0.2 + rng.random() * 0.6)
        session.kill("controld")
        os.killpg(adder.pid, signal.SIGKILL)
        acknowledged += adder.communicate()[0].split()
        session.start_controld(policy)
        lost = [key for key in acknowledged if verdict(session, key) != "drop"]
        equal(lost, [], f"acknowledged entries that kill -9 number {round_number} lost")
    check(len(acknowledged) >= 6, f"only {len(acknowledged)} entries were acknowledged")
    session.wait_enforced()
    equal(controlctl(session, "reload")["changes"], [], "changes of a reload after all that")

    # A data plane that dies returns to it; a change meanwhile says who does not have it.
    session.call("add", name="bans", entries=[guest])
    check(dropped(session) > 0, "drops before the data plane dies")
    session.kill("dataplane")
    answer = controlctl(session, "add", other, "--list", "bans", expect=3)
    equal((answer["ok"], answer["added"], answer["targets"][0]["acknowledged"]), (False, 1, False), "add without a data plane")
    start_loop(session, capture)
    session.wait_enforced()
    check(dropped(session) > 0, "drops after the data plane returned")

    # A policy that is bad at a start: the last good has them, and nothing can be added.
    session.stop("controld")
    write(session.folder, "dynamic.yaml", "lists: [nonsense\n")
    session.start_controld(policy)
    equal(verdict(session, guest), "drop", "verdict of the last good")
    check("policy is bad" in session.call("add", name="bans", entries=["1.2.3.4"])["error"], "add to the last good")
    write(session.folder, "dynamic.yaml", POLICY)
    equal(controlctl(session, "reload")["ok"], True, "reload of the mended policy")
    equal(verdict(session, guest), "drop", "verdict after the policy was mended")

    # A journal that is damaged: it is said, and the last good gives back what it had.
    session.stop("controld")
    with open(session.path("controld-state/journal.db"), "r+b") as file:
        file.write(b"damaged!" * 500)
    session.start_controld(policy)
    check("journal.db.damaged" in session.log("controld"), "the log tells of a damaged journal")
    equal(verdict(session, guest), "drop", "verdict after the journal was damaged")
    equal(controlctl(session, "del", guest, "--list", "bans")["deleted"], 1, "del of what the last good gave back")
    equal((session.stop("dataplane"), session.stop("controld")), (0, 0), "exit codes of both")
print(f"{len(acknowledged)} entries outlived 6 kills; 100,000 were added in {took:.2f} s")
