"""Idle workers: how much of a core they use in each mode. Frames that come after an idle time are all judged, and a reload does not
wait for a worker that sleeps.

The port is net_vhost, which raises receive interrupts; dpdk-testpmd is its guest and sends. net_ring has none: there the
worker sleeps instead. Figures are printed; the tests assert their kind."""

import os
import subprocess
import time

import pytest

from until import Turns, until
from weir_smoke import Memory, controlctl, events, needs_programs, write

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(180)]

POLICY = "version: 1\nlists:\n  - name: nobody\n    action: drop\n    entries: [203.0.113.0/24]\n"
FRAMES = 32 * 4
LITTLE = 0.5  # of a core
MOST_RESTS = {"interrupt": 60, "sleep": 20000}  # a second: one in 20 ms, one in 50 us
GUEST_MIB = 128


def test_a_worker_that_waits_for_a_snapshot_uses_little_of_its_core(session):
    session.start_dataplane("forward: sink\nidle: {mode: pause}\n", ["net_null0"], memory=Memory(4096, 1518))
    start, (ran, _), sleeps = time.monotonic(), schedule(session), sleeps_of(session)
    session.wait("sleeps of the worker", lambda: sleeps_of(session) >= sleeps + 200, turn=0.1)
    use = (schedule(session)[0] - ran) / (time.monotonic() - start)
    print(f"--wait-for-snapshot: {use:.1%} of a core")
    assert use < LITTLE, "use of a core"
    assert session.stop("dataplane") == 0, "the data plane's exit code"


def test_a_worker_that_polls_stops_before_the_first_snapshot(session):
    session.start_dataplane("forward: sink\nidle: {mode: poll}\n", ["net_null0"], memory=Memory(4096, 1518))
    assert session.stop("dataplane") == 0, "the data plane's exit code"


def test_a_worker_sleeps_where_a_port_has_no_interrupts(session):
    start(session, "interrupt", "net_ring0")
    assert worker(session)["idle_mode"] == "sleep", "mode of the worker"
    assert "no receive interrupts" in session.log("dataplane"), "the log does not say that the port has no interrupts"
    check_sleeps(session)
    reload_while_idle(session)
    assert session.stop("dataplane") == 0, "the data plane's exit code"


@needs_programs("dpdk-testpmd")
@pytest.mark.parametrize("mode", ["poll", "pause", "interrupt"])
def test_frames_after_an_idle_time_are_all_judged(session, mode):
    if not Memory(4096 + GUEST_MIB * 512, 1518).huge:  # a vhost guest's memory must be shared
        pytest.skip("memory: not enough free huge pages for a vhost guest")
    start(session, mode, "net_vhost0,iface=vhost.sock")
    with Guest(session) as guest:
        session.wait("the guest", lambda: session.call("telemetry")["targets"][0]["ports"][0]["link_up"])
        assert worker(session)["idle_mode"] == mode, "mode of the worker"
        check_use(session, mode)
        send_after_idle(session, guest)
        check_use(session, mode)
        reload_while_idle(session)
    assert session.stop("dataplane") == 0, "the data plane's exit code"


def start(session, mode, vdev):
    session.start_dataplane(f"forward: hairpin\nidle: {{mode: {mode}}}\n", [vdev], memory=Memory(4096, 1518), extra=())
    session.start_controld(write(session.folder, "weir.yaml", POLICY))
    session.wait_enforced()


def check_use(session, mode):
    if mode == "interrupt":
        check_sleeps(session)
    else:
        assert Use(session).wanted > LITTLE, "use of a core, as far as other programs leave it to a worker that polls"


def send_after_idle(session, guest):
    before = session.stats()["packets"]
    for times in (1, 2, 3):
        pass_time(session, 0.1)
        guest.send()
        session.wait("the frames", lambda times=times: session.stats()["packets"] >= before + times * FRAMES)
    pass_time(session, 0.1)
    stats = session.stats()
    assert stats["packets"] - before == 3 * FRAMES, "frames that came after idle times"
    assert (stats["tx_packets"], stats["rx_missed"]) == (stats["packets"], 0), "frames that were sent back, that were missed"


def reload_while_idle(session):
    answer = controlctl(session, "reload")
    assert answer["ok"], "a reload while the worker is idle"
    grace_us = max(round(1000 * float(fields["grace"].removesuffix("ms")))
                   for _, _, fields in events(session.log("dataplane"), "enforced"))
    print(f"reload acknowledged after {answer['phases']['acknowledge']:.1f} ms, longest grace period {grace_us} us")


def worker(session):
    """The worker in telemetry, as it is now."""
    def fresh():
        target = session.call("telemetry")["targets"][0]
        return target["fresh"] and target["workers"]

    return until("fresh counters of the worker", fresh)[0]


def seconds_between(first, last):
    """By the worker's clock."""
    return (last["taken_cycles"] - first["taken_cycles"]) / last["tsc_hz"]


def pass_time(session, seconds):
    """Until the worker's clock has advanced by so much. Returns the worker before and after."""
    first, found = worker(session), []

    def has_passed():
        found[:] = [worker(session)]
        return seconds_between(first, found[0]) >= seconds

    session.wait(f"{seconds} s of the worker's clock", has_passed, turn=0.05)
    return first, found[0]


def schedule(session):
    """Seconds of the data plane's main thread, which is its worker: on a processor, and waiting for one."""
    with open(f"/proc/{session.dataplane.pid}/schedstat", encoding="ascii") as file:
        return [int(number) / 1e9 for number in file.read().split()[:2]]


def sleeps_of(session):
    """Voluntary context switches of the same thread."""
    with open(f"/proc/{session.dataplane.pid}/task/{session.dataplane.pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))


class Use:
    """The worker's use of a core, when nothing has come for longer than any mode waits before it rests."""

    def __init__(self, session):
        pass_time(session, 0.5)
        ran, waited = schedule(session)
        with Turns() as turns:
            first, last = pass_time(session, 2)
        seconds = seconds_between(first, last)
        ran_then, waited_then = schedule(session)
        self.mode, self.rests = last["idle_mode"], last["rests"] - first["rests"]
        self.rests_s, self.turns_s = self.rests / seconds, turns.seconds
        self.ran = (ran_then - ran) / seconds
        self.wanted = self.ran + (waited_then - waited) / seconds  # with what others had of the core meanwhile
        print(f"{self.mode}: {self.ran:.1%} of a core (wanted {self.wanted:.1%}), {self.rests_s:.0f} rests a second")


def check_sleeps(session):
    """Also when others leave it little of the core: a worker that sleeps rests some times a second, not all the time."""
    use = Use(session)
    assert use.ran < LITTLE, "use of a core"
    assert use.rests_s < MOST_RESTS[use.mode], "rests a second"
    assert use.rests > use.turns_s, "rests, at least one a second while the machine goes on"


class Guest:
    """dpdk-testpmd at the other end of the vhost socket."""

    def __init__(self, session):
        with open(session.path("testpmd.log"), "wb") as log:
            self.process = subprocess.Popen(
                ["dpdk-testpmd", "--lcores", "0@0,1@0", "--no-pci", "--no-telemetry", "--in-memory", "-m", str(GUEST_MIB),
                 "--single-file-segments", "--file-prefix", os.path.basename(session.folder) + "-guest", "--vdev",
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

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.say("quit")
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
