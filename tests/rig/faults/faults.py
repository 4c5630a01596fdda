"""Faults that are injected in controld and the data plane as they run: descriptors run out, calls are interrupted, cut short or
refused, clocks jump. A case is one fault, in one program, while one thing is asked for. What must hold in each: what is blocked
stays blocked, what is innocent passes, the programs live, an answer is true or says what is wrong, what is acknowledged is
enforced; and when nothing fails any more, both come to terms by themselves and the next reload works.

    python3 tests/rig/faults/faults.py --build DIR [--few] [--only TEXT]      XDP needs root
"""

import argparse
import errno
import json
import os
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from fault_rig import ALWAYS, CALLS, DAY, LOST, SETTLE_SECONDS, SHORT, YEAR, Rig, Wrong  # noqa: E402 (path first)
from fault_rig_xdp import XdpRig  # noqa: E402
from rig import say  # noqa: E402
from session import SessionError  # noqa: E402
from until import until  # noqa: E402


# What is asked of the programs while something fails. Each returns [(command, answer)].

def reload(rig):
    rig.turn()
    return [("reload", rig.ask("reload"))]


def switch(rig):
    return [("bypass on", rig.ask("bypass", on=True)), ("bypass off", rig.ask("bypass", on=False))]


def look(rig):
    return [(command, rig.ask(command, **fields)) for command, fields in (
        ("status", {}), ("stats", {}), ("telemetry", {}), ("explain", {"key": "198.18.0.1"}), ("list", {}), ("feeds", {}))]


def restart(rig):
    return [("start", rig.restart("controld"))]


def restart_dataplane(rig):
    return [("start", rig.restart("dataplane"))]


def reasons(answer):
    """Every text of an answer that says what is wrong."""
    texts = [answer.get("error", "")]
    texts += [target.get("error", "") or target.get("last_error", "") for target in answer.get("targets", ())]
    texts += [one.get("reason", "") for one in answer.get("refused", ())]
    texts += [one.get("message", "") for one in answer.get("diagnostics", ())]
    return "; ".join(text for text in texts if text)


def judge(rig, command, answer):
    """Wrong: the answer is neither true nor says what is wrong. Returns it in a few words."""
    if isinstance(answer, str):
        return answer
    if command in ("status", "stats", "telemetry", "explain", "list", "feeds"):
        if "error" in answer and not reasons(answer):
            raise Wrong(f"{command}: an error without words")
        if command == "explain" and "error" not in answer and answer["as_source"]["action"] != "drop":
            raise Wrong("explain: what is blocked passes")
        return reasons(answer) or "ok"
    if not answer.get("ok"):
        if not reasons(answer):
            raise Wrong(f"{command}: not ok, without a reason: {answer}")
        return reasons(answer)
    if command == "reload":
        found = rig.passing()
        if not answer["refused"] and found != rig.passes:
            raise Wrong("reload: ok, and something else is enforced")
        return reasons(answer) or "ok"
    return "ok"


class Case:
    """One fault, in one program, while one thing is asked for. It is counted when the program made the call that was to fail."""

    def __init__(self, program, call, error, action, how="", clocks=None, **arming):
        self.program, self.call, self.error, self.action, self.clocks, self.arming = program, call, error, action, clocks, arming
        if clocks:
            self.what = how
        else:
            name = {SHORT: "short", LOST: "MSG_CTRUNC"}.get(error) or errno.errorcode[error]
            kinds = f" ({', '.join(arming['kinds'])})" if arming.get("kinds") else ""
            who = f" of {arming['who']}" if arming.get("who", "everybody") != "everybody" else ""
            first, last = arming.get("first", 1), arming.get("last", ALWAYS)
            when = f"call {first}" if first == last else f"each from {first}" if arming.get("every", 1) == 1 else f"every other from {first}"
            self.what = f"{call}{kinds}{who}: {name}, {when}"

    def run(self, rig):
        """{"fault", "program", "asked", "injected", "answers", "problem"}"""
        row = {"fault": self.what, "program": self.program, "asked": self.action.__name__, "injected": 0, "answers": [],
               "problem": ""}
        faults = rig.switches[self.program]
        began = time.monotonic()
        try:
            before = rig.watch()
            if self.action is restart_dataplane:
                before = dict.fromkeys(before, 0)
            if self.clocks:
                faults.ahead(**self.clocks)
            else:
                faults.arm(self.call, self.error, **self.arming)
            try:
                answers = self.action(rig)
                rig.check_alive()
            finally:
                if not self.clocks:
                    row["injected"] = faults.counts(self.call)[1]
                faults.disarm()
            # Of an answer that came while accept failed, say, nothing could be measured before.
            row["answers"] = [f"{command}: {judge(rig, command, answer)}" for command, answer in answers]
            last = answers[-1][1]
            if self.action is switch and not (isinstance(last, dict) and last.get("ok")):
                rig.settle()
                rig.switch(False)  # what was not acknowledged is ordered again
            if self.clocks:
                row["injected"] = self.check_clock(rig)
                faults.ahead()
                self.wait_for_clock(rig, False)
            may = (*(("bypassed",) if self.action is switch else ()), *(("default_passed",) if self.clocks else ()))
            self.afterwards(rig, before, may)
        except (Wrong, SessionError, OSError) as error:
            row["problem"] = str(error) or repr(error)
        finally:
            faults.disarm()
            faults.ahead()
        row["seconds"] = round(time.monotonic() - began, 2)
        return row

    def check_clock(self, rig):
        """Entries that expire do so by the clock that the enforcer has been told."""
        self.wait_for_clock(rig, self.clocks.get("realtime", 0) > YEAR // 2 and self.program == rig.enforcer)
        return 1

    @staticmethod
    def wait_for_clock(rig, is_late):
        """Until its entries have expired, or have not, as the enforcer's clock says."""
        rig.wait_for_clock()
        grown = {}

        def is_as_the_clock_says():
            grown.update(rig.traffic())
            return (grown["dropped by expiring"] == 0) == is_late

        until("entries that expire", is_as_the_clock_says, SETTLE_SECONDS, Wrong, turn=0.1,
              about=lambda: f" to do so by the clock: {grown}")

    @staticmethod
    def seen(rig):
        """Which group passes by what is published, and which by what is enforced, of one time: a feed that could not be read is read
        again by itself, and may be published between the two."""
        while True:
            rig.settle()
            published, problem, found = rig.published(), None, None
            try:
                found = rig.passing()
            except Wrong as wrong:
                problem = wrong
            if rig.published() != published:
                continue
            if problem:
                raise problem
            return published, found

    def afterwards(self, rig, before, may):
        published, found = self.seen(rig)
        if found != published:
            raise Wrong(f"acknowledged is that {published} passes, and {found} does")
        rig.check_watch(before, may)
        before = rig.watch()
        rig.turn()
        answer = rig.ask_well("reload")
        if not answer["ok"] or answer["refused"] or rig.passing() != rig.passes:
            raise Wrong(f"the next reload: {reasons(answer) or 'ok, and not enforced'}")
        rig.check_watch(before)
        for on in (True, False):
            answer = rig.switch(on)
            if not answer["ok"] or answer["bypass"] != on:
                raise Wrong(f"the next bypass: {reasons(answer)}")
        if all(rig.traffic(2000)["bypassed"] for _ in range(3)):  # a burst that was under way may end now
            raise Wrong("bypass off, and packets pass by it")


def count_calls(rig, program, action):
    """{call: how often a program makes it for what is asked}, where nothing fails."""
    faults = rig.switches[program]
    for call in CALLS:
        faults.arm(call)
    action(rig)
    found = {call: faults.counts(call)[0] for call in CALLS}
    faults.disarm()
    rig.settle()
    return found


# Errors that the kernel gives, by call. What libc or the kernel restarts, or what a loop does again, never fails each time.
EXHAUSTED = {
    "open": (errno.EMFILE, errno.ENFILE), "socket": (errno.EMFILE,), "memfd": (errno.EMFILE,), "dup": (errno.EMFILE,),
    "event": (errno.EMFILE,), "watch": (errno.ENOSPC,), "map": (errno.ENOMEM,), "truncate": (errno.ENOSPC,),
    "bpf": (errno.ENOMEM, errno.EPERM, errno.E2BIG), "name": (errno.EMFILE,), "thread": (errno.EAGAIN,), "fork": (errno.EAGAIN,),
    "rights": (LOST,),
}
PASSING = {
    "accept": (errno.EMFILE, errno.EINTR, errno.ECONNABORTED), "connect": (errno.EINTR, errno.EAGAIN),
    "read": (errno.EINTR, SHORT), "write": (errno.EINTR, SHORT), "sync": (errno.EINTR,),
    "receive": (errno.EINTR, errno.ECONNRESET), "send": (errno.EINTR, errno.ENOBUFS), "wait": (errno.EINTR,),
}
OF_INTERFACES = ("bpf", "name", "socket")  # looked after all the while: the switch itself is a store
OF_CHILDREN = ("receive", "send", "rights", "fork")  # in the processes that parse feeds


def cases_of(rig, program, action, few):
    """Every call that the program makes for what is asked fails: one after the other, all of them, every other one. few: all or
    every other one, by the first error."""
    counted = count_calls(rig, program, action)
    at_start = action in (restart, restart_dataplane)
    for call, errors in (*EXHAUSTED.items(), *PASSING.items()):
        count = counted[call]
        if count == 0 or (action is switch and isinstance(rig, XdpRig) and call in OF_INTERFACES):
            continue
        # Without any socket an order is answered when its time is over.
        is_slow = few and action is switch and call == "socket"
        is_all_at_once = call in PASSING or not (at_start or is_slow)
        for error in errors[:1] if few else errors:
            # Whoever makes the helpers has no peer but controld, and ends with it.
            who = "program" if error == errno.ECONNRESET else "everybody"
            for number in range(1, min(count, MOST_CALLS) + 1) if not (few and is_all_at_once) else ():
                yield Case(program, call, error, action, first=number, last=number, who=who)
            for first in (1,) if few or call in EXHAUSTED else (1, 2)[:count]:
                if is_all_at_once:
                    yield Case(program, call, error, action, first=first, every=2 if call in PASSING else 1, who=who)
    if counted["send"] and program == "controld" and not at_start:
        yield Case(program, "send", SHORT, action, kinds=("stream",))


def faults_of_feeds():
    for call in ("open", "read"):
        error = errno.EMFILE if call == "open" else errno.EIO
        for number in (1, 2, 3):
            yield Case("controld", call, error, reload, first=number, last=number, kinds=("file",))
        yield Case("controld", call, error, reload, kinds=("file",))
    for call in OF_CHILDREN:
        for error in EXHAUSTED.get(call, ()) or (errno.EINTR,):
            yield Case("controld", call, error, reload, first=1, last=1, who="children")


def clocks(program):
    for how, ahead in (("the wall clock a year ahead", {"realtime": YEAR}), ("the wall clock a year behind", {"realtime": -YEAR}),
                       ("a day of suspend", {"realtime": DAY, "monotonic": 0 if program == "xdp" else DAY, "boottime": DAY}),
                       ("the monotonic clock a day ahead", {"monotonic": DAY})):
        for action in (reload, switch, look):
            yield Case("controld" if program == "xdp" else program, "", 0, action, how=how, clocks=ahead)


MOST_CALLS = 64  # of one kind: more BPF calls than a start of controld with XDP makes
AT_START = ("bpf", "socket", "name", "dup", "open")  # what opens the plane


def some(cases, few, one_in):
    cases = list(cases)
    return cases[::one_in] if few else cases


def on_dataplane(rig, few):
    for program in rig.programs:
        for action in (reload, switch) if few else (reload, switch, look):
            yield from cases_of(rig, program, action, few)
    yield from some(faults_of_feeds(), few, 3)
    for program in rig.programs:
        yield from some(clocks(program), few, 5)
    for program, action in (("controld", restart), ("dataplane", restart_dataplane)):
        yield from some(cases_of(rig, program, action, few), few, 20)


def on_xdp(rig, few):
    for action in (reload,) if few else (reload, switch, look):
        yield from some(cases_of(rig, "controld", action, few), few, 2)
    yield from some(clocks("xdp"), few, 12)
    if not few:  # each of them has the verifier look at the program
        yield from (case for case in cases_of(rig, "controld", restart, few) if case.call in AT_START)


def run(build, few=False, progress=None, only="", rigs=((Rig, on_dataplane), (XdpRig, on_xdp))):
    """{"cases", "failed", "rows"}; the second rig takes a network and mounts for this process."""
    rows = []
    for kind, cases in rigs:
        if kind is XdpRig and os.geteuid() != 0:
            continue
        with kind(build) as rig:
            for case in cases(rig, few):
                if only not in f"{case.program} {case.action.__name__} {case.what}":
                    continue
                row = case.run(rig)
                row["enforcer"] = "XDP" if kind is XdpRig else "data plane"
                if not row["injected"] and not row["problem"]:
                    continue  # how often a program waits, say, is not the same each time: the call was not made
                rows.append(row)
                if progress and (row["problem"] or only):
                    progress(as_text(row))
                if row["problem"]:
                    rig.mend()
    return {"cases": len(rows), "failed": sum(1 for row in rows if row["problem"]), "rows": rows}


def as_text(row):
    return (f"{row['enforcer']}: {row['program']}, {row['asked']}, {row['fault']}: {row['problem'] or 'well'} "
            f"[{'; '.join(row['answers'])}]")


def main():
    parser = argparse.ArgumentParser(prog="faults.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, metavar="DIR")
    parser.add_argument("--few", action="store_true", help="some of the cases")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose description holds it; each is told")
    arguments = parser.parse_args()
    began = time.monotonic()
    found = run(arguments.build, arguments.few, say, arguments.only)
    found["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(found, indent=1))
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
