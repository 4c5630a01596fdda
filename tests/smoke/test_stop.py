"""SIGTERM ends controld and the data plane in good order: also during a start, a reload or a publication that never ends, and with
every mbuf back in its pool."""

import contextlib
import os
import re
import signal

import pytest

from weir_smoke import (BUILD, Memory, held_at, launch_controld, make_samples, moved, pause, read_capture, start_loop, write)
import held_threads
import panic_rig
from evidence import programs_of
from fault_rig import Switch
from until import until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def switch(session):
    """Holds controld where the test wants it. A data plane under traffic waits for controld."""
    make_samples(session.folder, flows=1000, frames=5000)
    start_loop(session, read_capture(session.path("capture.pcap")))
    one = Switch(session.path("controld.faults"))
    session.environment = one.environment(BUILD)
    return one


def write_policy(session, number):
    """Another one each time, with a feed of its own: controld watches feeds, and would begin with a changed one by itself."""
    write(session.folder, f"feed-{number}.txt", "".join(f"20.{i >> 8 & 255}.{i & 255}.{number}\n" for i in range(1000)))
    return write(session.folder, "policy.yaml", "version: 1\nlists:\n  - {name: feed, action: drop, "
                                                f"match: {('src', 'dst')[number % 2]}, file: feed-{number}.txt}}\n")


def start_with_policy(session):
    session.start_controld(write_policy(session, 1))
    session.wait_enforced()


def begin_reload(session):
    write_policy(session, 2)
    return panic_rig.controlctl(session, "reload")


def phase(session):
    return session.call("status").get("reloading", "")


@contextlib.contextmanager
def reads_for_ever(session, switch, begin):
    """The process that parses does not run while controld waits for it."""
    with contextlib.ExitStack() as stack:
        with held_at(session, switch, "open", "feed", begin) as begun:
            for pid in programs_of([session.controld.pid])[1:]:
                with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # one that has parsed already ends meanwhile
                    pause(pid)
                stack.callback(kill, pid)
        assert phase(session) == "read", "the phase when the feed is to be parsed"
        yield begun


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def gives_up_and_ends(session, name, reap=lambda: None):
    """reap: the caller's part in the end of a process whose thread it holds."""
    process = getattr(session, name)
    said = len(session.log(name))
    process.terminate()

    def has_ended():
        reap()
        return process.poll() is not None

    until(f"the end of {name}", has_ended)
    setattr(session, name, None)
    assert process.returncode == 0, f"exit code of {name}"
    assert "given up" in session.log(name)[said:], f"{name} does not say that it gave up:\n{session.log(name)[said:]}"


def test_controld_ends_during_a_start_that_reads_for_ever(session, switch):
    policy = write_policy(session, 1)
    with reads_for_ever(session, switch, lambda: launch_controld(session, policy)):
        gives_up_and_ends(session, "controld")


def test_controld_ends_during_a_reload_that_reads_for_ever(session, switch):
    start_with_policy(session)
    with reads_for_ever(session, switch, lambda: begin_reload(session)) as process:
        gives_up_and_ends(session, "controld")
    process.communicate()


def test_controld_ends_during_a_reload_that_compiles_for_ever(session, switch):
    start_with_policy(session)
    with held_at(session, switch, "memfd", "snapshot", lambda: begin_reload(session)) as process:
        assert phase(session) not in ("", "read"), "the reload is held before it compiles"
        gives_up_and_ends(session, "controld")
    process.communicate()


def test_the_data_plane_ends_during_a_publication_that_never_ends(session, switch):
    try:
        with held_threads.held(session.dataplane.pid):
            pass
    except OSError as reason:
        pytest.skip(f"kernel: {reason}")
    start_with_policy(session)
    publisher, = [task for task, name in held_threads.threads(session.dataplane).items() if name == "weir-publish"]
    with held_threads.held(publisher) as held:
        process = begin_reload(session)
        session.wait("the publication", lambda: phase(session) == "acknowledge")
        gives_up_and_ends(session, "dataplane", held.reap)
    process.communicate()
    assert session.stop("controld") == 0, "exit code of controld"


def all_returned(session):
    """The data plane's log, which says that every mbuf is back."""
    assert session.stop("dataplane") == 0, "exit code of the data plane"
    log = session.log("dataplane")
    assert re.search(r"^[1-9]\d* mbufs, all returned$", log, re.M), f"mbufs are not all returned:\n{log}"
    return log


@pytest.mark.parametrize(("workers", "has_policy"), ((1, True), (2, True), (1, False)), ids=("1-worker", "2-workers", "no-policy"))
def test_a_stop_in_mid_traffic_returns_every_mbuf(session, workers, has_policy):
    make_samples(session.folder, flows=1000, frames=5000)
    start_loop(session, read_capture(session.path("capture.pcap")), workers)
    if has_policy:
        session.start_controld(session.path("weir.yaml"))
        session.wait_enforced()
        moved(session)
        assert session.stop("controld") == 0, "exit code of controld"
    received = int(re.search(r"^ *packets +(\d+)$", all_returned(session), re.M).group(1))
    assert (received > 0) == has_policy, "received frames"


def test_a_stop_returns_every_mbuf_of_a_ring(session):
    """The port is a queue of the data plane's own process."""
    make_samples(session.folder, flows=100, frames=500)
    capture = session.path("capture.pcap")
    session.start_dataplane("forward: pair", [f"net_pcap0,rx_pcap={capture},infinite_rx=1", "net_ring0"],
                            memory=Memory(8192, read_capture(capture).longest()))
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    moved(session)
    all_returned(session)
