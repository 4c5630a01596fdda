"""Disks that are full, read-only or broken at every moment, under packets, while policies change.

    python3 tests/rig/faults/full_disks.py --build DIR [--few]      root: it makes interfaces, and mounts a small tmpfs

A case is a moment (the n-th operation of a reload, an order or a start on the disk) and a fault, which stays until everything
was looked at; then the disk is well again. What must hold in each: the new policy is enforced, and the answer says that it is not
durable when it is not; what is blocked stays so; a restart enforces what is enforced; no `.new` is left; status says so, and
no more when there is room again, without anybody's doing. Prints JSON: {"cases", "failed", "wrong"}.
"""

import ctypes
import json
import os
import shutil
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from disk import EIO, ENOSPC, EROFS, SYNC, Disk  # noqa: E402 (path first)
from namespaces import own_mounts  # noqa: E402
from report import report  # noqa: E402
from rig import say  # noqa: E402
from session import Session, SessionError  # noqa: E402
from turns import Rig, make_interfaces  # noqa: E402

FAULTS = {  # name: (which operations fail and how, half of the first write is taken, how many fail)
    "no room": (ENOSPC, False, 1 << 62), "no room in the middle of a file": (ENOSPC, True, 1 << 62), "read-only": (EROFS, False, 1 << 62),
    "broken": (EIO, False, 1 << 62), "broken once": (EIO, False, 1), "cannot sync": ((EIO[0], (SYNC,)), False, 1 << 62),
}
FEW = {"no room": 8, "broken once": 2, "cannot sync": 13}  # operations that a quick run tries
RESTART_EVERY = 4      # cases
MOST_OPERATIONS = 60   # of a reload; there are fewer
HEALED_SECONDS = 20    # until what is enforced is on disk, after there is room
TMPFS_BYTES, PAGE = 8 << 20, 4096
MS_REMOUNT, MS_RDONLY, MNT_DETACH = 32, 1, 2  # mount(2), umount2(2)


class Faults:
    def __init__(self, session, seed):
        self.session = session
        self.disk = Disk(session)
        self.rig = Rig(session, seed)
        self.wrong, self.cases = [], 0
        self.epoch = None  # once it is known

    def check(self, condition, what):
        if not condition:
            self.wrong.append(what)

    def states(self):
        return [os.path.join(folder, name) for folder in self.disk.folders for name in os.listdir(folder)]

    def status(self):
        """(what controld says of its disk, what the data plane's is said to be, by controld)."""
        status = self.session.call("status")
        target, = status["targets"]
        return status["disk_error"], target["disk_error"] if target["connected"] and not target["durable"] else ""

    def judged(self, what):
        self.wrong += [f"{what}: {text}" for text in self.rig.expect()]
        self.wrong += [f"{what}: {text}" for text in self.rig.traffic.take_wrong()]

    def healed(self, what):
        """Everything is durable, by itself."""
        try:
            self.session.wait("everything to be durable", lambda: self.status() == ("", ""), HEALED_SECONDS)
        except SessionError:
            self.wrong.append(f"{what}: {HEALED_SECONDS} s after the disk is well status still says {self.status()}")
        self.check(not (left := [path for path in self.states() if ".new" in path]), f"{what}: {left} stays, with room")

    def same_epoch(self, what):
        """A new one would mean that the numbers of the last one were not remembered."""
        epoch = self.session.call("status")["generation"]["epoch"]
        self.check(epoch == (self.epoch or epoch), f"{what}: epoch {epoch} has begun, after {self.epoch}")
        self.epoch = epoch

    def restart(self, what):
        """Both die. The data plane alone, and then with controld, enforces what was enforced."""
        self.rig.kill("controld")
        self.rig.kill("dataplane")
        self.rig.start_dataplane()
        self.judged(f"{what}, the data plane restarted")
        self.rig.start_controld()
        self.session.wait_enforced()
        self.judged(f"{what}, both restarted")
        self.same_epoch(what)

    def reload(self, what, is_writable=True):
        """A new policy on a disk that fails. False: nothing failed."""
        answer = self.rig.reload()
        is_told = "not durable" in json.dumps(answer)
        if answer.get("ok") or is_told:
            self.rig.truth.raise_low(self.rig.truth.high)
        self.judged(what)
        failed = self.status()
        self.check(answer.get("ok") or is_told, f"{what}: the answer is {answer}")
        self.check(answer.get("ok") != is_told, f"{what}: durable or not? {answer}")
        if is_writable:  # else it cannot be taken away either
            self.check(not (left := [path for path in self.states() if ".new" in path]), f"{what}: {left} stays")
        return is_told, failed

    def fault(self, name, moment):
        """False: a reload has fewer operations."""
        how, is_short, count = FAULTS[name]
        what = f"{name}, operation {moment} of a reload"
        self.disk.fail(how, moment, count, is_short)
        is_told, said = self.reload(what, is_writable=name not in ("read-only", "broken"))
        failed = self.disk.heal()
        if failed == 0:
            self.check(not is_told, f"{what}: nothing failed, and the answer says so")
            return False
        self.cases += 1
        if count > 1 and is_told:
            self.check(said != ("", ""), f"{what}: status says nothing")
        self.healed(what)
        return True

    def order(self, name, moment):
        how, is_short, count = FAULTS[name]
        what = f"{name}, operation {moment} of an order"
        failed = 0
        for is_on in (True, False):
            self.disk.fail(how, moment, count, is_short)
            answer = self.rig.bypass(is_on)
            said, status = self.status(), self.session.call("status")
            self.check((status["bypass"], status["targets"][0]["bypass"]) == (is_on, is_on), f"{what}: it is not in force")
            failed += (this := self.disk.heal())
            self.check(answer["ok"] or count == 1 or said != ("", ""), f"{what}: status says nothing of {answer}")
            self.rig.truth.may_bypass({is_on})
            if this > 0 and count > 1 and answer["ok"]:  # what failed came after the answer (that all have `off` is forgotten then), or
                self.restart(f"{what}, which is said to be durable")  # it is not true
            self.judged(what)
            self.healed(what)
        self.cases += failed > 0
        return failed > 0

    def start(self, name, moment, is_first=False):
        """Both start while the disk fails. is_first: there is nothing in their folders."""
        how, is_short, count = FAULTS[name]
        what = f"{name} from operation {moment} of {'the first start of all' if is_first else 'a start'} on"
        self.rig.kill("controld")
        self.rig.kill("dataplane")
        if is_first:
            for path in self.states():
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            self.epoch = None
            self.rig.truth.may_bypass({True, False})  # everything passes until controld is there
        self.disk.fail(how, moment, count, is_short)
        try:
            self.rig.start_dataplane()
            if not is_first:
                self.judged(f"{what}, the data plane alone")
            self.rig.start_controld()
            self.session.wait_enforced()
            self.rig.truth.may_bypass({False})
            self.judged(what)
        except SessionError as error:
            self.wrong.append(f"{what}: {error}")
        failed = self.disk.heal()
        self.cases += failed > 0
        for program in ("dataplane", "controld"):
            process = getattr(self.session, program)
            if process is None or process.poll() is not None:  # it did not start
                setattr(self.session, program, None)
                getattr(self.rig, f"start_{program}")()
        self.session.wait_enforced()
        self.rig.truth.may_bypass({False})
        self.healed(what)
        self.same_epoch(what)
        return failed > 0


def by_interposition(faults, few, progress):
    faults.rig.begin()
    for name in FEW if few else FAULTS:
        for moment in range(1, MOST_OPERATIONS):
            if few and moment != FEW[name]:
                continue
            if not faults.fault(name, moment):
                break
            if moment % RESTART_EVERY == 1 or few and name == "broken once":
                faults.restart(f"{name}, after operation {moment}")
        progress(f"full disks: {name}: {faults.cases} cases, {len(faults.wrong)} wrong")
        if few:
            if name == "no room":
                faults.start(name, 1, is_first=True)
            continue
        for moment in range(1, MOST_OPERATIONS):
            if not faults.order(name, moment):
                break
        for moment in range(1, MOST_OPERATIONS):
            if not faults.start(name, moment):
                break
        faults.start(name, 1, is_first=True)
        faults.restart(f"{name}, after the first start of all")
        progress(f"full disks: {name}, orders and starts: {faults.cases} cases, {len(faults.wrong)} wrong")


def mount(path, flags=0, text="mode=0700,size=8m"):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"weir", path.encode(), b"tmpfs", flags, text.encode()) != 0:
        raise SessionError(f"cannot mount {path}: {os.strerror(ctypes.get_errno())}")


def fill(path, leave_bytes):
    """A file that takes all but so many bytes."""
    room = os.statvfs(path)
    with open(os.path.join(path, "filler"), "wb") as file:
        file.write(b"x" * max(0, room.f_bavail * room.f_frsize - leave_bytes))


def name_of(which):
    return " and ".join(("controld", "the data plane")[one] for one in which)


def on_tmpfs(faults, few, progress):
    """A real file system without room, or with room for a part; and one that is read-only."""
    own_mounts()
    for folder in faults.disk.folders:
        os.mkdir(folder)
        mount(folder)
        faults.session.at_exit(lambda folder=folder: ctypes.CDLL(None).umount2(folder.encode(), MNT_DETACH))
    faults.rig.begin()
    rows = [([0, 1], 0)] if few else [(which, room) for which in ([0], [1], [0, 1]) for room in (0, 1, 2, 4, 8, 16, 32, 64)]
    for which, pages in rows:
        what = f"a tmpfs with room for {pages} pages, of {name_of(which)}"
        for one in which:
            fill(faults.disk.folders[one], pages * PAGE)
        is_told, said = faults.reload(what)
        faults.cases += is_told
        faults.check(not is_told or said != ("", ""), f"{what}: status says nothing")
        for one in which:
            os.unlink(os.path.join(faults.disk.folders[one], "filler"))
        faults.healed(what)
        faults.restart(what)
    for which in ([0, 1],) if few else ([0], [1], [0, 1]):
        what = f"a read-only tmpfs of {name_of(which)}"
        faults.rig.kill("controld")  # who has opened a file for writing keeps a file system writable
        faults.rig.kill("dataplane")
        for one in which:
            mount(faults.disk.folders[one], MS_REMOUNT | MS_RDONLY)
        faults.rig.start_dataplane()
        faults.judged(f"{what}, the data plane alone")
        faults.rig.start_controld()
        faults.session.wait_enforced()
        is_told, said = faults.reload(what, is_writable=False)
        faults.cases += is_told
        faults.check(is_told and said != ("", ""), f"{what}: nobody says so: {said}")
        for one in which:
            mount(faults.disk.folders[one], MS_REMOUNT)
        faults.healed(what)
        faults.restart(what)
    progress(f"full disks: on tmpfs: {faults.cases} cases, {len(faults.wrong)} wrong")


def run(build, few=False, seed=1, progress=say):
    make_interfaces()
    begun, cases, wrong = time.monotonic(), 0, []
    for try_all in (by_interposition, on_tmpfs):
        with Session(build) as session:
            faults = Faults(session, seed)
            try:
                try_all(faults, few, progress)
            except SessionError as error:
                faults.wrong.append(f"it did not go on: {error}")
            cases, wrong = cases + faults.cases, wrong + faults.wrong
    for text in wrong[:20]:
        progress(f"full disks: {text}")
    return {"cases": cases, "failed": len({text.split(":")[0] for text in wrong}), "wrong": wrong, "seconds": time.monotonic() - begun}


if __name__ == "__main__":
    report(run, __doc__, few=False)
