"""kill -9 of controld and the data plane at random moments, under packets, while policies change and bypass is switched.

    python3 tests/rig/faults/crashes.py --build DIR [--kills N] [--seed N]      root: it makes interfaces

Half of the kills come at a random time of a reload, of an order or of a start; half at a random operation on the disk
(before it, in the middle of a write, after it). After each one what was killed is started again, in either order. Prints
JSON: {"kills", "older", "lost", "packets", "moments", "wrong"}. older: kills after which something older than the newest
acknowledged policy, generation or order of bypass was enforced or reported; lost: those after which an acknowledged one was
not enforced, a frame got the wrong verdict or was lost though the data plane ran, a program did not start, or did not take
what it had saved.
"""

import collections
import json
import os
import random
import re
import sys
import threading
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from disk import DEATHS, Disk  # noqa: E402 (path first)
from pace import hold  # noqa: E402
from report import report  # noqa: E402
from rig import say  # noqa: E402
from session import Session, SessionError, is_slow  # noqa: E402
from turns import Rig, make_interfaces  # noqa: E402
from until import until  # noqa: E402

PROGRAMS = ("controld", "dataplane")
# What a start says when it does not take what it has saved. The book may be that of the generation before.
REFUSALS = re.compile(r"damaged|is not used|cannot be used|not known|cut off|a new epoch|holds neither|cannot (?:open|read|lock|create)"
                      r"|was published and could not be remembered")
OPERATIONS_OF_A_RELOAD = 24   # on both disks, about
WIDE_EVERY, BYPASS_SHARE, START_SHARE, BOTH_SHARE, DISK_SHARE = 5, 0.15, 0.15, 0.25, 0.5
LAST_SECONDS = 0.01          # operations of an order come so soon behind its answer
RESUME_SECONDS = 60           # until everything is as it should be after a kill


class Killer:
    def __init__(self, session, seed):
        self.session, self.random = session, random.Random(seed)
        self.disk = Disk(session)
        self.rig = Rig(session, seed)
        self.truth = self.rig.truth
        self.typical = {"reload": 0.1, "wide": 0.5, "on": 0.02, "off": 0.02, "controld": 0.2, "dataplane": 0.5}  # seconds, as measured
        self.moments = collections.Counter()
        self.log_ends = {name: 0 for name in PROGRAMS}
        self.killed = []
        self.wrong = []
        self.epoch = None

    def begin(self):
        self.rig.begin()
        self.epoch = self.truth.number[0]
        for kind, is_wide in (("reload", False), ("wide", True), ("reload", False)):
            begun = time.monotonic()
            answer = self.rig.reload(is_wide)
            if not answer.get("ok"):
                raise SessionError(f"a reload before the first kill failed: {answer}")
            self.typical[kind] = time.monotonic() - begun
        self.wrong += [f"lost: before the first kill: {text}" for text in self.rig.traffic.take_wrong()]

    # One kill: an order, a moment, a death, a return.
    def kill(self):
        """Texts: what was wrong."""
        kind = self.choose_order()
        answers = []
        order = threading.Thread(target=self.give, args=(kind, answers), daemon=True)
        self.killed = []
        if self.random.random() < DISK_SHARE:
            self.die_on_disk(order, kind)
        else:
            self.die_in_time(order, kind)
        if not self.killed:  # the operation never came: it was the last of fewer
            self.strike("at rest", self.random.choice(PROGRAMS))
        elif self.random.random() < BOTH_SHARE:
            self.strike("soon after the other one", *(name for name in PROGRAMS if name not in self.killed))
        wrong = self.restart()
        order.join(RESUME_SECONDS)
        if order.is_alive():
            wrong.append(f"lost: the order ({kind}) was not answered")
        if answers and not answers[0].get("ok") and "not durable" in json.dumps(answers[0]) and not is_slow(answers[0]):
            wrong.append(f"lost: {kind}: {answers[0]}")
        return wrong + self.resume()

    def choose_order(self):
        if True in self.truth.bypass:
            return "off"
        if self.random.random() < BYPASS_SHARE:
            return "on"
        return "wide" if self.random.randrange(WIDE_EVERY) == 0 else "reload"

    def give(self, kind, answers):
        begun = time.monotonic()
        try:
            answers.append(self.rig.bypass(kind == "on") if kind in ("on", "off") else self.rig.reload(kind == "wide"))
            if answers[0].get("ok"):
                self.typical[kind] = 0.7 * self.typical[kind] + 0.3 * (time.monotonic() - begun)
        except SessionError:  # controld went away: nothing is acknowledged
            pass

    def die_on_disk(self, order, kind):
        self.disk.kill_at(self.random.randint(1, 6 if kind in ("on", "off") else OPERATIONS_OF_A_RELOAD),
                          self.random.choice(DEATHS))
        order.start()
        until("a death", lambda: self.reap() or not order.is_alive(), 3 * self.typical[kind] + 1, error=None, turn=0.001)
        until("a death at the last operation", self.reap, LAST_SECONDS, error=None, turn=0.001)
        kind_of_operation = self.disk.spare()
        if kind_of_operation is None:
            return
        until("the end of a process", self.reap, RESUME_SECONDS, error=None, turn=0.001)  # much memory takes its time to go
        self.moments[f"disk: {kind_of_operation}"] += 1

    def reap(self):
        """Names of those that the disk has ended."""
        for name in PROGRAMS:
            process = getattr(self.session, name)
            if process is not None and process.poll() is not None:
                self.forget(name)
        return self.killed

    def forget(self, name):
        if name == "dataplane":
            self.truth.killed()
        setattr(self.session, name, None)
        self.killed.append(name)

    def die_in_time(self, order, kind):
        order.start()
        hold(self.random.uniform(0, 1.05) * self.typical[kind])
        phase = "order of bypass" if kind in ("on", "off") else "reload: answered"
        if kind in ("reload", "wide") and order.is_alive():
            try:
                phase = "reload: " + (self.session.call("status").get("reloading") or "between two phases")
            except SessionError:
                phase = "reload: not known"
        victims = PROGRAMS if self.random.random() < BOTH_SHARE else [self.random.choice(PROGRAMS)]
        self.strike(phase, *victims)

    def strike(self, moment, *names):
        self.moments[moment] += 1
        for name in names:
            self.rig.kill(name)
            self.killed.append(name)

    def restart(self):
        """What was killed, in some order. Before one is there, the other one does what it was told last."""
        wrong = []
        names = list(dict.fromkeys(self.killed))
        self.random.shuffle(names)
        for name in names:
            if self.random.random() < START_SHARE:
                self.kill_while_starting(name)
            begun = time.monotonic()
            getattr(self.rig, f"start_{name}")()
            self.typical[name] = time.monotonic() - begun
            # Alone: from its own disk. Beside a controld that may bring it the next one.
            if name == "dataplane":
                wrong += [f"{text} (the data plane has just started)" for text in self.rig.expect(is_newest=False)]
        return wrong

    def kill_while_starting(self, name):
        start = threading.Thread(target=self.start_in_vain, args=(name,))
        before = getattr(self.session, name)
        start.start()
        hold(self.random.uniform(0, 1.1) * self.typical[name])
        until("a process", lambda: getattr(self.session, name) is not before or not start.is_alive(), turn=0.001)
        process = getattr(self.session, name)
        if name == "dataplane":
            self.truth.killed()
        process.kill()
        process.wait()
        start.join()
        if name == "dataplane":
            self.truth.killed()
        setattr(self.session, name, None)
        self.moments[f"start of {name}"] += 1

    def start_in_vain(self, name):
        try:
            getattr(self.rig, f"start_{name}")()
        except SessionError:  # it was ended
            pass

    def resume(self):
        """What is wrong when both run again: everything must be as it was ordered last."""
        wrong = []
        try:
            self.session.wait_enforced()
            status = self.session.call("status")
        except SessionError as error:
            return [f"lost: {error}"]
        target, = status["targets"]
        wrong += self.check_numbers(status, target)
        if len(self.truth.bypass) == 1:
            wanted, = self.truth.bypass
            if status["bypass"] != wanted or not self.is_told(wanted):
                wrong.append(f"older: bypass is {wanted}, as acknowledged, and status says {status}")
        else:  # the order was not answered: one that is, says which
            answer = self.rig.bypass(False)
            if not answer.get("ok"):
                wrong.append(f"lost: bypass off: {answer}")
        wrong += self.rig.expect()
        wrong += [f"lost: {text}" for text in self.rig.traffic.take_wrong()]
        return wrong + self.refusals()

    def is_told(self, wanted):
        """Whether the data plane is said to have bypass so. One that does not answer at once is told as it was before."""
        def is_so():
            target, = self.session.call("status")["targets"]
            return target["bypass"] == wanted

        return until("bypass of the data plane", is_so, RESUME_SECONDS, error=None, turn=0.05)

    def check_numbers(self, status, target):
        wrong = []
        for who, generation in (("controld", status["generation"]), ("the data plane", target["generation"])):
            epoch, number = self.truth.number
            if generation["epoch"] != epoch:
                wrong.append(f"lost: {who} is in epoch {generation['epoch']}, not {epoch}")
            elif generation["number"] < number:
                wrong.append(f"older: {who} says generation {generation['number']}, {number} was acknowledged")
        if status["from_last_good"]:
            wrong.append("lost: the policy was not read")
        if not wrong:
            self.truth.acknowledge(self.truth.high, status["generation"])
        return wrong

    def refusals(self):
        """What the programs say in their logs of files that they do not take."""
        found = []
        for name in PROGRAMS:
            text = self.session.log(name)
            news, self.log_ends[name] = text[self.log_ends[name]:], len(text)
            found += [f"lost: {name} says: {line}" for line in news.splitlines() if REFUSALS.search(line)]
        return found


def run(build, kills, seed=1, progress=say):
    make_interfaces()
    older, lost, all_wrong = 0, 0, []
    begun = time.monotonic()
    with Session(build) as session:
        killer = Killer(session, seed)
        killer.begin()
        for number in range(1, kills + 1):
            try:
                wrong, is_over = killer.kill(), False
            except SessionError as error:  # nothing can be killed that did not start
                wrong, is_over = [f"lost: {error}"], True
            older += any(text.startswith("older") for text in wrong)
            lost += bool(wrong) and not any(text.startswith("older") for text in wrong)
            all_wrong += [f"kill {number} ({', '.join(killer.killed)}): {text}" for text in wrong]
            for text in wrong[:5]:
                progress(f"crashes: kill {number} ({', '.join(killer.killed)}): {text}")
            if number % 25 == 0:
                progress(f"crashes: {number} kills in {time.monotonic() - begun:.0f} s, {killer.rig.traffic.packets} packets, "
                         f"{killer.truth.high} policies, {older} older, {lost} lost")
            if is_over or len(all_wrong) > 200:
                break
        killer.rig.traffic.stop()
        packets, policies = killer.rig.traffic.packets, killer.truth.high
    lost += any(text.startswith("lost: before") for text in killer.wrong)
    return {"kills": number, "older": older, "lost": lost, "packets": packets, "policies": policies, "seed": seed,
            "seconds": time.monotonic() - begun, "moments": dict(killer.moments), "wrong": killer.wrong + all_wrong}


if __name__ == "__main__":
    report(run, __doc__, kills=500)
