"""`controlctl restore` takes sets of the real ipset and nftables, with their times and comments, and names the entries that it cannot
take. An exported list goes into a set of ipset, and back unchanged."""

import json
import os
import re
import subprocess
import time

import pytest

from weir_smoke import BUILD, controlctl, flow_addresses, make_samples, moved, needs_programs, read_capture, start_loop, write

pytestmark = needs_programs("ipset", "nft")

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
        pytest.skip("root: sets need a network namespace of their own")
    assert done.returncode == 0, f"sets in a network namespace: {done.stdout}{done.stderr}"
    return done.stdout


def entries(session, name):
    return {one["entry"]: one for one in session.call("entries", name=name)["entries"]}


def restored(session, *arguments, expect):
    """(sets, lists) of the answer, by name."""
    code, out, err = session.controlctl("restore", *arguments, "--json")
    assert code == expect, f"restore {' '.join(arguments)}: {out}{err}"
    answer = json.loads(out)
    return {one["set"]: one for one in answer["sets"]}, {one["list"]: one for one in answer["lists"]}, answer


@pytest.fixture
def addresses(session):
    """Two sources of the capture."""
    make_samples(session.folder, flows=500, frames=5000)
    sources = {flow_addresses(frame)[0] for frame in read_capture(session.path("capture.pcap")).frames}
    return sorted(".".join(map(str, source)) for source in sources if len(source) == 4)[:2]


@pytest.fixture
def saved(session, addresses):
    """(file of ipset, when its sets were made)"""
    began = time.time()
    return write(session.folder, "ipset.save", in_namespace(IPSET.format(guest=addresses[0]))), began


@pytest.fixture
def loop(session, addresses):
    """A session under traffic. Its lists are empty."""
    start_loop(session, read_capture(session.path("capture.pcap")))
    session.start_controld(write(session.folder, "restore.yaml", POLICY))
    session.wait_enforced()
    assert moved(session)[0]["dropped"] == 0, "drops before anything is restored"
    return session


def lasts(entry, seconds, began):
    """It was set after `began`. The saved set and its file have whole seconds."""
    return began + seconds - 2 <= entry["expires"] <= time.time() + seconds


def test_a_dry_run_needs_no_controld(session, saved):
    sets, lists, answer = restored(session, saved[0], "--dry-run", expect=1)
    assert (answer["dry_run"], sets["bans"]["entries"], lists["bans"]["wanted"]) == (True, 2, 2), "a dry run"


def test_sets_of_ipset_are_enforced(loop, addresses, saved):
    session, guest, (path, began) = loop, addresses[0], saved
    code, out, err = session.controlctl("restore", path)
    assert code == 1, f"restore of all sets: {out}{err}"
    assert "list bans: 2 entries added, 0 renewed; 2 entries added to it now" in out, out
    for text in ("there is no list missing", "- name: missing", "list fixed is not dynamic", "it holds ports", "1 exception",
                 "--ignore-exceptions"):
        assert text in err, f"`{text}` is not in: {err}"
    assert "- name: fixed" not in err, err
    assert moved(session)[1]["bans"]["dropped"] > 0, "packets that list bans drops"
    found = entries(session, "bans")
    assert sorted(found) == sorted([guest, "198.51.100.0/24"]), "entries of bans"
    assert (found[guest]["comment"], found["198.51.100.0/24"].get("expires")) == ("ticket 12: timeout 5", None), "comment and no timeout"
    assert lasts(found[guest], 600, began), found[guest]

    _, lists, _ = restored(session, path, "--set", "bans", expect=0)
    assert (lists["bans"]["added"], lists["bans"]["renewed"]) == (0, 2), "restored again"
    sets, lists, _ = restored(session, path, "--set", "holes", "--list", "bans", "--ignore-exceptions", expect=0)
    assert (lists["bans"]["added"], sets["holes"]["exceptions"]) == (1, ["203.0.113.7"]), "a set without its exceptions"
    check_there_and_back(session)


def check_there_and_back(session):
    """An exported list goes into a set of ipset, and from there changes nothing."""
    code, out, err = session.controlctl("export", "bans")
    assert code == 0, err
    lines = "".join(f"ipset add back {line}\n" for line in out.splitlines() if not line.startswith("#"))
    back = write(session.folder, "back.save", in_namespace("set -e\nipset create back hash:net\n" + lines + "ipset save\n"))
    _, lists, _ = restored(session, back, "--list", "bans", expect=0)
    assert (lists["bans"]["added"], lists["bans"]["renewed"], lists["bans"]["entries"]) == (0, 3, 3), "there and back"
    controlctl(session, "flush", "bans")
    assert moved(session)[0]["dropped"] == 0, "drops of the flushed list"


def test_a_set_of_nftables_is_enforced(loop, addresses):
    session, other = loop, addresses[1]
    began = time.time()
    ruleset = write(session.folder, "ruleset.nft", in_namespace(NFT.format(guest=other, options="")))
    with open(ruleset, encoding="utf-8") as file:
        done = subprocess.run([os.path.join(BUILD, "control/controlctl"), "restore", "--set", "hole", "--socket",
                               session.path("controld.sock")], stdin=file, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"restore of nftables: {done.stdout}{done.stderr}"
    found = entries(session, "hole")
    assert sorted(found) == sorted([other, "198.51.100.128-198.51.100.140"]), "entries of hole"
    assert found[other]["comment"] == "scanner", "comment of nftables"
    assert lasts(found[other], 600, began), found[other]
    assert lasts(found["198.51.100.128-198.51.100.140"], 3600, began), found
    assert session.call("explain", key=other)["as_source"]["reason"] == "hole", "explain of a restored entry"
    controlctl(session, "flush", "hole")
    assert moved(session)[0]["dropped"] == 0, "drops of the flushed list"


def test_json_of_nftables_is_refused(session):
    _, _, err = session.controlctl("restore", write(session.folder, "ruleset.json", in_namespace(
        NFT.format(guest="192.0.2.1", options="-j"))))
    assert "print the sets without -j" in err, err


def test_a_restore_adds_all_entries_or_none(session):
    session.start_controld(write(session.folder, "restore.yaml", POLICY), targets=False)
    saved = write(session.folder, "long.save", "add hole 203.0.113.50\nadd hole 203.0.113.51 timeout 9000\n")
    _, lists, _ = restored(session, saved, expect=1)
    refused = re.match(r"entry 2 of 2: (\d+) seconds are more", lists["hole"]["error"])
    assert refused and 8000 < int(refused[1]) <= 9000, lists  # counted since the file was written
    assert entries(session, "hole") == {}, "entries of hole"
