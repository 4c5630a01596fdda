"""The panic switch in each situation that may hold it up: until when do the packets of a data plane and of XDP meet another
verdict, after `controlctl bypass` or `detach` was started?

    python3 tests/rig/faults/panic.py --build DIR [--entries N] [--times N] [--only TEXT]      as root

Prints JSON: {"rows": [{"situation", "what", "n", "worst_ms", "still_ms", "own_ms", "median_ms", "said_ms", "answered"}], "stops": [...],
...}: said_ms is when controlctl had said how it went, at the latest; still_ms is for how long a processor stood still during the worst order
(standstill.py); own_ms is the longest that an order took without the time in which one did. In a network, a mount table and a BPF file
system of its own. tests/bench/figures/figures_panic.py makes a figure of it; tests/smoke/test_bypass.py tries the same situations with few
entries. Standard library only.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from namespaces import own_mounts, own_network  # noqa: E402 (path first)
from panic_rig import Rig, answer_of  # noqa: E402
from panic_situations import LARGE, SMALL  # noqa: E402
from session import Session, SessionError, tail  # noqa: E402
from standstill import Standstills  # noqa: E402


class Measure:
    """Orders, and how long they took, by situation. check(situation, what, ms, code, answer, err): looks at each of them."""

    def __init__(self, rig, check=None, still=None):
        self.rig, self.check, self.still = rig, check, still
        self.results = {}  # (situation, what): [(ms, who, ms that a processor stood still, ms until controlctl ended)]

    def take(self, situation, what, took, process):
        code, answer, err = answer_of(process)
        said_ms = (time.monotonic() - process.begin) * 1000
        who = "controld" if answer.get("controld", True) else "controlctl"
        for plane, ms in took.items():
            still_ms = self.still.ms(process.begin, process.begin + ms / 1000) if self.still else 0.0
            self.results.setdefault((situation, f"{what}, {plane}"), []).append((ms, who, still_ms, said_ms))
            if self.check:
                self.check(situation, what, ms, code, answer, err)

    def bypass(self, situation, planes=None):
        """On and off."""
        for on in (True, False):
            self.take(situation, "bypass", *self.rig.order(on, planes))

    def detach(self, situation):
        self.take(situation, "detach", *self.rig.detach())

    def rows(self):
        rows = []
        for (situation, what), results in self.results.items():
            ms = [one[0] for one in results]
            answered = {who: sum(1 for one in results if one[1] == who) for who in ("controld", "controlctl")}
            rows.append({"situation": situation, "what": what, "n": len(ms), "worst_ms": round(max(ms), 1),
                         "still_ms": round(max(results)[2], 1), "own_ms": round(max(one[0] - one[2] for one in results), 1),
                         "median_ms": round(statistics.median(ms), 1), "said_ms": round(max(one[3] for one in results), 1),
                         "answered": {who: n for who, n in answered.items() if n}})
        return rows


def row_text(row):
    answered = " and ".join(f"{n} by {who}" for who, n in row["answered"].items())
    return (f"{row['situation']}: {row['what']}: worst {row['worst_ms']:.0f} ms (for {row['still_ms']:.0f} of "
            f"them a processor stood still), {row['own_ms']:.0f} ms without such time, median {row['median_ms']:.0f} ms of {row['n']}, "
            f"answered {answered}, within {row['said_ms']:.0f} ms")


def run(rig, measure, only="", say=lambda text: None):
    """All situations whose function's name has `only` in it."""
    for situation in (*SMALL, *LARGE):
        if only not in situation.__name__:
            continue
        say(f"panic: {situation.__name__.replace('_', ' ')}")
        told = len(measure.rows())
        situation(rig, measure)
        rig.wait_until_judged(False)
        for row in measure.rows()[told:]:
            say(row_text(row))


def stop_ms(rig, name):
    begin = time.monotonic()
    code = rig.session.stop(name)
    if code != 0:
        raise SessionError(f"{name} ended with {code}")
    return round((time.monotonic() - begin) * 1000, 1)


def stops(rig, say=lambda text: None):
    """How long the programs take to end when they are asked to (SIGTERM), in the middle of a reload or publication."""
    rows = []
    for phase in ("", "read", "build", "prove", "publication"):
        say(f"panic: SIGTERM to controld, {phase or 'at rest'}")
        process = rig.begin_reload("large") if phase else None
        if phase:
            rig.session.wait(f"the phase {phase}", lambda wanted=phase: rig.phase().startswith(wanted) or process.poll() is not None)
        rows.append({"program": "controld", "at": phase or "rest", "ms": stop_ms(rig, "controld")})
        if process:
            process.communicate()
        rig.start_controld()
    for at in ("rest", "publication"):
        say(f"panic: SIGTERM to the data plane, {at}")
        process = None
        if at == "publication":
            process = rig.begin_reload("large")
            rig.session.wait("the publication", lambda: "data plane" in rig.phase() or process.poll() is not None)
        rows.append({"program": "data plane", "at": at, "ms": stop_ms(rig, "dataplane")})
        rig.start_dataplane()
        if process:
            process.communicate()
        rig.wait_enforced()
    return rows


@contextlib.contextmanager
def saying_logs(session, say):
    try:
        yield
    except BaseException:
        for name in ("dataplane", "controld"):
            say(f"{name}:\n{tail(session.log(name))}")
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", metavar="DIR")
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=5, help="pairs of orders in each situation")
    parser.add_argument("--only", default="", metavar="TEXT", help="situations whose name has it")
    arguments = parser.parse_args()

    def say(text):
        print(text, file=sys.stderr, flush=True)

    own_network()
    own_mounts()
    # Who looks is not waited for, however busy the machine is; the programs are as all others.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    with Session(arguments.build) as session, saying_logs(session, say), Standstills() as still:
        rig = Rig(session, arguments.entries, arguments.times)
        measure = Measure(rig, still=still)
        begin = os.times()
        run(rig, measure, arguments.only, say)
        rows = stops(rig, say) if not arguments.only or arguments.only in "stops" else []
        spent = os.times().elapsed - begin.elapsed
        print(json.dumps({"rows": measure.rows(), "stops": rows, "seconds": round(spent), "load": os.getloadavg()}))


if __name__ == "__main__":
    main()
