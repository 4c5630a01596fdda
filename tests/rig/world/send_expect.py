"""Send and expect: every encapsulation with every kind of entry (send_expect_rows.py) through the real data
plane, or the XDP program, frame by frame. Of each row: packets that hit, that just miss, of the other family, and the one that hits cut off
at every byte.

The tables and frames.seen() say what is expected; seen() knows where each header of a frame ends because it
put it there: no parser of weir, nor the reference's, has a say. Each kind of entry is a list of its own with addresses
of its own, so the counts by list tell which one hit.

    WEIR_BUILD=build python3 tests/rig/world/send_expect.py [--only GROUP,...] [--kind NAME] [--encapsulation NAME] [--plane xdp] [--json FILE]
"""

import argparse
import json
import os
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from capture import Capture, CaptureError, read_capture, sort_out, write_capture
from programs import as_options, load, outputs, replay, temporary_folder, write
from send_expect_rows import (ALL_TUNNELS, AT_NOW, BLOCK, BUILT, GROUPS, INNOCENT, KINDS, NOW, OWN, OWN_ADDRESS, PLAIN, TUNNELS, Between, Packet,
                              carried_headers, in_wide)
from frames import Frame, packed, seen

SHOWN = 12  # frames with a wrong verdict
LEAST_XDP_FRAME = 14  # no driver hands a shorter one to XDP


def of_family(value, family):
    return value[family] if isinstance(value, dict) else value


def text_of(address, family):
    if family == 4:
        return ".".join(map(str, packed(address, 4)))
    return ":".join(f"{address >> shift & 0xffff:x}" for shift in range(112, -1, -16))


@dataclass
class Entry:
    """A kind of entry in one family: a list, and what its packets look like."""

    kind: object
    family: int
    base: int   # its block of addresses
    bits: int

    @property
    def list(self):
        return f"{self.kind.name}-{self.family}"

    def packets(self, fields_of_each):
        """Fields by name, with addresses in place of their numbers in the block."""
        for fields in fields_of_each:
            fields = {name: of_family(value, self.family) for name, value in fields.items()}
            for side in ("src", "dst"):
                if side in fields:
                    fields[side] += self.base
            yield fields

    def text(self):
        def address(match):
            text = text_of(self.base + int(match[1]), self.family)
            if match[2]:
                return (f"[{text}]" if self.family == 6 else text) + ":" + match[2][1:]
            return text

        return re.sub(r"@(\d+)(!\d+)?", address, of_family(self.kind.entry, self.family))

    def holds(self, address):
        return address >> self.bits == self.base >> self.bits


def entries_of(kinds):
    """Every kind has its block, whichever kinds are run."""
    for number, kind in enumerate(KINDS):
        for family in kind.families:
            start, bits = BLOCK[family]
            if kind in kinds:
                yield Entry(kind, family, start + (number << bits), bits)


@dataclass
class Sent:
    """A frame, and what to expect: the lists that it hits in each of its layers, as far as they are visible."""

    row: str
    content: bytes
    seen: object
    hits: list = field(default_factory=list)  # a set of names for each layer


class Policy:
    def __init__(self, name, entries, default, unparsed, tunnels):
        self.name, self.default, self.unparsed, self.tunnels = name, default, unparsed, tunnels
        self.entries = entries
        self.wide = [entry for entry in entries if in_wide(entry.kind)]
        before = [entry for entry in entries if not entry.kind.after_wide and entry.kind.name != OWN]
        after = [entry for entry in entries if entry.kind.after_wide]
        self.order = ([entry.list for entry in before] + (["wide"] if self.wide else [])
                      + [entry.list for entry in after])
        self.action = {entry.list: (entry.kind.action, entry.kind.mode) for entry in entries}
        self.action["wide"] = ("drop", "enforce")
        self.text = self.write(before, after)

    def write(self, before, after):
        own = [entry.text() for entry in self.entries if entry.kind.name == OWN]
        lines = ["version: 1", "policy:", f"  default: {self.default}", f"  unparsed: {self.unparsed}",
                 f"  tunnels: [{', '.join(self.tunnels)}]", f"  own: [{', '.join(own)}]", "lists:"]

        def add(name, action, mode, match, texts):
            monitored = ", mode: monitor" if mode == "monitor" else ""
            lines.append(f"  - {{name: {name}, action: {action}{monitored}, match: {match}, "
                         f"entries: [{', '.join(texts)}]}}")

        for part in (before, None, after):
            if part is None and self.wide:
                add("wide", "drop", "enforce", "either",
                    [f"'{text_of(entry.base, entry.family)}/{(32 if entry.family == 4 else 128) - entry.bits}'"
                     for entry in self.wide])
            for entry in part or ():
                add(entry.list, entry.kind.action, entry.kind.mode, entry.kind.match, [entry.text()])
        return "\n".join(lines) + "\n"

    def judge(self, sent):
        """(drops, reason or None, lists matched, list credited or None)."""
        if sent.seen.outcome == "not_ip":
            return False, "not_ip", set(), None
        if sent.seen.outcome == "malformed":
            return self.unparsed == "drop", "malformed", set(), None
        matched, verdicts = set(), []
        for hits in sent.hits:
            matched |= hits
            ordered = [name for name in self.order if name in hits]
            passing = [name for name in ordered if self.action[name][0] == "pass"]
            dropping = [name for name in ordered if self.action[name] == ("drop", "enforce")]
            if passing:
                verdicts.append((False, None, passing[0]))
            elif dropping:
                verdicts.append((True, None, dropping[0]))
            else:
                reason = {"pass": "default_passed", "drop": "default_dropped"}[self.default]
                verdicts.append((self.default == "drop", reason, None))
        drops, reason, credited = next((verdict for verdict in verdicts if verdict[0]), verdicts[0])
        return drops, reason, matched, credited


def holds(wanted, value):
    return wanted.holds(value) if isinstance(wanted, Between) else wanted == value


def hits_of(policy, entry, fields, what):
    """The lists that each layer hits. fields: what the packet hits by; None when it is made to miss."""
    hits = []
    is_own = entry.kind.name == OWN
    for layer in what.layers:
        lists = set()
        if fields is not None and not is_own and all(holds(value, getattr(layer, name if name != "proto" else "protocol"))
                                      for name, value in fields.items() if name not in ("carrier", "data")):
            lists.add(entry.list)
        sides = [side for side in (layer.src, layer.dst) if entry.holds(side) and not (is_own and side == entry.base + OWN_ADDRESS)]
        if in_wide(entry.kind) and layer.family == entry.family and sides:
            lists.add("wide")
        hits.append(lists)
    return hits


def other_family(fields, family):
    """The same packets in the other family, the address at either end of a longer one, or cut to a shorter one."""
    for shift in (96, 0):
        moved = dict(fields)
        for side in ("src", "dst"):
            if side in fields:
                moved[side] = fields[side] << shift if family == 4 else fields[side] >> shift & 0xffffffff
        yield moved


def frame_of(encapsulation, family, fields, turn):
    source, destination = INNOCENT[family]
    carried = carried_headers(family, fields, turn)
    return Frame(encapsulation.wrap(Packet(family, fields.get("src", source), fields.get("dst", destination), carried,
                                           fields.get("dscp", 0))))


class Sender:
    """The frames of a policy, each different one once."""

    def __init__(self, policy):
        self.policy, self.frames, self.known, self.rows = policy, [], {}, set()

    def add(self, row, frame, captured, entry, fields):
        what = seen(frame.headers, captured, self.policy.tunnels)
        content = frame.bytes[:captured]
        sent = Sent(row, content, what, hits_of(self.policy, entry, fields, what))
        before = self.known.setdefault(content, sent)
        if before is sent:
            self.frames.append(sent)
        else:
            assert (before.seen, before.hits) == (sent.seen, sent.hits), (
                f"the rows {before.row} and {row} agree on what {content.hex()} means")

    def row(self, encapsulation, entry, turn, cut=True):
        """Everything of one row. cut: at every byte, too."""
        family = entry.family
        row = f"{encapsulation.name} x {entry.kind.name}-{family}"
        self.rows.add(row)
        hits, misses = list(entry.packets(entry.kind.hits)), list(entry.packets(entry.kind.misses))
        for number, fields in enumerate(hits + misses):
            frame = frame_of(encapsulation, family, fields, turn)
            named = fields if number < len(hits) else None
            self.add(row, frame, len(frame.bytes), entry, named)
            if cut and number == 0:
                for captured in range(len(frame.bytes)):
                    self.add(row, frame, captured, entry, named)
        other = 10 - family
        if other not in encapsulation.families:
            return
        for fields in other_family((hits + misses)[0], family):
            if not entry.kind.anywhere:  # ICMP is another protocol there: any
                fields = {name: value for name, value in fields.items() if name not in ("proto", "icmp_type", "icmp_code")}
            frame = frame_of(encapsulation, other, fields, turn)
            self.add(row + ", other family", frame, len(frame.bytes), entry, fields if entry.kind.anywhere else None)


def expected_counts(policy, frames):
    """Counters of the whole run and of each list, from the frames that were sent."""
    totals, lists = Counter(packets=len(frames)), defaultdict(Counter)
    drops = []
    for sent in frames:
        dropped, reason, matched, credited = policy.judge(sent)
        drops.append(dropped)
        totals["dropped" if dropped else "passed"] += 1
        totals["bytes"] += len(sent.content)
        totals["incomplete"] += sent.seen.incomplete
        if reason:
            totals[reason] += 1
        passes = any(policy.action[name][0] == "pass" for name in matched)
        for name in matched:
            lists[name]["matched"] += 1
            lists[name]["matched_bytes"] += len(sent.content)
            lists[name]["would_drop"] += policy.action[name][1] == "monitor" and not passes
        if credited:
            lists[credited]["dropped" if dropped else "passed"] += 1
            lists[credited]["dropped_bytes"] += len(sent.content) if dropped else 0
    return drops, totals, lists


TOTALS = ("packets", "bytes", "passed", "dropped", "malformed", "not_ip")
ONE_LAYER_TOTALS = ("incomplete", "default_passed", "default_dropped")
LIST_COUNTS = ("matched", "dropped", "matched_bytes", "dropped_bytes")
ONE_LAYER_LIST_COUNTS = ("passed", "would_drop")


def told(sent):
    """A frame and what it was expected to show, for people."""
    if sent.seen.outcome != "ip":
        return sent.seen.outcome
    return ("incomplete, " if sent.seen.incomplete else "") + "; ".join(
        f"{text_of(layer.src, layer.family)} > {text_of(layer.dst, layer.family)} proto {layer.protocol} ports "
        f"{layer.sport} > {layer.dport} icmp {layer.icmp_type} {layer.icmp_code} flags {layer.flags} length {layer.length} "
        f"dscp {layer.dscp} fragment {layer.fragment}: hits "
        f"{', '.join(sorted(hits)) or 'nothing'}"
        for layer, hits in zip(sent.seen.layers, sent.hits))


def compare(name, found, expected, keys, failures):
    for key in keys:
        if found[key] != expected[key]:
            failures.append(f"{name}: {key} is {found[key]}, expected {expected[key]}")
    return len(keys)


def run(folder, sender, now, plane):
    """Sends the frames of one policy. (frames, comparisons, what is wrong)."""
    policy, frames = sender.policy, sender.frames
    if plane == "xdp":
        frames = [sent for sent in frames if len(sent.content) >= LEAST_XDP_FRAME]
    pcap, out = os.path.join(folder, f"{policy.name}.pcap"), outputs(folder, policy.name)
    contents = [sent.content for sent in frames]
    write_capture(pcap, Capture(False, contents, [(NOW, 0, len(content)) for content in contents]))
    config = write(folder, f"{policy.name}.yaml", policy.text)
    replay("--once", "--config", config, "--pcap", pcap, "--plane", plane, *as_options(out),
           *(["--now", now] if now else []))
    drops, totals, lists = expected_counts(policy, frames)
    try:
        _, dropped = sort_out(contents, read_capture(out[0]).frames, read_capture(out[1]).frames)
    except CaptureError as error:
        return len(frames), 0, [f"{policy.name}: {error}"]
    failures, dropped, told_rows = [], set(dropped), set()
    wrong_frames = 0
    for number, (sent, drops_here) in enumerate(zip(frames, drops)):
        if (number in dropped) == drops_here:
            continue
        wrong_frames += 1
        if sent.row not in told_rows:  # the first of a row tells enough
            told_rows.add(sent.row)
            failures.append(f"{policy.name}: {sent.row}, {len(sent.content)} bytes captured: "
                            f"{'dropped' if number in dropped else 'passed'}, expected "
                            f"{'dropped' if drops_here else 'passed'}: {told(sent)}\n"
                            f"      {sent.content.hex()}")
    verdict_failures = len(failures)
    comparisons = len(frames)
    result, one_layer = load(out[2]), not policy.tunnels
    comparisons += compare(policy.name, result, totals, TOTALS + (ONE_LAYER_TOTALS if one_layer else ()), failures)
    assert set(result["lists"]) == set(policy.order), f"{policy.name}: its lists are reported"
    for name, counts in result["lists"].items():
        comparisons += compare(f"{policy.name}: list {name}", counts, lists[name],
                               LIST_COUNTS + (ONE_LAYER_LIST_COUNTS if one_layer else ()), failures)
    hit = sum(lists[name]["matched"] > 0 for name in policy.order)
    print(f"{policy.name}: {len(sender.rows)} rows, {len(frames)} frames, {totals['dropped']} to drop, {hit} of "
          f"{len(policy.order)} lists to hit: {wrong_frames} wrong verdicts, "
          f"{len(failures) - verdict_failures} wrong counts")
    return len(frames), comparisons, failures


def senders(groups, kind_name, encapsulation_name):
    """The frames of each policy that has any."""
    kinds = [kind for kind in KINDS if kind.group in groups and kind_name in ("", kind.name)]
    entries = list(entries_of(kinds))

    def fill(name, default, unparsed, tunnels, rows):
        sender = Sender(Policy(name, entries, default, unparsed, tunnels))
        for turn, (encapsulation, entry, cut) in enumerate(
                (encapsulation, entry, cut) for encapsulations, wanted, cut in rows for encapsulation in encapsulations
                for entry in entries if wanted(entry.kind) and entry.family in encapsulation.families
                and encapsulation_name in ("", encapsulation.name)):
            sender.row(encapsulation, entry, turn, cut)
        return sender

    def every(_):
        return True

    def few(kind):
        return kind.name in ("src", "dst", "port-dst", "pair")

    yield fill("no-tunnels", "pass", "pass", (), ((PLAIN, every, True), (TUNNELS, few, True)))
    yield fill("default-drop", "drop", "drop", (), ((PLAIN, lambda kind: kind.group == "lists" or few(kind), True),
                                                     (PLAIN, every, False)))
    if "tunnel" in groups:
        yield fill("tunnels", "pass", "drop", ALL_TUNNELS, ((TUNNELS, every, True), (PLAIN, every, False)))


def send_all(folder, plane="dpdk", groups=BUILT, kind="", encapsulation=""):
    """{rows, frames, comparisons, failures: texts}"""
    rows, frames, comparisons, failures = set(), 0, 0, []
    for sender in senders(groups, kind, encapsulation):
        sent, made, wrong = run(folder, sender, AT_NOW if "expires" in groups else None, plane)
        rows |= sender.rows
        frames += sent
        comparisons += made
        failures += wrong
    return {"rows": len(rows), "frames": frames, "comparisons": comparisons, "failures": failures}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(BUILT), metavar="GROUP,...",
                        help=f"all, or some of {', '.join(GROUPS)} (default: {','.join(BUILT)})")
    parser.add_argument("--kind", default="", metavar="NAME", help="one kind of entry")
    parser.add_argument("--encapsulation", default="", metavar="NAME", help="one encapsulation")
    parser.add_argument("--plane", choices=("dpdk", "xdp"), default="dpdk", help="who judges (default: dpdk)")
    parser.add_argument("--json", metavar="FILE", help="rows, frames, comparisons, failures")
    arguments = parser.parse_args()
    groups = GROUPS if arguments.only == "all" else arguments.only.split(",")
    if set(groups) - set(GROUPS):
        parser.error(f"--only: groups are {', '.join(GROUPS)}")
    with temporary_folder() as folder:
        found = send_all(folder, arguments.plane, groups, arguments.kind, arguments.encapsulation)
    failures = found["failures"]
    print("\n".join(failures[:SHOWN]))
    found["failures"] = len(failures)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(found, file)
    print("send_expect: {rows} rows, {frames} frames, {comparisons} comparisons, {failures} failures".format(**found))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
