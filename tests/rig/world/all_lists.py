"""A policy of every plain list of the test data: the threat lists, all countries, the P2P ranges."""

import json
import os
import tarfile

from rig import PlacedSession, say, test_data
from session import SessionError

PLAIN = ("c24be_blacklist.txt", "combined-v4.txt.xz", "doh-ipv4.txt", "doh-ipv6.txt", "iana_OFACSanctioned.txt.xz",
         "ipsum.txt.xz", "maltrail_asyncrat.txt.xz", "maltrail_elf_mirai.txt.xz", "maltrail_emotet.txt.xz",
         "maltrail_mass_scanner.txt.xz", "maltrail_mass_scanner_cidr.txt", "maltrail_qakbot.txt",
         "romainmarcoux_full-300k-ab.txt.xz", "romainmarcoux_full.txt.xz", "shadowwhisperer_Probes",
         "shadowwhisperer_Tunnels", "spamhaus_drop.txt", "spamhaus_drop_ipv6.txt", "spamhaus_edrop.txt",
         "x4b_datacenter_ipv4.txt.xz", "x4b_datacenter_ipv6.txt", "x4b_vpn_ipv4.txt", "x4b_vpn_ipv6.txt")
COUNTRIES = "country-ip-blocks.tar.xz"
P2P = "wael_p2p.p2p.xz"


def write_ranges(source, target):
    """NAME:FIRST-LAST lines as plain ranges."""
    with open(source, encoding="utf-8", errors="replace") as lines, open(target, "w", encoding="utf-8") as ranges:
        for line in lines:
            if not line.startswith("#") and ":" in line:
                ranges.write(line.rsplit(":", 1)[1])


def write_countries(archive, family, target):
    """The prefixes of every country, one file a family."""
    with tarfile.open(archive) as countries, open(target, "wb") as prefixes:
        for member in countries.getmembers():
            if member.isfile() and f"{family}/" in member.name:
                prefixes.write(countries.extractfile(member).read())


def all_lists(folder, match="src"):
    """Unpacks the lists into folder; the policy's text. Skip when the test data is not there."""
    files = {}
    for name in PLAIN:
        files[name.split(".")[0]] = test_data("blocklists/" + name, folder)
    for family in ("ipv4", "ipv6"):
        files["countries-" + family] = os.path.join(folder, f"countries-{family}.txt")
        write_countries(test_data("blocklists/" + COUNTRIES, folder), family, files["countries-" + family])
    files["p2p"] = os.path.join(folder, "p2p-ranges.txt")
    write_ranges(test_data("blocklists/" + P2P, folder), files["p2p"])
    # All countries are most of the Internet.
    lists = [f"  - {{name: {name}, action: drop, match: {match}, file: '{path}'"
             f"{', allow_any: true' if name.startswith('countries') else ''}}}\n" for name, path in files.items()]
    return "version: 1\npolicy: {default: pass}\nlists:\n" + "".join(lists)


def measure_all_lists(build, folder, reloads=5):
    """Reloads of all lists: answers of controlctl reload, its shapes, status and the peak of controld's memory."""
    with PlacedSession(build) as session:
        policy = all_lists(folder)

        def write_policy(match):
            with open(session.path("policy.yaml"), "w", encoding="utf-8") as file:
                file.write(policy.replace("match: src", f"match: {match}"))

        write_policy("dst")
        session.start_dataplane("forward: sink\nports: [{port: 0}]", ["net_null0"], 1)
        session.start_controld(session.path("policy.yaml"))
        session.wait_enforced()
        answers = []
        for i in range(reloads):
            say(f"frames: reload {i + 1} of {reloads} of all lists")
            write_policy("dst" if i % 2 else "src")  # else nothing would be read and built again
            answers.append(ask(session, "reload"))
        return {"reloads": answers, "shapes": ask(session, "shapes"), "status": ask(session, "status"),
                "peak_mib": session.peak_mib()}


def ask(session, command):
    code, out, err = session.controlctl(command, "--json")
    if code != 0:
        raise SessionError(f"controlctl {command} ended with {code}: {out}{err}")
    return json.loads(out)
