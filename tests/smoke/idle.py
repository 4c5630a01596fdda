"""Idle workers: how much of a core they use in each mode, that what comes after an idle time is all judged, and that a
reload does not wait for a worker that sleeps.

The port is net_vhost, which raises receive interrupts; dpdk-testpmd is its guest and sends. net_null has none: there the
worker sleeps instead. Figures are printed; what is asserted is their kind."""

import os
import shutil
import subprocess
import time

from weir_smoke import BUILD, Memory, Session, check, controlctl, equal, events, skip, write

POLICY = "version: 1\nlists:\n  - name: nobody\n    action: drop\n    entries: [203.0.113.0/24]\n"
FRAMES = 32 * 4
LITTLE = 0.5  # of a core
GUEST_MIB = 128


class Use:
    """What the data plane's main thread, which is its worker, took of a core in so many seconds."""

    def __init__(self, session, seconds=2):
        start, ran, waited = time.monotonic(), *self.times(session)
        time.sleep(seconds)
        elapsed, ran_then, waited_then = time.monotonic() - start, *self.times(session)
        self.ran = (ran_then - ran) / 1e9 / elapsed
        self.wanted = self.ran + (waited_then - waited) / 1e9 / elapsed  # with what others had of the core meanwhile

    @staticmethod
    def times(session):
        with open(f"/proc/{session.dataplane.pid}/schedstat", encoding="ascii") as file:
            return [int(number) for number in file.read().split()[:2]]  # ns on the processor, ns in its queue

    def __str__(self):
        return f"{self.ran:.1%} of a core (wanted {self.wanted:.1%})"


def worker(session):
    """As it is now."""
    answers = []

    def fresh():
        answers.append(session.call("telemetry")["targets"][0])
        return answers[-1]["fresh"] and answers[-1]["workers"]

    session.wait("fresh counters of the worker", fresh)
    return answers[-1]["workers"][0]


def check_sleeps(session, use):
    """Also when others leave it little of the core: a worker that sleeps rests some times a second, not all the time."""
    check(use.ran < LITTLE, f"a worker that sleeps uses little of its core: {use}")
    before = worker(session)
    time.sleep(1)
    after = worker(session)
    seconds = (after["taken_cycles"] - before["taken_cycles"]) / after["tsc_hz"]
    rests = (after["rests"] - before["rests"]) / seconds
    most = 60 if after["idle_mode"] == "interrupt" else 20000  # one in 20 ms, one in 50 us
    check(1 < rests < most, f"rests a second: {rests}, at most {most}")


class Guest:
    """dpdk-testpmd at the other end of the vhost socket."""

    def __init__(self, session):
        self.session = session
        with open(session.path("testpmd.log"), "wb") as log:
            self.process = subprocess.Popen(
                [testpmd, "--lcores", "0@0,1@0", "--no-pci", "--no-telemetry", "--in-memory", "-m", str(GUEST_MIB),
                 "--single-file-segments", "--file-prefix",
                 os.path.basename(session.folder) + "-guest", "--vdev",
                 f"net_virtio_user0,path={session.path('vhost.sock')},mac=02:00:00:00:00:01", "--",
                 "-i", "--total-num-mbufs=4096", "--no-lsc-interrupt"],
                stdin=subprocess.PIPE, stdout=log, stderr=log, env=dict(os.environ, RUNTIME_DIRECTORY=session.folder))
        session.wait("testpmd", lambda: "testpmd>" in session.log("testpmd"))
        self.say("set fwd rxonly")

    def say(self, *commands):
        self.process.stdin.write(("\n".join(commands) + "\n").encode())
        self.process.stdin.flush()

    def send(self):
        """FRAMES frames at once."""
        self.say(f"start tx_first {FRAMES // 32}", "stop")

    def end(self):
        self.say("quit")
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(session, mode, vdev):
    session.start_dataplane(f"forward: hairpin\nidle: {{mode: {mode}}}\n", [vdev], memory=Memory(4096, 1518), extra=())
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    time.sleep(0.5)  # nothing has come for longer than any mode waits before it rests


def send_after_idle(session, guest, times=3):
    for _ in range(times):
        before = session.stats()["packets"]
        guest.send()
        session.wait("the frames", lambda: session.stats()["packets"] >= before + FRAMES, 60)
        equal(session.stats()["packets"] - before, FRAMES, "frames that came after an idle time")
        time.sleep(0.3)
    stats = session.stats()
    equal((stats["tx_packets"], stats["rx_missed"]), (stats["packets"], 0), "sent back, missed")


def with_guest(mode):
    with Session(BUILD) as session:
        write(session.folder, "weir.yaml", POLICY)
        start(session, mode, "net_vhost0,iface=vhost.sock")
        guest = Guest(session)
        try:
            session.wait("the guest", lambda: session.call("telemetry")["targets"][0]["ports"][0]["link_up"])
            time.sleep(0.5)
            equal(worker(session)["idle_mode"], mode, "what the worker does")
            before = Use(session)
            send_after_idle(session, guest)
            after = Use(session)
            print(f"net_vhost, {mode}: {before}; after traffic {after}", flush=True)
            if mode == "interrupt":
                check_sleeps(session, before)
                check_sleeps(session, after)
            else:
                check(before.wanted > LITTLE, f"a worker that polls wants its core: {before}")
            reload_while_idle(session)
        finally:
            guest.end()
        equal(session.stop("dataplane"), 0, "the data plane stops")


def reload_while_idle(session):
    answer = controlctl(session, "reload")
    check(answer["ok"], "a reload while the worker is idle")
    grace_us = max(round(1000 * float(fields["grace"].removesuffix("ms")))
                   for _, _, fields in events(session.log("dataplane"), "enforced"))
    print(f"  reload acknowledged after {answer['phases']['acknowledge']:.1f} ms, longest grace period {grace_us} us",
          flush=True)


def without_interrupts():
    with Session(BUILD) as session:
        write(session.folder, "weir.yaml", POLICY)
        start(session, "interrupt", "net_ring0")
        equal(worker(session)["idle_mode"], "sleep", "what the worker does")
        check("no receive interrupts" in session.log("dataplane"), "it says that the port has no interrupts")
        use = Use(session)
        print(f"net_ring, interrupt, which it has not: {use}", flush=True)
        check_sleeps(session, use)
        reload_while_idle(session)
        equal(session.stop("dataplane"), 0, "the data plane stops")


def before_the_first_snapshot():
    for mode in ("pause", "poll"):
        with Session(BUILD) as session:
            session.start_dataplane(f"forward: sink\nidle: {{mode: {mode}}}\n", ["net_null0"], memory=Memory(4096, 1518))
            use = Use(session, 1)
            print(f"--wait-for-snapshot, {mode}: {use}", flush=True)
            if mode == "pause":
                check(use.ran < LITTLE, f"a worker that waits for a snapshot uses little of its core: {use}")
            equal(session.stop("dataplane"), 0, "the data plane stops")


testpmd = shutil.which("dpdk-testpmd")
before_the_first_snapshot()
without_interrupts()
if not testpmd:
    skip("package: no dpdk-testpmd (package dpdk-dev): interrupts were not tried")
if not Memory(4096 + GUEST_MIB * 512, 1518).huge:  # a vhost guest's memory must be shared
    skip("memory: not enough free huge pages for a vhost guest: interrupts were not tried")
for each in ("poll", "pause", "interrupt"):
    with_guest(each)
