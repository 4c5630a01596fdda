"""`controlctl restore` takes sets of the real ipset and nftables: what they hold is enforced, with its times and comments, and
what weir has no entry for is said. What weir exports goes back into a set of ipset, and from there changes nothing."""

import json
import os
import re
import shutil
import subprocess
import time

from weir_smoke import (BUILD, Session, check, controlctl, equal, flow_addresses, make_samples, moved, read_capture, skip,
                        start_loop, write)

POLICY = """version: 1
lists:
  - {name: bans, action: drop, dynamic: true}
  - {name: hole, action: drop, dynamic: true, max_ttl: 2h}
  - {name: fixed, action: drop, entries: [192.0.2.99]}
"""
IPSET = """set -e
ipset create bans hash:net timeout 600 comment
ipset add bans {guest} comment "ticket 12: timeout 5"
ipset add bans 198.51.100.0/24 timeout 0
ipset create ports bitmap:port range 0-1024
ipset add ports 80
ipset create missing hash:ip
ipset add missing 203.0.113.200
ipset create fixed hash:ip
ipset add fixed 203.0.113.201
ipset create holes hash:net
ipset add holes 203.0.113.0/24
ipset add holes 203.0.113.7 nomatch
ipset save
"""
NFT = """set -e
nft -f - <<END
table inet filter {{
  set hole {{ type ipv4_addr; flags interval,timeout; timeout 1h; comment "of the set"
    elements = {{ {guest} timeout 10m comment "scanner", 198.51.100.128-198.51.100.140 }}
  }}
  set svc {{ type inet_service; elements = {{ 22 }}
  }}
}}
END
nft {options} list ruleset
"""


def in_namespace(script):
    done = subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0 and "Operation not permitted" in done.stderr:
        skip("root: sets need a network namespace of their own")
    equal(done.returncode, 0, f"sets in a network namespace: {done.stdout}{done.stderr}")
    return done.stdout


def entries(session, name):
    return {one["entry"]: one for one in session.call("entries", name=name)["entries"]}


def restored(session, *arguments, expect):
    """(sets, lists) of the answer, by name."""
    code, out, err = session.controlctl("restore", *arguments, "--json")
    equal(code, expect, f"restore {' '.join(arguments)}: {out}{err}")
    answer = json.loads(out)
    return {one["set"]: one for one in answer["sets"]}, {one["list"]: one for one in answer["lists"]}, answer


for program in "ipset", "nft":
    if shutil.which(program) is None:
        skip(f"program: no {program}: scripts/setup test installs it")
with Session(BUILD) as session:
    make_samples(session.folder, flows=500, frames=5000)
    capture = read_capture(session.path("capture.pcap"))
    sources = [flow_addresses(frame)[0] for frame in capture.frames]
    guest, other = sorted({".".join(map(str, one)) for one in sources if len(one) == 4})[:2]
    saved = write(session.folder, "ipset.save", in_namespace(IPSET.format(guest=guest)))
    ruleset = write(session.folder, "ruleset.nft", in_namespace(NFT.format(guest=other, options="")))

    # Without controld: what would be done.
    sets, lists, answer = restored(session, saved, "--dry-run", expect=1)
    equal((answer["dry_run"], sets["bans"]["entries"], lists["bans"]["wanted"]), (True, 2, 2), "a dry run")

    start_loop(session, capture)
    session.start_controld(write(session.folder, "restore.yaml", POLICY))
    session.wait_enforced()
    equal(moved(session)[0]["dropped"], 0, "drops before anything is restored")

    # ipset: the list of that name is filled; what cannot be taken is told, with the way out.
    code, out, err = session.controlctl("restore", saved)
    equal(code, 1, f"restore of all sets: {out}{err}")
    check("list bans: 2 entries added, 0 renewed; 2 entries added to it now" in out, out)
    for text in ("there is no list missing", "- name: missing", "list fixed is not dynamic", "it holds ports", "1 exception",
                 "--ignore-exceptions"):
        check(text in err, f"`{text}` is not in: {err}")
    check("- name: fixed" not in err, err)
    check(moved(session)[1]["bans"]["dropped"] > 0, "what was restored drops")
    found = entries(session, "bans")
    equal(sorted(found), sorted([guest, "198.51.100.0/24"]), "entries of bans")
    equal((found[guest]["comment"], found["198.51.100.0/24"].get("expires")), ("ticket 12: timeout 5", None), "as ipset had them")
    check(500 < found[guest]["expires"] - time.time() <= 600, found[guest])

    # Again, one set: nothing is new. The whole set of exceptions, when it is asked for.
    _, lists, _ = restored(session, saved, "--set", "bans", expect=0)
    equal((lists["bans"]["added"], lists["bans"]["renewed"]), (0, 2), "restored again")
    sets, lists, _ = restored(session, saved, "--set", "holes", "--list", "bans", "--ignore-exceptions", expect=0)
    equal((lists["bans"]["added"], sets["holes"]["exceptions"]), (1, ["203.0.113.7"]), "a set without its exceptions")

    # nftables, from stdin.
    with open(ruleset, encoding="utf-8") as file:
        done = subprocess.run([os.path.join(BUILD, "control/controlctl"), "restore", "--set", "hole", "--socket",
                               session.path("controld.sock")], stdin=file, capture_output=True, text=True, timeout=60, check=False)
    equal(done.returncode, 0, f"restore of nftables: {done.stdout}{done.stderr}")
    found = entries(session, "hole")
    equal(sorted(found), sorted([other, "198.51.100.128-198.51.100.140"]), "entries of hole")
    equal(found[other]["comment"], "scanner", "comment of nftables")
    check(500 < found[other]["expires"] - time.time() <= 600, found[other])
    check(3000 < found["198.51.100.128-198.51.100.140"]["expires"] - time.time() <= 3600, found)
    equal(session.call("explain", key=other)["as_source"]["reason"], "hole", "explain of what nftables had")
    _, _, err = session.controlctl("restore", write(session.folder, "ruleset.json", in_namespace(NFT.format(guest=other, options="-j"))))
    check("print the sets without -j" in err, err)

    # A change is all or nothing: one entry stays too long for the list.
    long = write(session.folder, "long.save", "add hole 203.0.113.50\nadd hole 203.0.113.51 timeout 9000\n")
    sets, lists, _ = restored(session, long, expect=1)
    told = re.match(r"entry 2 of 2: (\d+) seconds are more", lists["hole"]["error"])
    check(told and 8000 < int(told[1]) <= 9000, lists)  # counted since the file was written
    equal(len(entries(session, "hole")), 2, "entries of hole after a change that was refused")

    # And back: what is exported goes into a set of ipset, and from there changes nothing.
    code, out, err = session.controlctl("export", "bans")
    equal(code, 0, err)
    lines = "".join(f"ipset add back {line}\n" for line in out.splitlines() if not line.startswith("#"))
    back = write(session.folder, "back.save", in_namespace("set -e\nipset create back hash:net\n" + lines + "ipset save\n"))
    _, lists, _ = restored(session, back, "--list", "bans", expect=0)
    equal((lists["bans"]["added"], lists["bans"]["renewed"], lists["bans"]["entries"]), (0, 3, 3), "there and back")
    controlctl(session, "flush", "bans")
    controlctl(session, "flush", "hole")
    equal(moved(session)[0]["dropped"], 0, "drops of what was flushed")
print("ok")
