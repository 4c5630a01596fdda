"""The panic switch where something may hold it up: clients, descriptors, disks, publications, a controld that is stopped or dead.
The situations of the figure safe.bypass_ms_worst (tests/rig/faults/panic.py), with few entries: each order is in force soon, on both
planes, by their packets; controlctl says who answered; and nothing happens afterwards that was not ordered last."""

import os
import time

from weir_smoke import BUILD, Session, check, equal, is_slow, read, skip, skips_without_namespaces
from namespaces import own_mounts, own_network
import panic  # noqa: E402 (weir_smoke puts tests/rig on the path)
from loop_disk import NoDisk  # noqa: E402
from panic_rig import Rig  # noqa: E402

ENTRIES, TIMES = 100_000, 1
AT_ONCE_MS = 10_000  # on a machine that does much else
answers = {}       # situation: [(exit code, answer, standard error)]


def look(situation, what, ms, code, answer, err):
    print(situation, what, f"{ms:.0f} ms", code, answer, err, flush=True)
    check(ms < AT_ONCE_MS, f"{situation}: {what} took {ms:.0f} ms")
    check(code in (0, 3) or is_slow(answer), f"{situation}: {what}: exit code {code}: {answer} {err}")
    if not answer.get("controld", True):
        check("no controld answers" in err, f"{situation}: {what}: who answered is not said: {err}")
    answers.setdefault(situation, []).append((code, answer, err))


def by_controld(situation):
    return {answer.get("controld", True) for _, answer, _ in answers[situation]}


with skips_without_namespaces():
    own_network()
    own_mounts()
with Session(BUILD) as session:
    try:
        rig = Rig(session, ENTRIES, TIMES)
    except NoDisk as reason:
        skip(f"kernel: {reason}")
    measure = panic.Measure(rig, look)
    panic.run(rig, measure, say=lambda text: print(text, flush=True))
    for row in measure.rows():
        print(row)

    for situation in ("controld is stopped", "controld is dead", "the disk is full, controld is dead"):
        equal(by_controld(situation), {False}, f"{situation}: whether controld answered")
    for situation in ("the data plane is dead", "the data plane is stopped"):
        equal(by_controld(situation), {True}, f"{situation}: whether controld answered")
        for code, answer, err in answers[situation]:
            told = {target["socket"]: target for target in answer["targets"]}
            away, = (one for name, one in told.items() if name == session.path("dataplane.sock"))
            equal((code, [one["acknowledged"] for one in told.values() if one is not away]), (3, [True]), f"{situation}: {answer} {err}")
            check("told when it comes back" in away["error"] or "told until it confirms" in away["error"], f"{situation}: {away}")
    for situation in ("the disk is full", "the disk does not answer"):
        told = [answer for _, answer, _ in answers[situation] if "not durable" in str(answer) or "disk" in str(answer)]
        check(told, f"{situation}: nobody says so: {answers[situation]}")
    check(any(situation.startswith("a reload") for situation in answers), "no order was given while a reload was under way")
    check(any(situation.startswith("a start") for situation in answers), "no order was given while controld started")

    # What was given up, or waited for a disk, is not carried out now.
    time.sleep(2.5)  # longer than a look at the targets, and the next attempt to write
    rig.wait_until_judged(False)
    session.wait("nobody to remember bypass", lambda: not os.path.exists(session.path("controld-state/bypass"))
                 and read(session.path("dataplane-state/bypass")) == b"off\n")
    status = session.call("status")
    equal((status["bypass"], [target["bypass"] for target in status["targets"]]), (False, [False, False]), "bypass at the end")
