"""Figures of what must not go wrong: the panic switch, crashes, disks, hostile input. docs/develop/figures.md says how each is
measured."""

import json
import multiprocessing
import os
import subprocess
import sys

import crashes
import disk
import fault_rig
import faults
import feed_cases
import full_disks
import hostile
import power_cuts
from agreement import publish_sound
from figure import at_least, at_most
from figures_panic import bypass_ms_worst
from namespaces import NoNamespace
from rig import PROGRAMS, Skip, build_release, say
from session import ROOT, Session, SessionError

PEAK_RATIO = 2
MUTATIONS_CAUGHT = 45
MIB = 1 << 20


def silent_unblocks(build, _folder):
    """Changes of a feed under a running controld that changed a verdict without a word in the answer of `reload`."""
    say("safe: what can happen to a feed's file")
    with Session(build) as session:
        results = feed_cases.run(session, say)
    silent = [name for name, changed, told, _ in results if changed and not told]
    note = f"{len(results)} cases, {sum(refused for _, _, _, refused in results)} of them refused"
    return [at_most("safe.silent_unblocks", len(silent), 0, "cases", note + "".join(f"; {name}" for name in silent))], results


def write_lines(path, count):
    with open(path, "w", encoding="ascii") as file:
        for begin in range(0, count, 1 << 20):
            file.write("".join(f"{20 + (i >> 16) % 70}.{i >> 8 & 255}.{i & 255}.{i >> 22 & 255}\n"
                               for i in range(begin, min(begin + (1 << 20), count))))


def write_newlines(path):
    with open(path, "wb") as file:
        for _ in range(1600):
            file.write(b"\n" * 10**6)


LARGE = {
    "30M lines": lambda path: write_lines(path, 30_000_000),
    "1.6 GB of newlines": write_newlines,
    "10 TiB, most of it a hole": feed_cases.sparse,
    "1 GB, most of it a hole": lambda path: (feed_cases.put(path, feed_cases.RAW), os.truncate(path, 10**9)),
}


def peak_of(build, memory_mib, make):
    """(peak before, peak afterwards) in bytes of a controld that is given a feed, and refuses it."""
    with Session(build) as session:
        feed, policy = session.path("fed.txt"), session.path("fed.yaml")
        feed_cases.put(feed, feed_cases.RAW)
        feed_cases.write_policy(policy, f"{memory_mib}MiB")
        session.start_controld(policy, targets=False)
        before = session.call("status")["memory"]["peak_bytes"]
        make(feed)
        answer = session.call("reload")
        if not answer["refused"]:
            raise SessionError(f"it was not refused: {answer}")
        return before, session.call("status")["memory"]["peak_bytes"]


def peak_ratio(build, _folder):
    rows = []
    for name, make in LARGE.items():
        for memory_mib in (64, 1):
            say(f"safe: {name} with filter.memory {memory_mib} MiB")
            before, peak = peak_of(build, memory_mib, make)
            rows.append({"what": name, "memory_mib": memory_mib, "before_bytes": before, "peak_bytes": peak})
    worst, least = (max((row for row in rows if row["memory_mib"] == mib), key=lambda row: row["peak_bytes"]) for mib in (64, 1))
    note = (f"{worst['what']}, with filter.memory 64 MiB; with 1 MiB the peak is {least['peak_bytes'] / MIB:.0f} MiB, where "
            f"controld alone had {least['before_bytes'] / MIB:.0f} before")
    return [at_most("safe.peak_ratio", round(worst["peak_bytes"] / (64 * MIB), 2), PEAK_RATIO, "ratio", note)], rows


def mutations_caught(_build, folder):
    path = os.path.join(folder, "mutations.json")
    done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts/mutate"), "--json", path], check=False)
    if done.returncode not in (0, 1):
        raise SessionError("scripts/mutate came to no result")
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    missed = [f"{row['row']} in {row['file']}" for row in rows if not row["noticed_by"]]
    note = f"of {len(rows)} deliberate errors" + "".join(f"; NOT noticed: {one}" for one in missed)
    return [at_least("safe.mutations_caught", len(rows) - len(missed), MUTATIONS_CAUGHT, "errors", note)], rows


AGREEMENT = "tests/agreement/agreement"


def sound_refused(build, _folder):
    """Random policies that are all sound, each built and proven 100 times with secrets of its own."""
    build_release(build, [AGREEMENT])
    result = publish_sound(build)
    note = ("{policies} policies, {publications} publications, {filters} filters, {of_few_keys} of them of fewer than 1,000 "
            "keys").format(**result)
    figure = at_most("safe.sound_refused", result["refused"], 0, "policies", note)
    if result["publications"] < 100_000:
        figure.status = "short"
    return [figure], result


VARIANTS, MESSAGES = 10_000, 1_000_000
TO_DATAPLANE, TO_CONTROLD, TO_CONTROLD_AS_ENFORCER = 700_000, 260_000, 40_000


def hostile_figure(name, results, least, unit):
    """A crash makes it short, however much was sent."""
    sent, crashes = sum(result["sent"] for result in results.values()), sum(result["crashes"] for result in results.values())
    note = f"{crashes} crashes; " + "; ".join(
        f"{what}: {result['sent']} sent, {result['taken']} taken, {result['refused']} refused" for what, result in results.items())
    figure = at_least(name, sent, least, unit, note)
    if crashes:
        figure.status = "short"
    return [figure], results


def hostile_snapshots(build, _folder):
    build_release(build, [*PROGRAMS, hostile.PROGRAM])
    results = {"data plane": hostile.snapshots_to_dataplane(build, VARIANTS)}
    if os.geteuid() == 0:  # XDP needs root
        results["XDP"] = hostile.snapshots_to_xdp(build, VARIANTS)
    return hostile_figure("safe.hostile_snapshots", results, VARIANTS, "snapshots")


def hostile_messages(build, _folder):
    build_release(build, [*PROGRAMS, hostile.PROGRAM])
    return hostile_figure("safe.hostile_messages", {
        "data plane": hostile.messages_to_dataplane(build, TO_DATAPLANE),
        "controld": hostile.requests_to_controld(build, TO_CONTROLD),
        "controld, from enforcers": hostile.answers_to_controld(build, TO_CONTROLD_AS_ENFORCER),
    }, MESSAGES, "messages")


KILLS = 500
CUT_RELOADS, CUT_STARTS = 24, 100


def in_a_process(function, *arguments):
    """What it returns, in a process of its own: it takes a network and mounts for itself. What it raises is raised here."""
    here, there = multiprocessing.Pipe(duplex=False)

    def work():
        try:
            there.send((function(*arguments), None))
        except (Skip, SessionError, OSError, ValueError) as error:
            there.send((None, error))
        except NoNamespace as reason:
            there.send((None, Skip(str(reason))))

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    there.close()
    try:
        result, error = here.recv()
    except EOFError:
        raise SessionError(f"{function.__module__} ended without a result") from None
    finally:
        process.join()
    if error is not None:
        raise error
    return result


def kills(build, _folder):
    """kill -9 at random moments; one seed, so that the next run is the same as far as time allows."""
    build_release(build, [*PROGRAMS, disk.LIBRARY])
    found = in_a_process(crashes.run, build, KILLS)
    moments = ", ".join(f"{name} {count}" for name, count in sorted(found["moments"].items(), key=lambda one: -one[1]))
    note = "{kills} kills with seed {seed} in {seconds:.0f} s, {policies} policies, {packets} packets".format(**found)
    figures = [at_most("safe.kill_older", found["older"], 0, "kills", note),
               at_most("safe.kill_lost", found["lost"], 0, "kills", f"{note}; at {moments}")]
    if found["kills"] < KILLS:
        for figure in figures:
            figure.status = "short"
    return figures, found


def power_cut_lost(build, _folder):
    build_release(build, [*PROGRAMS, disk.LIBRARY, power_cuts.SAVED_STATE])
    found = in_a_process(power_cuts.run, build, CUT_RELOADS, CUT_STARTS)
    note = ("{states} states of the disks after {places} operations, {different} of them different; the programs were started on "
            "{starts}").format(**found)
    return [at_most("safe.power_cut_lost", found["lost"], 0, "states", note)], found


def enospc_unblocked(build, _folder):
    build_release(build, [*PROGRAMS, disk.LIBRARY])
    found = in_a_process(full_disks.run, build)
    return [at_most("safe.enospc_unblocked", found["failed"], 0, "cases", "{cases} cases".format(**found))], found


FAULT_CASES = 300  # there are more


def injected_faults_failed(build, _folder):
    build_release(build, [*PROGRAMS, fault_rig.LIBRARY])
    found = in_a_process(faults.run, build, False, say)
    by_enforcer = ", ".join(f"{sum(1 for row in found['rows'] if row['enforcer'] == name)} with {name}"
                            for name in sorted({row["enforcer"] for row in found["rows"]}))
    note = f"{found['cases']} cases, {by_enforcer}" + "".join(
        f"; {row['program']}, {row['asked']}, {row['fault']}: {row['problem'].splitlines()[0]}" for row in found["rows"] if row["problem"])
    figure = at_most("safe.injected_faults_failed", found["failed"], 0, "cases", note)
    if found["cases"] < FAULT_CASES:
        figure.status = "short"
    return [figure], found


MEASUREMENTS = (  # a row: (("safe.NAME", ...), function(build, folder) -> (figures, raw runs))
    (("safe.bypass_ms_worst", "safe.stop_ms_worst"), bypass_ms_worst),
    (("safe.silent_unblocks",), silent_unblocks),
    (("safe.peak_ratio",), peak_ratio),
    (("safe.mutations_caught",), mutations_caught),
    (("safe.sound_refused",), sound_refused),
    (("safe.hostile_snapshots",), hostile_snapshots),
    (("safe.hostile_messages",), hostile_messages),
    (("safe.kill_older", "safe.kill_lost"), kills),
    (("safe.power_cut_lost",), power_cut_lost),
    (("safe.enospc_unblocked",), enospc_unblocked),
    (("safe.injected_faults_failed",), injected_faults_failed),
)
