"""What may hold the panic switch up, a function for each situation. It gives its orders through a measure (panic.py) while a
Rig (panic_rig.py) is in that situation. Standard library only."""

import contextlib
import os
import signal
import subprocess
import sys

from held_threads import held
from many_clients import CLIENTS, busy_clients, few_descriptors, silent_clients
from panic_packets import PATIENCE_SECONDS
from panic_rig import LOOK_SECONDS, answer_of
from session import pause
from until import until

MOST_RELOADS = 50


def repeated(rig, measure, name, held_up=None):
    """Pairs of orders while held_up() lasts, and detach, as often."""
    with held_up() if held_up else contextlib.nullcontext():
        for _ in range(rig.times):
            measure.bypass(name)
        measure.detach(name)
    for _ in range(rig.times - 1):
        rig.reload("small")  # attached again
        with held_up() if held_up else contextlib.nullcontext():
            measure.detach(name)
    rig.reload("small")


def at_rest(rig, measure):
    repeated(rig, measure, "at rest")


def silent(rig, measure):
    repeated(rig, measure, f"{CLIENTS} silent clients on each socket", lambda: silent_clients(rig.session))


def busy(rig, measure):
    repeated(rig, measure, f"{CLIENTS} busy clients on each socket", lambda: busy_clients(rig.session))


def descriptors_taken(rig, measure):
    """Entered anew for each pair: what is left, and who takes it first, differs."""
    name = "no descriptor left in either program"
    repeated(rig, measure, name, lambda: few_descriptors(rig.session))
    for _ in range(3 * rig.times):
        with few_descriptors(rig.session):
            measure.bypass(name)


@contextlib.contextmanager
def busy_processors():
    """Programs that never wait, as many as there are processors. (Of more of them the start of any program tells: at four for each
    processor that of controlctl takes 60 ms of its own.)"""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def other_programs(rig, measure):
    repeated(rig, measure, "other programs want all processors", busy_processors)


@contextlib.contextmanager
def stopped(process):
    pause(process.pid)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def controld_stopped(rig, measure):
    repeated(rig, measure, "controld is stopped", lambda: stopped(rig.session.controld))


@contextlib.contextmanager
def dead(rig):
    rig.session.kill("controld")
    try:
        yield
    finally:
        rig.start_controld()


def controld_dead(rig, measure):
    repeated(rig, measure, "controld is dead", lambda: dead(rig))


def full_disk(rig, measure):
    with rig.disk.full():
        for _ in range(rig.times):
            measure.bypass("the disk is full")
        rig.session.kill("controld")
        for _ in range(rig.times):
            measure.bypass("the disk is full, controld is dead")
    rig.start_controld()


def hung_disk(rig, measure):
    name = "the disk does not answer"
    with rig.disk.frozen():
        for _ in range(rig.times):
            measure.bypass(name)
    rig.session.kill("controld")  # with orders that it has yet to write
    with rig.disk.frozen():
        for _ in range(rig.times):
            measure.bypass(name + ", controld is dead")
        measure.detach(name + ", controld is dead")
    rig.start_controld()
    for _ in range(rig.times):
        with rig.disk.frozen():
            measure.detach(name)
        rig.reload("small")  # attached again


def dataplane_dead(rig, measure):
    """What was ordered meanwhile it is told when it is back."""
    xdp = {"XDP": rig.packets["XDP"]}
    for _ in range(rig.times):
        rig.session.kill("dataplane")
        measure.bypass("the data plane is dead", xdp)
        measure.take("the data plane is dead", "bypass", *rig.order(True, xdp))
        rig.start_dataplane()
        rig.wait_until_judged(True)
        rig.wait_enforced()
        measure.bypass("the data plane is back")
        rig.wait_until_judged(False)


def dataplane_stopped(rig, measure):
    xdp = {"XDP": rig.packets["XDP"]}
    with stopped(rig.session.dataplane):
        for _ in range(rig.times):
            measure.bypass("the data plane is stopped", xdp)
        measure.take("the data plane is stopped", "bypass", *rig.order(True, xdp))
    rig.wait_until_judged(True)
    measure.take("the data plane goes on", "bypass", *rig.order(False))


def held_grace(rig, measure):
    """The worker does not run, so a publication waits for it; what is asked is the data plane's status."""
    session = rig.session
    done = len(session.log("dataplane"))
    with held(session.dataplane.pid):  # the worker's thread
        process = rig.begin_reload("small")
        session.wait("the publication to wait for the worker",
                     lambda: "has not been done with its burst" in session.log("dataplane")[done:], PATIENCE_SECONDS)
        for _ in range(rig.times):
            measure.bypass("a publication waits for a worker that does not run", {"data plane": rig.status, "XDP": rig.packets["XDP"]})
    answer_of(process)
    rig.wait_until_judged(False)
    rig.wait_enforced()


def large(rig, what):
    return f"{what} with {rig.entries:,} entries"


def reload(rig, measure):
    """Two of them, or as many as it takes until an order was given while one was under way."""
    under_way = reloads = 0
    while reloads < 2 or (not under_way and reloads < MOST_RELOADS):
        reloads += 1
        process = rig.begin_reload("large")
        while process.poll() is None:
            phase = rig.phase()
            under_way += bool(phase)
            measure.bypass(f"{large(rig, 'a reload')}: {phase}" if phase else large(rig, "before and after a reload"))
        answer_of(process)


def reload_and_detach(rig, measure):
    """A reload attaches again when it publishes: detach counts once before, and once while it is under way."""
    for begin in ("read", "build", "prove"):
        rig.reload("small")  # attached again
        process = rig.begin_reload("large")
        rig.session.wait(f"the phase {begin}", lambda wanted=begin: rig.phase() == wanted or process.poll() is not None)
        if process.poll() is None:
            measure.detach(f"{large(rig, 'a reload')}: {begin}")
        rig.session.wait("the publication", lambda: rig.phase().startswith("publication") or process.poll() is not None)
        if process.poll() is None:
            phase = rig.phase()
            rig.session.wait("XDP to be attached", lambda: not passes(rig) or process.poll() is not None)
            if not passes(rig):
                measure.detach(f"{large(rig, 'a reload')}: {phase}")
        process.communicate()
    rig.reload("large")


def passes(rig):
    plane = rig.packets["XDP"]
    plane.begin()
    found = []

    def is_judged():
        found.append(plane.is_bypassed())
        return found[-1] is not None

    until("a packet by XDP", is_judged, turn=LOOK_SECONDS)
    return found[-1]


def start(rig, measure):
    """Until it is ready, after a crash; with the last good of as many entries."""
    for _ in range(2):
        rig.session.kill("controld")
        rig.launch_controld()
        while not rig.session.is_started():
            measure.bypass(large(rig, "a start of controld"))
        rig.wait_enforced()


def publication_with_slow_disk(rig, measure):
    """The disk of the data plane hangs while it writes what is published."""
    name = f"a publication of {rig.entries:,} entries, the disk does not answer"
    process = rig.begin_reload("large")
    rig.session.wait("the publication", lambda: rig.phase().startswith("publication") or process.poll() is not None)
    with rig.disk.frozen():
        for _ in range(rig.times):
            measure.bypass(name)
    process.communicate()
    rig.wait_enforced()


SMALL = (at_rest, other_programs, silent, busy, descriptors_taken, controld_stopped, controld_dead, dataplane_dead, dataplane_stopped,
         full_disk, hung_disk, held_grace)
LARGE = (reload, publication_with_slow_disk, reload_and_detach, start)
