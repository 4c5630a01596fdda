"""A bench of real programs: which processor each one gets, tools beside the data plane, progress on stderr.

What is measured has a processor of its own, everything else shares the others; with two processors that is the load
generator, controld and the control thread of the data plane on one. Standard library only.
"""

import ctypes
import json
import lzma
import os
import queue
import signal
import statistics
import subprocess
import sys
import threading
import unittest

from session import PR_SET_PDEATHSIG, PROGRAMS, ROOT, Session, SessionError, tail

LINE_SECONDS = 120  # a tool that prints nothing for so long hangs
STOP_SECONDS = 20
TOOLS = ("tests/bench/pacer", "tests/bench/core_clock", "tests/bench/feed_figures", "tests/bench/make_snapshot", "tests/bench/fleet_nodes",
         "tests/bench/plane_client", "tests/bench/port_peers", "tests/bench/xdp_bench", "tests/reference/reference-capture",
         "tests/agreement/agreement", "tests/xdp/xdp_traffic")


class Skip(unittest.SkipTest):
    """What is asked cannot be measured here; the text says why. missing_here: this machine could, once it has it."""

    def __init__(self, reason, missing_here=False):
        super().__init__(reason)
        self.missing_here = missing_here


def say(text):
    print(text, file=sys.stderr, flush=True)


def install_peers():
    """Installs what the measurements compare with. Without root they go on with what is there, and say what they miss."""
    done = subprocess.run([os.path.join(ROOT, "scripts/setup"), "bench"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        say(tail(done.stdout))


def with_tests(build):
    """Whether this build was configured with tests and benchmarks; scripts/demo does without."""
    options = json.loads(subprocess.check_output(["meson", "introspect", "--buildoptions", build]))
    return any(option["name"] == "tests" and option["value"] == "enabled" for option in options)


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if done.returncode != 0:
        raise SessionError(f"{' '.join(command)} failed:\n{tail(done.stdout)}")
    return done.stdout.strip()


def build_commit(commit, build, targets=PROGRAMS):
    """(its short name, the build folder) of another commit, below the build folder of this one."""
    name = run(["git", "-C", ROOT, "rev-parse", "--short", commit + "^{commit}"])
    folder = os.path.join(build, "compare", name)
    source, other = os.path.join(folder, "source"), os.path.join(folder, "build")
    if not os.path.isdir(source):
        os.makedirs(source)
        archive = subprocess.run(["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
    if not os.path.exists(os.path.join(other, "build.ninja")):
        run(["meson", "setup", other, source])
    say(f"building {name} (a few minutes the first time)")
    run(["ninja", "-C", other, *targets])
    return name, other


def build_release(build, targets=PROGRAMS + TOOLS):
    """The release build, made when it is not there; ninja decides what is out of date."""
    steps = [["ninja", "-C", build, *targets]]
    if not os.path.exists(os.path.join(build, "build.ninja")):
        say(f"configuring a release build in {build}")
        steps.insert(0, ["meson", "setup", build, ROOT, "-Dbuildtype=release", "-Dtests=enabled"])
    elif not with_tests(build):
        steps.insert(0, ["meson", "setup", "--reconfigure", build, ROOT, "-Dtests=enabled"])
    say(f"building what is out of date in {build} (a few minutes the first time)")
    for step in steps:
        run(step)


def test_data(name, folder):
    """Path of a file of the test data, unpacked into folder when it is packed. Skip when it is not there."""
    data = os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data"))
    source = os.path.join(data, name)
    if not os.path.exists(source):
        raise Skip(f"data: no {name} in {os.path.normpath(data)}")
    if not name.endswith(".xz") or name.endswith(".tar.xz"):
        return source
    target = os.path.join(folder, os.path.basename(name).removesuffix(".xz"))
    if not os.path.exists(target):
        with lzma.open(source) as packed, open(target, "wb") as file:
            file.write(packed.read())
    return target


def processors():
    """(the one for what is measured, list of the others)."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise Skip("processors: needs two, one for the worker, one for everything else")
    return usable[0], usable[1:]


def stolen_ms():
    """What the hypervisor has taken from the processor of what is measured since the machine started."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = next(line.split() for line in file if line.startswith(f"cpu{processors()[0]} "))
    return int(fields[8]) * 1000 // os.sysconf("SC_CLK_TCK")


# Weight against everything else on the machine, as nice values. The load generator is ahead of compilers, yet lets
# controld run: what it does not send while it is away, it never sends.
WORKER_NICE, GENERATOR_NICE, CONTROL_NICE = -20, -10, 0


def placed(command, cpus, nice):
    """The command, bound to processors. Without the right to a negative nice value, nice(1) says so and goes on."""
    return ["taskset", "-c", ",".join(map(str, cpus)), "nice", "-n", str(nice), *command]


def set_group_weight(pid, nice):
    """The scheduler's autogroups hide a process's nice value from other sessions, so their own value is set as well."""
    try:
        with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as file:
            file.write(str(nice))
    except OSError:
        pass  # no autogroups, or no right: more noise, never a wrong figure


class PlacedSession(Session):
    """The data plane's worker on its own processor, its control thread and controld on the others."""

    def _start(self, name, command):
        worker, others = processors()
        if name == "dataplane":  # EAL binds the worker (--lcores) and leaves the other processors to its control threads
            command, nice = placed(command, [worker, *others], WORKER_NICE), WORKER_NICE
        else:
            command, nice = placed(command, others, CONTROL_NICE), CONTROL_NICE
        process = super()._start(name, command)
        set_group_weight(process.pid, nice)
        return process

    def worker_preemptions(self):
        """How often the kernel took the worker off its processor: noise that no data plane can help."""
        worst = 0
        for task in os.listdir(f"/proc/{self.dataplane.pid}/task"):
            with open(f"/proc/{self.dataplane.pid}/task/{task}/status", encoding="ascii") as file:
                fields = dict(line.split(":", 1) for line in file)
            if fields["Cpus_allowed_list"].strip() == str(processors()[0]):
                worst = max(worst, int(fields["nonvoluntary_ctxt_switches"]))
        return worst

    def peak_mib(self):
        """Peak resident memory (VmHWM) of controld."""
        with open(f"/proc/{self.controld.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Tool:
    """A program that prints lines and ends on SIGINT, or when this script is killed."""

    def __init__(self, command, cpus, nice, folder):
        self.name = os.path.basename(command[0])
        self.log = os.path.join(folder, self.name + ".log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(placed(command, cpus, nice), stdin=subprocess.DEVNULL, cwd=folder,
                                            stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
                                            preexec_fn=end_with_parent)
        set_group_weight(self.process.pid, nice)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def line(self, seconds=LINE_SECONDS):
        """The next line; SessionError when there is none in time or the program ended."""
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise SessionError(f"{self.name} printed nothing for {seconds} s") from None
        if line is None:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                raise SessionError(f"{self.name} ended early:\n{tail(file.read())}")
        return line

    def event(self, name, seconds=LINE_SECONDS):
        """The next line, which is {"event": name, ...}."""
        event = json.loads(self.line(seconds))
        if event["event"] != name:
            raise SessionError(f"{self.name}: expected {name}, got {event}")
        return event

    def silent(self):
        return self.lines.empty()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.interrupt()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


def core_clock(build):
    """{"ghz", "ns_per_add"} of the worker's processor, now."""
    command = placed([os.path.join(build, "tests/bench/core_clock")], [processors()[0]], WORKER_NICE)
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
                                     timeout=60).stdout)


def spread(values, digits=3):
    """Median and extremes, for a NOTE."""
    return (f"median of {len(values)}: {statistics.median(values):.{digits}f}"
            f" [{min(values):.{digits}f} .. {max(values):.{digits}f}]")


def plot_anyhow(script, result, name, plots, folder):
    """`script RESULT.json PLOTS`, by this interpreter or the distribution's, the one that python3-matplotlib is for."""
    os.makedirs(plots, exist_ok=True)
    path = os.path.join(folder, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file)
    for interpreter in (sys.executable, "/usr/bin/python3"):
        known = subprocess.run([interpreter, "-c", "import matplotlib"], stderr=subprocess.DEVNULL).returncode == 0
        if known and subprocess.run([interpreter, script, path, plots]).returncode == 0:
            return
    say("bench: no plots: they need python3-matplotlib (scripts/setup bench)")
