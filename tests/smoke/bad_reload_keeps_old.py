"""A reload of a wrong policy: exit code 1 and the diagnostic; the running generation keeps enforcing as before."""

from weir_smoke import (BUILD, Session, check, controlctl, equal, make_samples, moved, read, read_capture, start_loop,
                        write)

LIST = "version: 1\nlists:\n  - {{name: bad, action: drop, {0}}}\n"
WRONG = {
    "no YAML": ("lists: [nonsense\n", "weir.yaml:"),
    "an unknown key": (LIST.format("entrys: [198.18.0.1]"), "weir.yaml:3:"),
    "an entry that cannot be": (LIST.format("entries: [198.18.0.1/33]"), "weir.yaml:3:"),
    "a pattern of no file": (LIST.format("file: feeds/*.none"), "stands for no file"),
    "a feed that is not there": (LIST.format("file: feeds/none.txt"), "feeds/none.txt"),
    "a canary that would drop": ("version: 1\nfilter: {canaries: [198.18.0.1]}\nlists:\n"
                                 "  - {name: bad, action: drop, entries: [198.18.0.0/24]}\n", "198.18.0.1"),
    "more memory than allowed": ("version: 1\nfilter: {memory: 4KiB}\nlists:\n"
                                 "  - {name: bad, action: drop, entries: [198.18.0.0/24]}\n", "memory"),
}

with Session(BUILD) as session:
    make_samples(session.folder, flows=1000, frames=5000)
    good = read(session.path("weir.yaml")).decode()
    start_loop(session, read_capture(session.path("capture.pcap")))
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    generation = session.stats()["generation"]

    for what, (policy, expected) in WRONG.items():
        write(session.folder, "weir.yaml", policy)
        code, out, err = session.controlctl("reload")
        equal(code, 1, f"{what}: exit code of controlctl reload\n{out}{err}")
        check(expected in out + err, f"{what}: '{expected}' is not in the answer:\n{out}{err}")
        check(not controlctl(session, "reload", expect=1)["ok"], f"{what}: the JSON says ok")
        equal(session.stats()["generation"], generation, f"{what}: generation")
        totals, lists = moved(session)
        check(lists["scanners"]["dropped"] > 0 and lists["partners"]["passed"] > 0, f"{what}: old verdicts")
        check("bad" not in lists, f"{what}: the wrong policy's list is not there")

    write(session.folder, "weir.yaml", good)
    answer = controlctl(session, "reload")
    check(answer["generation"]["number"] > generation["number"], f"the mended policy is published: {answer}")
