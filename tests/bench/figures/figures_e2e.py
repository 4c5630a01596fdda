"""Figures of the whole journey: from a line of a policy to a dropped frame. docs/develop/figures.md says how each is measured."""

import json
import os
import statistics
import subprocess

from capture import read_capture
from figure import Figure, at_most, reported
from ratio import COMBINED, measure_ratios
from rig import PlacedSession, say, spread, test_data
from session import ROOT, SessionError
from swaps import measure_swaps

# Packets of mix_shared that combined-v4 drops, by the field compared: counted once with another program.
MIX_DROPPED = {"src": 1046, "dst": 1170, "either": 1800}
RELOADS = 7
SWAPS = 200
CONFIG = "forward: sink\nports: [{port: 0}]"


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    if done.returncode != 0:
        raise SessionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def mix_disagreements(build, folder):
    """Real frames through a real list, against the reference classifier and against known counts."""
    pcap = test_data("pcaps/mix_shared.pcap.xz", folder)
    combined = test_data("blocklists/combined-v4.txt.xz", folder)
    disagreements, raw = 0, {}
    for match, known in MIX_DROPPED.items():
        say(f"e2e: mix_shared through combined-v4 by {match}")
        policy = os.path.join(folder, f"mix-{match}.yaml")
        with open(policy, "w", encoding="utf-8") as file:
            file.write(COMBINED.format(path=combined).replace("match: src", f"match: {match}"))
        totals, dropped = {}, {}
        for program, command in (("replay", [os.path.join(ROOT, "scripts/replay"), "--once", "--build", build]),
                                 ("reference", [os.path.join(build, "tests/reference/reference-capture")])):
            out = {part: os.path.join(folder, f"mix-{program}-{part}") for part in ("passed", "dropped", "json")}
            run(*command, "--config", policy, "--pcap", pcap,
                *(word for part, path in out.items() for word in ("--" + part, path)))
            totals[program] = json.loads(read(out["json"]))
            dropped[program] = read_capture(out["dropped"])
        frames = [set(zip(capture.headers, capture.frames)) for capture in dropped.values()]
        differ = len(frames[0] ^ frames[1]) + abs(len(dropped["replay"].frames) - len(dropped["reference"].frames))
        wrong = sum(totals[program]["dropped"] != known for program in totals)
        raw[match] = {"known": known, "frames_that_differ": differ,
                      **{program: totals[program]["dropped"] for program in totals}}
        disagreements += differ + wrong
    note = ", ".join(f"{match} {counts['replay']} dropped" for match, counts in raw.items())
    return [at_most("e2e.mix_disagreements", disagreements, 0, "frames", note)], raw


def reload_combined(build, folder):
    """The time from asking for a reload to its acknowledgement, and what it costs controld in memory."""
    combined = test_data("blocklists/combined-v4.txt.xz", folder)
    with PlacedSession(build) as session:
        def write_policy(match):
            with open(session.path("policy.yaml"), "w", encoding="utf-8") as file:
                file.write(COMBINED.format(path=combined).replace("match: src", f"match: {match}"))

        write_policy("dst")
        session.start_dataplane(CONFIG, ["net_null0"], 1)
        session.start_controld(session.path("policy.yaml"))
        session.wait_enforced()
        say(f"e2e: {RELOADS} reloads of combined-v4")
        answers = []
        for i in range(RELOADS):
            write_policy("dst" if i % 2 else "src")  # else nothing would be read and built again
            code, out, err = session.controlctl("reload", "--json")
            if code != 0:
                raise SessionError(f"controlctl reload ended with {code}: {out}{err}")
            answers.append(json.loads(out))
        peak_mib = session.peak_mib()
    seconds = [answer["total_ms"] / 1e3 for answer in answers]
    phases = {name: statistics.median(answer["phases"][name] for answer in answers) for name in answers[0]["phases"]}
    note = spread(seconds) + "; ms: " + ", ".join(f"{name} {ms:.0f}" for name, ms in phases.items())
    return [at_most("e2e.reload_combined_s", statistics.median(seconds), 1, "s", note),
            at_most("e2e.controld_mib", peak_mib, 300, "MiB", f"VmHWM after {RELOADS + 1} compilations")], answers


def swaps(build, _folder):
    """Swaps under traffic. Worker preemptions are the machine's doing and are named beside what they may explain."""
    result = measure_swaps(build, SWAPS)
    at_swaps, elsewhere = result["at_swaps"], result["elsewhere"]
    rate = (f"{result['sent']} packets at {result['rate'] / 1e6:.2f} Mpps = 70 % of "
            f"{result['search']['found'] / 1e6:.2f} without loss")
    lost = (f"{rate}; lost {result['lost']} (near a swap {result['lost_near_swaps']}), refused by a full ring "
            f"{result['missed']} (near a swap {result['missed_near_swaps']}), twice {result['surplus']}, imissed "
            f"{result['rx_missed']}; worker preempted {result['worker_preemptions']} times, "
            f"{result['worker_stolen_ms']} ms stolen from its processor")
    mixed = (f"{result['changes']} changes of policy in {result['reloads']} swaps, "
             f"{result['changes_in_traffic']} of them between two packets of one batch")
    gap = (f"between arrivals, +-50 ms around {at_swaps['windows']} swaps; {elsewhere['gap_us']:.0f} us in "
           f"{elsewhere['windows']} windows without one; while the receiver was awake {at_swaps['gap_here_us']:.0f} and "
           f"{elsewhere['gap_here_us']:.0f} us")
    return [at_most("e2e.reload_lost", result["lost_total"] + result["surplus"], 0, "packets", lost),
            at_most("e2e.mixed_bursts", abs(result["mixed_bursts"]), 0, "bursts", mixed),
            reported("e2e.swap_gap_us", at_swaps["gap_us"], "us", gap)], result


def ratios(build, folder):
    """The price of the policy: packets per second beside testpmd, which looks at nothing."""
    result = measure_ratios(build, folder)
    figures = []
    for name in ("empty", "combined"):
        if name not in result["ratios"]:
            figures.append(Figure(f"e2e.ratio_testpmd_{name}", status="skipped", note=result["missing"]))
            continue
        mpps, cycles = (statistics.median(values) for values in
                        ([run["mpps"][name] for run in result["runs"]], result["cycles"][name]))
        peer_mpps = statistics.median(run["mpps"]["testpmd"] for run in result["runs"])
        ghz = statistics.median(run["ghz"] for run in result["runs"])
        note = (f"{spread(result['ratios'][name])}; {mpps:.2f} of {peer_mpps:.2f} Mpps, {1e3 / mpps:.1f} ns = "
                f"{cycles:.0f} cycles a packet at {ghz:.2f} GHz, testpmd {statistics.median(result['cycles']['testpmd']):.0f}"
                f"; {result['capture']}")
        figures.append(reported(f"e2e.ratio_testpmd_{name}", statistics.median(result["ratios"][name]), "ratio", note))
    return figures, result


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("e2e.mix_disagreements",), mix_disagreements),
    (("e2e.reload_combined_s", "e2e.controld_mib"), reload_combined),
    (("e2e.reload_lost", "e2e.mixed_bursts", "e2e.swap_gap_us"), swaps),
    (("e2e.ratio_testpmd_empty", "e2e.ratio_testpmd_combined"), ratios),
)
