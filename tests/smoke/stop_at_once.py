"""SIGTERM is served while a reload, a start or a publication is under way that never ends: its thread, or the process that it
waits for, does not run."""

import contextlib
import os
import signal

from weir_smoke import BUILD, Session, check, equal, make_samples, pause, read_capture, skip, start_loop, write
import held_threads  # noqa: E402 (weir_smoke puts tests/rig on the path)
import panic_rig  # noqa: E402
from fault_rig import HELD, Switch  # noqa: E402
from until import until

GIVEN_UP = "given up"
PATIENCE_SECONDS = 60  # nothing that is held here would ever end


def children(process):
    """Processes that it started."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{int(name)}/stat", encoding="ascii") as file:
            if int(file.read().rpartition(")")[2].split()[1]) == process.pid:
                found.append(int(name))
    return found


def end(session, name, held, what):
    """It ends, in good order, although a thread of it does not run; and says what became of that."""
    process = getattr(session, name)
    said = len(session.log(name))
    process.terminate()

    def has_ended():
        held.reap()
        return process.poll() is not None

    until(f"the end of {name}: {what}", has_ended, PATIENCE_SECONDS)
    equal(process.returncode, 0, f"{what}: exit code of {name}")
    check(GIVEN_UP in session.log(name)[said:], f"{what}: what was given up is not said: {session.log(name)[said:]}")
    setattr(session, name, None)


@contextlib.contextmanager
def stopped(pids):
    """Other processes, which do not run."""
    for pid in pids:
        pause(pid)
    try:
        yield held_threads.Held(None)
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Reloading(Session):
    """policy.yaml has a list with a feed. controld is under a switch that holds it where the test wants it."""

    def __init__(self, build):
        super().__init__(build)
        self.faults = Switch(self.path("controld.faults"))

    def write_policy(self, number):
        """Each is another one, with a feed of its own: controld, which watches feeds, would begin with a changed one by itself."""
        write(self.folder, f"feed-{number}.txt", "".join(f"20.{i >> 8 & 255}.{i & 255}.{number}\n" for i in range(1000)))
        return write(self.folder, "policy.yaml", f"""\
version: 1
targets: [{{dataplane: {self.path("dataplane.sock")}}}]
lists:
  - {{name: feed, action: drop, match: {("src", "dst")[number % 2]}, file: feed-{number}.txt}}
""")

    def launch_controld(self):
        self.environment = self.faults.environment(self.build)
        self.controld = self._start("controld", [
            os.path.join(self.build, "control/controld"), "--config", self.path("policy.yaml"), "--socket",
            self.path("controld.sock"), "--state-dir", self.path("controld-state"), "--seccomp", self.seccomp, "--metrics", "off"])
        self.environment = {}

    def start_whole(self):
        self.launch_controld()
        self.wait("controld to have compiled its policy", self.is_started)
        self.wait_enforced()

    @contextlib.contextmanager
    def held_at(self, call, kind, begin):
        """What begin() begins in controld waits at the first such call, until this is over."""
        self.faults.arm(call, HELD, kinds=(kind,))
        begun = begin()
        self.wait(f"controld to be held: {call} of a {kind}", lambda: self.faults.counts(call)[1] > 0)
        try:
            yield begun
        finally:
            self.faults.disarm()

    @contextlib.contextmanager
    def reads_for_ever(self, begin):
        """So does controld what begin() begins: the process that makes parsers does not run any more."""
        with contextlib.ExitStack() as stack:
            with self.held_at("open", "feed", begin) as begun:
                held = stack.enter_context(stopped(children(self.controld)))
            equal(self.phase(), "read", "the phase when the feed is to be parsed")
            yield begun, held

    def phase(self):
        return self.call("status").get("reloading", "")


with Reloading(BUILD) as session:
    make_samples(session.folder, flows=1000, frames=5000)
    start_loop(session, read_capture(session.path("capture.pcap")))
    try:
        with held_threads.held(session.dataplane.pid):
            pass
    except OSError as reason:
        skip(f"kernel: {reason}")

    # controld, at its start.
    session.write_policy(1)
    with session.reads_for_ever(session.launch_controld) as (_, held):
        end(session, "controld", held, "a start that reads for ever")

    # In a reload, while it is read and while it is compiled.
    session.start_whole()
    session.write_policy(2)
    with session.reads_for_ever(lambda: panic_rig.controlctl(session, "reload")) as (process, held):
        end(session, "controld", held, "a reload that reads for ever")
    process.communicate()

    session.start_whole()
    session.write_policy(3)
    with session.held_at("memfd", "snapshot", lambda: panic_rig.controlctl(session, "reload")) as process:
        phase = session.phase()
        check(phase not in ("", "read"), f"the reload is held while it compiles, not while it is at {phase!r}")
        end(session, "controld", held_threads.Held(None), f"a reload that never ends: {phase}")
    process.communicate()

    # The data plane, while a publication never ends.
    session.start_whole()
    session.write_policy(4)
    publisher, = [task for task, name in held_threads.threads(session.dataplane).items() if name == "weir-publish"]
    with held_threads.held(publisher) as held:
        process = panic_rig.controlctl(session, "reload")
        session.wait("the publication to be under way", lambda: session.phase() == "acknowledge")
        end(session, "dataplane", held, "a publication that never ends")
    process.communicate()
    equal(session.stop("controld"), 0, "exit code")
