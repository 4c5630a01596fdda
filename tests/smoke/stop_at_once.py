"""SIGTERM is served while a reload, a start or a publication is under way that never ends: its thread, or the process that it
waits for, does not run."""

import contextlib
import os
import signal
import time

from weir_smoke import BUILD, Session, check, equal, make_samples, pause, read_capture, skip, start_loop, write
import held_threads  # noqa: E402 (weir_smoke puts scripts/lib on the path)
import panic_rig  # noqa: E402

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


def busiest_thread(process):
    def ticks(task):
        with open(f"/proc/{process.pid}/task/{task}/stat", encoding="ascii") as file:
            return int(file.read().rpartition(")")[2].split()[11])
    return max(held_threads.threads(process), key=ticks)


def end(session, name, held, what):
    """It ends, in good order, although a thread of it does not run; and says what became of that."""
    process = getattr(session, name)
    said = len(session.log(name))
    process.terminate()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None:
        held.reap()
        check(time.monotonic() < deadline, f"{what}: {name} does not end")
        time.sleep(0.01)
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
    """large.yaml has a list that takes a while to read and to compile."""

    def write_large(self, entries, number):
        write(self.folder, "large.txt", "".join(f"{20 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.{number}\n" for i in range(entries)))
        return write(self.folder, "large.yaml", f"""\
version: 1
targets: [{{dataplane: {self.path("dataplane.sock")}}}]
lists:
  - {{name: large, action: drop, match: {("src", "dst")[number % 2]}, file: large.txt}}
""")

    def start_large(self):
        self.controld = self._start("controld", [
            os.path.join(self.build, "control/controld"), "--config", self.path("large.yaml"), "--socket",
            self.path("controld.sock"), "--state-dir", self.path("controld-state"), "--seccomp", self.seccomp])

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
    session.write_large(300_000, 1)
    session.start_large()
    session.wait("the process that makes parsers", lambda: children(session.controld))
    with stopped(children(session.controld)) as held:
        session.wait("controld to answer", lambda: os.path.exists(session.path("controld.sock")))
        session.wait("the first policy to be read", lambda: session.phase() == "read")
        end(session, "controld", held, "a start that reads for ever")

    # In a reload, while it is read and while it is compiled.
    session.start_large()
    session.wait("controld to have compiled its policy", session.is_started)
    session.wait_enforced()
    session.write_large(300_000, 2)
    with stopped(children(session.controld)) as held:
        process = panic_rig.controlctl(session, "reload")
        session.wait("the policy to be read", lambda: session.phase() == "read")
        end(session, "controld", held, "a reload that reads for ever")
    process.communicate()

    session.start_large()
    session.wait("controld to have compiled its policy", session.is_started)
    session.wait_enforced()
    session.write_large(300_000, 3)
    process = panic_rig.controlctl(session, "reload")
    session.wait("the policy to be compiled", lambda: session.phase() not in ("", "read"))
    with held_threads.held(busiest_thread(session.controld)) as held:
        phase = session.phase()
        time.sleep(0.3)
        equal(session.phase(), phase, "the thread that is held is not the one that compiles: the phase")
        check(phase, "the reload was over before it was held")
        end(session, "controld", held, f"a reload that never ends: {phase}")
    process.communicate()

    # The data plane, while a publication never ends.
    session.start_large()
    session.wait("controld to have compiled its policy", session.is_started)
    session.wait_enforced()
    session.write_large(1000, 4)
    publisher, = [task for task, name in held_threads.threads(session.dataplane).items() if name == "weir-publish"]
    with held_threads.held(publisher) as held:
        process = panic_rig.controlctl(session, "reload")
        session.wait("the publication to be under way", lambda: session.phase() == "acknowledge")
        end(session, "dataplane", held, "a publication that never ends")
    process.communicate()
    equal(session.stop("controld"), 0, "exit code")
