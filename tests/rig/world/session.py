"""Runs the real data plane and the real control daemon in a folder of their own, for replay, demo and smoke tests.

A Session starts processes, talks to them and ends them, and never touches any other. Standard library only.
"""

import ctypes
import fcntl
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import evidence
from until import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PROGRAMS = ("dataplane/dataplane", "control/controld", "control/controlctl")
HUGE_PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
HUGE_PAGE_BYTES = 2 << 20
HEADROOM = 128                     # RTE_PKTMBUF_HEADROOM, in front of every frame in its mbuf
MBUF_OVERHEAD = 320                # struct rte_mbuf, mempool header and padding, bytes
SNAPSHOT_ROOM = 256 << 20          # two snapshots of a large policy, rings and port tables
START_SECONDS = 120                # a program that is not ready by then never will be
PR_SET_PDEATHSIG = 1               # prctl(2)


SLOW = ("the disk has not answered yet", "no answer")
SLOW_SECONDS = 60                  # how long an order is given again that was only slow
REFUSED_S = 5                      # a policy that is refused for longer is taken for refused


class SessionError(Exception):
    """Something that was started did not do its part; the text says which and what."""


def ensure_built(build, more=(), goals=()):
    """Builds what of the product, of more (programs) and of goals (ninja's) is missing or out of date, saying so. Several may
    call at once."""
    programs = (*PROGRAMS, *more)
    is_whole = all(os.access(os.path.join(build, program), os.X_OK) for program in programs)
    is_configured = os.path.exists(os.path.join(build, "build.ninja"))
    if not shutil.which("ninja") or not shutil.which("meson"):
        if is_whole:
            return
        raise SessionError(f"{build} holds no build, and meson and ninja are missing: run scripts/setup first")
    if not is_configured and is_whole:  # programs that were put there
        return
    try:
        lock = open(build.rstrip("/") + ".lock", "w", encoding="ascii")  # ninja has none
    except OSError as error:
        if is_whole:  # somebody else's build
            return
        raise SessionError(f"{build} holds no build, and none can be made there: {error}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_configured:
            run_step("configuring", build, ["meson", "setup", build, ROOT, "-Dtests=disabled"])
        ninja = ["ninja", "-C", build, *([] if is_whole else ["all"]), *programs, *goals]
        dry = subprocess.run([*ninja, "-n"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if "ninja: no work to do." not in dry.stdout:
            run_step("building what is out of date in" if is_whole else "building into", build, ninja)


def run_step(what, build, command):
    print(f"{what} {build} (minutes the first time)" if command[0] == "ninja" else f"{what} {build}", flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        raise SessionError(f"{' '.join(command)} failed:\n{tail(done.stdout)}")


def tail(text, lines=20):
    return "\n".join(text.splitlines()[-lines:])


def pause(pid):
    """Stops a process (SIGSTOP). Returns when none of its threads runs any more: on a busy machine one may go on for a while."""
    os.kill(pid, signal.SIGSTOP)
    until(f"process {pid} to stop", lambda: all(state in "TtZX" for state in thread_states(pid)), START_SECONDS, SessionError, turn=0.001)


def thread_states(pid):
    """Letters, as proc(5) has them."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
                yield file.read().rpartition(")")[2].split()[0]
        except FileNotFoundError:  # it has ended
            pass


class Memory:
    """mbufs and data room for a capture, and whether they come from huge pages."""

    def __init__(self, mbufs, longest_frame):
        self.mbufs = mbufs
        self.data_room = max(longest_frame, 1518) + HEADROOM
        self.need_bytes = mbufs * (self.data_room + MBUF_OVERHEAD) + SNAPSHOT_ROOM
        try:
            with open(HUGE_PAGES, encoding="ascii") as file:
                free_bytes = int(file.read()) * HUGE_PAGE_BYTES
        except OSError:
            free_bytes = 0
        self.huge = free_bytes >= self.need_bytes

    def __str__(self):
        kind = "huge pages" if self.huge else "ordinary pages (not enough free huge pages: it works, but slower)"
        return f"memory: {self.mbufs} packet buffers of {self.data_room} bytes in {kind}"

    def eal_options(self, prefix):
        """DPDK 22.11 refuses --no-huge together with --in-memory."""
        if self.huge:
            return ["--in-memory", "--file-prefix", prefix]
        return ["--no-huge", "--file-prefix", prefix, "-m", str((self.need_bytes >> 20) + 1)]


def eal_lcores(workers):
    """--lcores value: worker i on the i-th processor this process may use; round again when there are fewer. Tests that
    run side by side begin with different ones (WEIR_FIRST_PROCESSOR)."""
    processors = sorted(os.sched_getaffinity(0))
    first = int(os.environ.get("WEIR_FIRST_PROCESSOR", 0)) % len(processors)
    processors = processors[first:] + processors[:first]
    return ",".join(f"{worker}@{processors[worker % len(processors)]}" for worker in range(workers))


class Session:
    seccomp = ""  # what a system call that controld should not need meets; tests: "kill"

    def __init__(self, build, parent=None):
        self.build = os.path.abspath(build)
        self.folder = tempfile.mkdtemp(prefix="weir-", dir=parent)
        if len(self.path("dataplane.sock")) > 100:  # sun_path holds 108
            os.rmdir(self.folder)
            self.folder = tempfile.mkdtemp(prefix="weir-", dir="/tmp")
        self.dataplane = None
        self.controld = None
        self.said_memory = False
        self.when_over = []
        self.environment = {}  # more variables for the programs that are started
        self.states = self.folder  # where their state folders are

    def at_exit(self, function):
        """Called when the session is over and its programs have ended."""
        self.when_over.append(function)

    def __enter__(self):
        return self

    def keep(self):
        """As evidence of a failure."""
        evidence.keep(self.folder, [process.pid for process in (self.controld, self.dataplane) if process and process.poll() is None])

    def __exit__(self, kind, *_):
        if evidence.is_failure(kind):
            self.keep()
        for process in (self.controld, self.dataplane):
            if process and process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        for function in self.when_over:
            function()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def state_path(self, name):
        return os.path.join(self.states, name + "-state")

    def log(self, name):
        with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def _start(self, name, command):
        evidence.add(f"{name} starts: {' '.join(command)}")
        with open(self.path(name + ".log"), "ab") as log:
            # In the folder, so that device arguments can name files shortly; a session of its own, so that Ctrl-C
            # reaches the script alone, which then ends it; should the script itself be killed, it ends too.
            return subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=dict(os.environ, RUNTIME_DIRECTORY=self.folder, **self.environment),  # where EAL puts its files
                preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM))

    def start_dataplane(self, config, vdevs=(), workers=1, memory=None, extra=("--wait-for-snapshot",), quiet=True,
                        eal=(), telemetry=False):
        """config: lines of dataplane.yaml beside mempool; vdevs: EAL device arguments; eal: more EAL options;
        telemetry: DPDK's own socket."""
        memory = memory or Memory(8192, 1518)
        if not self.said_memory and not quiet:
            print(memory, flush=True)
        self.said_memory = True
        with open(self.path("dataplane.yaml"), "w", encoding="utf-8") as file:
            file.write(config + f"\nmempool: {{mbufs: {memory.mbufs}, data_room: {memory.data_room}}}\n")
            if os.geteuid() == 0 and "privileges:" not in config:
                file.write("privileges: {user: root}\n")  # its files are in a folder of ours
        command = [os.path.join(self.build, "dataplane/dataplane"), "--lcores", eal_lcores(workers), "--no-pci",
                   *([] if telemetry else ["--no-telemetry"]), *memory.eal_options(os.path.basename(self.folder)), *eal]
        for vdev in vdevs:
            command += ["--vdev", vdev]
        command += ["--", "--config", self.path("dataplane.yaml"), "--socket", self.path("dataplane.sock"),
                    "--state-dir", self.state_path("dataplane"), *extra]
        self.dataplane = self._start("dataplane", command)
        self.wait("the data plane's sockets", lambda: all(can_connect(self.path("dataplane.sock" + end), socket.SOCK_SEQPACKET)
                                                          for end in ("", ".bypass")))

    def start_controld(self, policy, targets=True, extra=(), metrics="off"):
        """targets: the session's data plane; else those of the policy. extra: more options. metrics: where they are served, or None:
        where the policy says; many of these programs may run at once."""
        self.controld = self._start("controld", [
            os.path.join(self.build, "control/controld"), "--config", os.path.abspath(policy), "--socket",
            self.path("controld.sock"), "--state-dir", self.state_path("controld"),
            *(["--seccomp", self.seccomp] if self.seccomp else []),
            *(["--metrics", metrics] if metrics and knows(self.build, "--metrics") else []),
            *(["--no-host-guard"] if knows(self.build, "--no-host-guard") else []),  # verdicts do not depend on this machine
            *(["--target", self.path("dataplane.sock")] if targets else []), *extra])
        self.wait("controld to have compiled its policy", self.is_started)

    def is_started(self):
        """controld answers, and has compiled its first policy."""
        if not can_connect(self.path("controld.sock"), socket.SOCK_STREAM):
            return False
        try:
            return not self.call("status").get("starting", False)  # scripts/compare: older ones do not say
        except SessionError:  # it ends: wait() sees that
            return False

    def wait(self, what, test, seconds=START_SECONDS, turn=0.01):
        """Until test() is true. SessionError when a program that was started ended, or the time is over."""
        begin = time.monotonic()
        until(what, test, seconds, SessionError, self.ended, self.logs, turn)
        evidence.add(f"waited for {what}", f" {time.monotonic() - begin:.3f} s")

    def programs(self):
        """(name, process) of those that run."""
        return [(name, process) for name, process in (("dataplane", self.dataplane), ("controld", self.controld)) if process]

    def ended(self):
        """The program that ended though nobody asked it to, with its log; empty: none did."""
        return "".join(f"{name} ended with {process.returncode}:\n{tail(self.log(name))}\n" for name, process in self.programs()
                       if process.poll() is not None)

    def logs(self):
        return "".join(f"\n{name}:\n{tail(self.log(name))}" for name, _ in self.programs())

    def stop(self, name):
        """Asks "dataplane" or "controld" to stop; its exit code."""
        evidence.add(f"{name} is asked to stop")
        process = getattr(self, name)
        setattr(self, name, None)
        process.terminate()
        try:
            return process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise SessionError(f"{name} did not stop when asked:\n{tail(self.log(name))}") from None

    def kill(self, name):
        """As a crash would: no chance to clean up."""
        evidence.add(f"{name} is killed")
        process = getattr(self, name)
        setattr(self, name, None)
        process.kill()
        process.wait()

    def call(self, command, **fields):
        """One request to controld; its answer."""
        begin = time.monotonic()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(START_SECONDS)
            try:
                connection.connect(self.path("controld.sock"))
                connection.sendall(json.dumps({"command": command, **fields}).encode() + b"\n")
                answer = b""
                while not answer.endswith(b"\n"):
                    part = connection.recv(1 << 16)
                    if not part:
                        break
                    answer += part
                told = json.loads(answer)
            except (OSError, ValueError) as error:
                evidence.add(f"call {command} {fields or ''}: {error}")
                raise SessionError(f"controld did not answer {command}: {error}") from None
        evidence.add(f"call {command} {fields or ''}", f" took {time.monotonic() - begin:.3f} s: {answer[:200].decode(errors='replace').strip()}")
        return told

    def stats(self):
        """Totals as the data plane has them now."""
        answers = []

        def fresh():
            answers.append(self.call("stats"))
            return all(target["fresh"] for target in answers[-1]["targets"])

        self.wait("counters of the data plane", fresh)
        return answers[-1]

    def wait_enforced(self):
        """Until the data plane enforces the generation that controld runs."""
        refused_since = None

        def enforced():
            nonlocal refused_since
            target, = self.call("status")["targets"]
            is_refused = target["connected"] and target["last_error"] and not target["acknowledged"]
            if not is_refused:
                refused_since = None
            elif refused_since is None:
                refused_since = time.monotonic()
            # A last good may be older than what is enforced: it is refused, until the policy is compiled a moment later.
            elif time.monotonic() - refused_since > REFUSED_S:
                raise SessionError(f"the data plane refused the policy: {target['last_error']}")
            return target["connected"] and target["acknowledged"]

        self.wait("the data plane to enforce the policy", enforced)

    def controlctl(self, *arguments):
        """(exit code, standard output, standard error) of controlctl on this session's socket."""
        done = subprocess.run([os.path.join(self.build, "control/controlctl"), *arguments, "--socket",
                               self.path("controld.sock")], capture_output=True, text=True, timeout=START_SECONDS)
        evidence.add(f"controlctl {' '.join(arguments)}", f": {done.returncode} {(done.stderr or done.stdout)[:200].strip()}")
        return done.returncode, done.stdout, done.stderr


def is_slow(answer):
    """Of a `bypass` that was not confirmed: disks and targets only took longer than is waited for them. On a machine that does much
    else; who gives the order again learns how it went."""
    of_targets = [target["error"] for target in answer.get("targets", ()) if target.get("error")]
    reasons = of_targets or ([answer["error"]] if "error" in answer else [])
    return bool(reasons) and all(any(slow in reason for slow in SLOW) for reason in reasons)


@functools.cache
@functools.lru_cache
def knows(build, option):
    """scripts/compare: older builds do not."""
    return option in subprocess.run([os.path.join(build, "control/controld"), "--help"], capture_output=True, text=True,
                                         check=True).stdout


def can_connect(path, kind):
    with socket.socket(socket.AF_UNIX, kind) as probe:
        try:
            probe.connect(path)
            return True
        except OSError:
            return False


def fail(program, message, code):
    print(f"{program}: {message}", file=sys.stderr)
    sys.exit(code)
