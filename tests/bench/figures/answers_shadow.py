"""The figures of shadows: what one counts against a replay of both policies, and what judging costs. docs/develop/figures.md says
how they are measured."""

import os
import random

from capture import Capture, read_capture
from figure import at_most, reported
from namespaces import NoNamespace
from rig import Skip, say, spread, test_data
from shadows import frames_that_fit, loop_rates, median_loss, plain_capture, replayed_difference, shadowed_difference

COUNTS = ("packets", "newly_dropped", "newly_dropped_bytes", "newly_passed", "newly_passed_bytes")
PAIRS = 5            # of policies; and of rates with a shadow and without
LISTED = 400         # entries of a policy, most of them of addresses that come
MOST_FRAMES = 60_000
SECONDS = 2
XDP_TURNS = 3


def addresses_of(frames):
    found = set()
    for frame in frames:
        if frame[12:14] == b"\x08\x00" and len(frame) >= 34:
            found.update((".".join(map(str, frame[26:30])), ".".join(map(str, frame[30:34]))))
    return sorted(found)


def write_policy(path, rng, addresses, names):
    """Lists of random actions, sides and widths over the addresses of the capture."""
    lines = ["version: 1\n", f"policy: {{default: {rng.choice(('pass', 'pass', 'drop'))}, unparsed: {rng.choice(('pass', 'drop'))}}}\n",
             "lists:\n"]
    for name in names:
        action = rng.choice(("drop", "drop", "pass"))
        mode = rng.choice(("enforce", "enforce", "monitor")) if action == "drop" else "enforce"
        lines.append(f"  - {{name: {name}, action: {action}, mode: {mode}, match: {rng.choice(('src', 'dst', 'either'))}, entries: [")
        entries = [f"{address}/{rng.choice((32, 32, 32, 28, 24))}" for address in rng.sample(addresses, min(LISTED, len(addresses) // 3))]
        lines.append(", ".join(sorted(set(entries))) + "]}\n")
    with open(path, "w", encoding="ascii") as file:
        file.writelines(lines)
    return path


def captures(folder):
    """The large capture of the test data, cut."""
    return plain_capture(folder, test_data("pcaps/mix_shared.pcap.xz", folder), MOST_FRAMES)


def shadowed(plane, build, running, candidate, pcap):
    try:
        return shadowed_difference(plane, build, running, candidate, pcap)
    except NoNamespace as reason:
        raise Skip(str(reason)) from None


def shadow_disagreements(build, folder):
    pcap = frames_that_fit(folder, captures(folder))
    addresses = addresses_of(read_capture(pcap).frames)
    rng, raw, wrong, differ, frames = random.Random(18), [], 0, 0, 0
    for turn in range(PAIRS):
        running = write_policy(os.path.join(folder, f"running{turn}.yaml"), rng, addresses, ("alpha", "beta", "gamma"))
        candidate = write_policy(os.path.join(folder, f"candidate{turn}.yaml"), rng, addresses, ("beta", "delta", "alpha"))
        expected = replayed_difference(build, folder, running, candidate, pcap)
        for plane in ("dataplane", "xdp"):
            told = shadowed(plane, build, running, candidate, pcap)
            found = {key: told[key] for key in COUNTS}
            by_list = {key: sum(row[key] for row in told["lists"]) for key in COUNTS[1:]}
            wrong += sum(abs(found[key] - expected[key]) + abs(by_list.get(key, found[key]) - found[key]) for key in COUNTS)
            raw.append({"plane": plane, "expected": expected, "found": found, "by_list": by_list})
            say(f"shadow: {turn + 1} of {PAIRS}, {plane}: {found}")
        differ += expected["newly_dropped"] + expected["newly_passed"]
        frames += expected["packets"]
    if differ == 0:
        raise Skip("no packet differs")
    note = (f"{PAIRS} pairs of policies, {frames} frames of mix_shared on the data plane and as many on XDP, {differ} of them judged "
            "differently")
    return [at_most("answers.shadow_disagreements", wrong, 0, "frames", note)], raw


def shadow_cost(build, folder):
    pcap = captures(folder)
    whole = read_capture(pcap)
    capture = Capture(whole.nanoseconds)
    capture.frames, capture.headers = whole.frames[:8192], whole.headers[:8192]
    rng, addresses = random.Random(1), addresses_of(whole.frames)
    running = write_policy(os.path.join(folder, "running.yaml"), rng, addresses, ("alpha", "beta"))
    candidate = write_policy(os.path.join(folder, "candidate.yaml"), rng, addresses, ("alpha", "gamma"))
    on, off, cycles = loop_rates(build, folder, running, candidate, capture, SECONDS, PAIRS)
    xdp = [shadowed("xdp", build, running, candidate, frames_that_fit(folder, pcap))["targets"][0]["nanoseconds"]
           for _ in range(XDP_TURNS)]
    note = (f"TSC cycles a judged packet, {spread(cycles)}; a worker that replays mix_shared loses {median_loss(on, off):.0%} of its rate "
            f"with a shadow of all packets ({spread([rate / 1e6 for rate in off])} -> {spread([rate / 1e6 for rate in on])} Mpps, {PAIRS} pairs); "
            f"on XDP {spread(xdp)} ns a judged packet, two readings of the clock included")
    return ([reported("answers.shadow_cost_cycles", sorted(cycles)[len(cycles) // 2], "cycles", note)],
            {"with": on, "without": off, "cycles": cycles, "xdp_ns": xdp})


MEASUREMENTS = ((("answers.shadow_disagreements",), shadow_disagreements), (("answers.shadow_cost_cycles",), shadow_cost))
