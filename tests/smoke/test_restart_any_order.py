"""controld and the data plane are killed and started in any order. Each goes on alone with the last good policy, and both connect
again."""

import pytest

from weir_smoke import ask_dataplane, controlctl, make_samples, moved, read, read_capture, start_loop, wait_for_traffic, write

pytestmark = pytest.mark.timeout(180)


def generation(session):
    return controlctl(session, "status")["generation"]


def start_controld(session):
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()


def start_dataplane(session):
    start_loop(session, read_capture(session.path("capture.pcap")))


def drops_alone(session, number):
    """The data plane enforces this generation without controld."""
    _, dropped = wait_for_traffic(session)
    assert dropped > 0, "the data plane alone drops nothing"
    assert ask_dataplane(session)[0] == number, "generation of the data plane alone"


def list_drops(session, name):
    _, lists = moved(session)
    assert lists[name]["dropped"] > 0, f"{name} drops nothing"


def controld_starts_with_a_bad_policy(session, good):
    """It publishes the last good one, and says so."""
    first = generation(session)
    session.kill("controld")
    drops_alone(session, first["number"])
    write(session.folder, "weir.yaml", "lists: [nonsense\n")
    start_controld(session)
    status = controlctl(session, "status")
    assert (status["from_last_good"], status["generation"]) == (True, first), "last good and its generation"
    list_drops(session, "scanners")
    write(session.folder, "weir.yaml", good)
    controlctl(session, "reload")
    after = generation(session)
    assert (after["epoch"], after["number"] > first["number"]) == (first["epoch"], True), "generation after a good reload"


def the_data_plane_misses_a_reload(session, newest):
    session.kill("dataplane")
    session.wait("controld to notice", lambda: not controlctl(session, "status")["targets"][0]["connected"])
    write(session.folder, "weir.yaml", newest)
    answer = controlctl(session, "reload", expect=3)
    assert (answer["ok"], answer["targets"][0]["acknowledged"]) == (False, False), "reload without a data plane"
    start_dataplane(session)
    session.wait_enforced()
    assert ask_dataplane(session)[0] == generation(session)["number"], "generation of the data plane after its start"
    list_drops(session, "botnet")


def the_data_plane_starts_first(session):
    """It enforces the snapshot on its disk."""
    newest = generation(session)
    session.kill("controld")
    session.kill("dataplane")
    start_dataplane(session)
    drops_alone(session, newest["number"])
    start_controld(session)
    assert generation(session)["epoch"] == newest["epoch"], "epoch of the state directory"


def controld_starts_first(session):
    session.kill("dataplane")
    session.kill("controld")
    session.start_controld(session.path("weir.yaml"))
    assert not controlctl(session, "status")["targets"][0]["connected"], "controld is connected to a dead data plane"
    start_dataplane(session)
    session.wait_enforced()
    list_drops(session, "botnet")


def test_each_goes_on_alone_and_both_connect_again(session):
    make_samples(session.folder, flows=1000, frames=5000)
    good, newest = (read(session.path(name)).decode() for name in ("weir.yaml", "weir-second.yaml"))
    start_dataplane(session)
    start_controld(session)
    controld_starts_with_a_bad_policy(session, good)
    the_data_plane_misses_a_reload(session, newest)
    the_data_plane_starts_first(session)
    controld_starts_first(session)
    assert (session.stop("dataplane"), session.stop("controld")) == (0, 0), "exit codes of both"
