"""The data plane, and the XDP program, beside the reference (tests/agreement): on every capture of the test data, on random policies, and while
lists change."""

import gzip
import json
import lzma
import os
import shutil
import subprocess
import tarfile

from all_lists import P2P, write_countries, write_ranges
from rig import Skip, say, test_data
from session import ROOT, SessionError, tail

TUNNELS = "policy: {default: pass, tunnels: [ipip, 6in4, gre, vxlan, geneve, gtpu, teredo]}"
STRICT = "policy: {default: drop, unparsed: drop}"
RANDOM_POLICIES = 1000
RANDOM_PACKETS = 100_000  # of each
SOUND_POLICIES, PUBLICATIONS = 1000, 100  # of each
CHANGES = 100_000
UPDATES = "blocklists/updates/x4b_datacenter_v4"  # versions of one feed, by their names in the order of their days


def unpack_captures(folder):
    """Every capture of the test data, archives included, below one folder. Skip when they are not there."""
    data = os.path.join(os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data")), "pcaps")
    if not os.path.isdir(data):
        raise Skip(f"data: no {os.path.normpath(data)}")
    target = os.path.join(folder, "pcaps")
    for path, _, names in os.walk(data):
        for name in names:
            source = os.path.join(path, name)
            place = os.path.join(target, os.path.relpath(path, data))
            os.makedirs(place, exist_ok=True)
            if name.endswith(".tar.xz"):
                with tarfile.open(source) as archive:
                    archive.extractall(os.path.join(place, name.removesuffix(".tar.xz")))
                continue
            packed = next((suffix for suffix in (".xz", ".gz") if name.endswith(suffix)), "")
            opener = {".xz": lzma.open, ".gz": gzip.open, "": open}[packed]
            with opener(source, "rb") as read, open(os.path.join(place, name.removesuffix(packed)), "wb") as write:
                shutil.copyfileobj(read, write)
    return target


def real_policies(folder):
    """Policy files of real lists: hosts, prefixes of countries with an allowlist, ranges and pairs; by every side."""
    def data(name):
        return test_data("blocklists/" + name, folder)

    countries = {}
    for family in ("ipv4", "ipv6"):
        countries[family] = os.path.join(folder, f"agree-{family}.txt")
        write_countries(data("country-ip-blocks.tar.xz"), family, countries[family])
    ranges = os.path.join(folder, "agree-p2p.txt")
    write_ranges(data(P2P), ranges)
    kinds = {
        "combined": (TUNNELS, (("combined", "drop", data("combined-v4.txt.xz")),)),
        "countries": (STRICT, (("v4", "drop", countries["ipv4"]), ("v6", "drop", countries["ipv6"]),
                               ("datacenters", "pass", data("x4b_datacenter_ipv4.txt.xz")))),
        "p2p": (TUNNELS, (("p2p", "drop", ranges), ("asyncrat", "drop", data("maltrail_asyncrat.txt.xz")),
                          ("drop6", "drop", data("spamhaus_drop_ipv6.txt")))),
    }
    paths = []
    for kind, (head, lists) in kinds.items():
        for match in ("src", "dst", "either"):
            paths.append(os.path.join(folder, f"agree-{kind}-{match}.yaml"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(f"version: 1\n{head}\nlists:\n")
                more = ", allow_any: true" if kind == "countries" else ""  # they are most of the Internet
                for name, action, path in lists:
                    file.write(f"  - {{name: {name}, action: {action}, match: {match}, file: '{path}'{more}}}\n")
    return paths


def run(build, *arguments):
    """The JSON that tests/agreement printed; what differs goes to standard error."""
    command = [os.path.join(build, "tests/agreement/agreement"), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=3600)
    if not done.stdout.startswith("{"):
        raise SessionError(f"{' '.join(command[:2])} ended with {done.returncode}: {tail(done.stdout)}")
    return json.loads(done.stdout)


def agree_on_captures(build, folder, xdp=False):
    """xdp: by the XDP program, too (root)."""
    captures = unpack_captures(folder)
    policies = real_policies(folder)
    say(f"frames: every capture with {len(policies)} policies of real lists")
    return run(build, *(["--xdp"] if xdp else []), "captures", captures, *(word for path in policies for word in ("--config", path)))


def agree_on_random(build, policies=RANDOM_POLICIES, packets=RANDOM_PACKETS, xdp=False):
    say(f"frames: {policies} random policies, {packets} frames each")
    return run(build, *(["--xdp"] if xdp else []), "random", "--policies", policies, "--packets", packets)


def publish_sound(build, policies=SOUND_POLICIES, publications=PUBLICATIONS):
    say(f"safe: {policies} random policies, {publications} publications each")
    return run(build, "sound", "--policies", policies, "--publications", publications)


def versions_of_feed():
    """The files of the feed whose versions the test data has. Skip when they are not there."""
    folder = os.path.join(os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data")), UPDATES)
    if not os.path.isdir(folder):
        raise Skip(f"data: no {os.path.normpath(folder)}")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".txt.xz"))


def agree_on_sequences(build, changes=CHANGES, xdp=False):
    say(f"moves: {changes} changes to random policies")
    return run(build, *(["--xdp"] if xdp else []), "sequences", "--changes", changes)


def agree_on_updates(build, versions, xdp=False):
    say(f"moves: {len(versions)} versions of a feed as changes")
    return run(build, *(["--xdp"] if xdp else []), "updates", *versions)
