"""controld and data plane are killed and started again in any order: each goes on alone with the last good policy,
and they find each other again."""

from weir_smoke import (BUILD, Session, ask_dataplane, check, controlctl, equal, make_samples, moved, read,
                        read_capture, start_loop, wait_for_traffic, write)

with Session(BUILD) as session:
    make_samples(session.folder, flows=1000, frames=5000)
    capture = read_capture(session.path("capture.pcap"))
    policy = session.path("weir.yaml")
    good, second = read(policy).decode(), read(session.path("weir-second.yaml")).decode()

    def generation():
        return controlctl(session, "status")["generation"]

    start_loop(session, capture)
    session.start_controld(policy)
    session.wait_enforced()
    first = generation()

    # controld dies: the data plane goes on.
    session.kill("controld")
    _, dropped = wait_for_traffic(session)
    check(dropped > 0, "the data plane drops while controld is dead")
    equal(ask_dataplane(session)[0], first["number"], "generation of the data plane while controld is dead")

    # It returns with a policy that cannot be read: it publishes the last good one, and says so.
    write(session.folder, "weir.yaml", "lists: [nonsense\n")
    session.start_controld(policy)
    session.wait_enforced()
    status = controlctl(session, "status")
    equal((status["from_last_good"], status["generation"]), (True, first), "last good and its generation")
    _, lists = moved(session)
    check(lists["scanners"]["dropped"] > 0, "scanners of the last good policy drops")
    write(session.folder, "weir.yaml", good)
    controlctl(session, "reload")
    after_reload = generation()
    equal((after_reload["epoch"], after_reload["number"] > first["number"]), (first["epoch"], True), "next generation")

    # The data plane dies: controld goes on, and the next reload says who did not get it.
    session.kill("dataplane")
    session.wait("controld to notice", lambda: not controlctl(session, "status")["targets"][0]["connected"])
    write(session.folder, "weir.yaml", second)
    answer = controlctl(session, "reload", expect=3)
    equal((answer["ok"], answer["targets"][0]["acknowledged"]), (False, False), "reload without a data plane")

    # It returns and gets the newest.
    start_loop(session, capture)
    session.wait_enforced()
    equal(ask_dataplane(session)[0], generation()["number"], "generation of the data plane that returned")
    _, lists = moved(session)
    check(lists["botnet"]["dropped"] > 0, "botnet of the newest policy drops")
    newest = generation()

    # Both die. The data plane returns alone and enforces what it has on disk.
    session.kill("controld")
    session.kill("dataplane")
    start_loop(session, capture)
    _, dropped = wait_for_traffic(session)
    check(dropped > 0, "the data plane drops with controld still dead")
    equal(ask_dataplane(session)[0], newest["number"], "generation of the data plane alone")
    session.start_controld(policy)
    session.wait_enforced()
    equal(generation()["epoch"], newest["epoch"], "epoch of the state directory")

    # Both die. controld returns alone and answers; the data plane follows.
    session.kill("dataplane")
    session.kill("controld")
    session.start_controld(policy)
    check(not controlctl(session, "status")["targets"][0]["connected"], "controld alone answers")
    start_loop(session, capture)
    session.wait_enforced()
    _, lists = moved(session)
    check(lists["botnet"]["dropped"] > 0, "botnet drops after all that")
    equal((session.stop("dataplane"), session.stop("controld")), (0, 0), "exit codes of both")
