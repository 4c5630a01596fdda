"""scripts/replay --once agrees with the reference classifier on the samples, frame by frame and byte by byte: lists by
source, by destination and by either, allowlists, monitored lists, ports, unparsed frames, both defaults."""

import os

from weir_smoke import agrees_with_reference, check, equal, make_samples, read_capture, temporary_folder, write

FEEDS = """\
  - {{name: scanners, action: drop, match: {match}, file: feeds/scanners.txt}}
  - {{name: abuse, action: drop, match: {match}, file: feeds/abuse.txt}}
"""

PORTS = """\
version: 1
policy: {default: pass, unparsed: pass}
lists:
  - {name: web, action: drop, match: dst, entries: ["192.0.2.10:443", "[2001:db8::10]:443", "203.0.113.9:53"]}
  - {name: ssh, action: drop, match: either, entries: ["192.0.2.11:22", "192.0.2.12:22"]}
  - {name: answers, action: drop, match: src, entries: ["192.0.2.13:443"]}
"""

ALLOWLIST_ONLY = """\
version: 1
policy: {default: drop, unparsed: drop, own: [192.0.2.10, "2001:db8::10"]}
lists:
  - {name: good, action: pass, match: either, entries: [198.19.0.0-198.19.99.255, "2001:db8:180::/41"]}
  - {name: bad, action: drop, match: src, entries: [198.19.50.0/24]}
  - {name: seen, action: drop, mode: monitor, match: either, entries: [198.18.0.0/15]}
"""

NESTED = """\
version: 1
policy: {default: pass, unparsed: drop}
lists:
  - {name: host, action: drop, entries: [198.19.7.7, 198.19.8.8]}
  - {name: wide, action: drop, match: either, entries: [198.19.0.0/17, 2001:db8:100::/40]}
  - {name: hole, action: pass, entries: [198.19.0.0/18]}
  - {name: everything, action: drop, mode: monitor, allow_any: true, entries: [0.0.0.0/0, "::/0"]}
"""

NOTHING = "version: 1\npolicy: {default: pass, unparsed: pass}\nlists: []\n"


with temporary_folder() as folder:
    make_samples(folder)
    pcap = os.path.join(folder, "capture.pcap")
    frames = len(read_capture(pcap).frames)

    totals = agrees_with_reference(folder, os.path.join(folder, "weir.yaml"), pcap)
    equal(totals["packets"], frames, "packets")
    equal(totals["passed"] + totals["dropped"], frames, "passed and dropped together")
    for reason in ("malformed", "not_ip", "incomplete", "default_passed"):
        check(totals[reason] > 20, f"the samples hold frames that are {reason}")
    for name in ("scanners", "abuse", "c2"):
        check(totals["lists"][name]["dropped"] > 100, f"{name} drops")
    check(totals["lists"]["partners"]["passed"] > 100, "partners passes")
    check(totals["lists"]["watch"]["would_drop"] > 100, "watch would drop")
    equal(totals["lists"]["watch"]["dropped"], 0, "packets dropped by a monitored list")

    for match in ("src", "dst", "either"):
        policy = "version: 1\nlists:\n" + FEEDS.format(match=match)
        totals = agrees_with_reference(folder, write(folder, f"match-{match}.yaml", policy), pcap)
        check(totals["lists"]["scanners"]["dropped"] > 100, f"scanners drops by {match}")

    totals = agrees_with_reference(folder, write(folder, "ports.yaml", PORTS), pcap)
    for name in ("web", "ssh", "answers"):
        check(totals["lists"][name]["dropped"] > 10, f"{name} drops by port")

    totals = agrees_with_reference(folder, write(folder, "allowlist.yaml", ALLOWLIST_ONLY), pcap)
    check(totals["default_dropped"] > 100 and totals["lists"]["own"]["passed"] > 100, "the default drops, own passes")

    agrees_with_reference(folder, write(folder, "nested.yaml", NESTED), pcap)

    totals = agrees_with_reference(folder, write(folder, "nothing.yaml", NOTHING), pcap)
    equal((totals["passed"], totals["dropped"]), (frames, 0), "without lists, passed and dropped")
