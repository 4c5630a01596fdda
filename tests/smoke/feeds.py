"""Whatever becomes of a feed's file: nothing is unblocked or blocked without a word, by `reload`, `check` and over
restarts; `feeds --accept` takes a list all the same, but not what is none. A reload for which there is no memory fails alone."""

import os
import resource

from weir_smoke import BUILD, Session, check, controlctl, equal, events  # isort: skip (it names tests/rig)
import feed_cases

with Session(BUILD) as session:
    results = feed_cases.run(session, print)
    check(len(results) >= 40, f"only {len(results)} cases could be made")
    silent = [name for name, changed, told, _ in results if changed and not told]
    equal(silent, [], "changes of a feed that changed verdicts without a word")
    wrong = [name for name, changed, _, refused in results if changed and refused]
    equal(wrong, [], "feeds that were refused, and changed verdicts all the same")

    # By controlctl, over a restart, and what is accepted stays so.
    feed = session.path("fed.txt")
    good = feed_cases.verdicts(session)
    feed_cases.put(feed, feed_cases.CONTENTS["an error page"])
    answer = controlctl(session, "reload", expect=3)
    equal([one["list"] for one in answer["refused"]], ["fed"], "refused by reload")
    code, out, err = session.controlctl("reload")
    equal(code, 3, f"reload of a refused feed\n{out}{err}")
    check("list `fed` keeps its last good content (entries: 1000): " in err and "is an HTML page" in err, err)
    check("--accept" not in err, f"what is no list is offered to be accepted\n{err}")
    check("is an HTML page" in session.log("controld"), "the log says so")
    code, out, err = session.controlctl("check", session.path("fed.yaml"))
    equal(code, 3, f"check of a refused feed\n{out}{err}")
    check("list `fed` keeps its last good content (entries: 1000): " in err and "is an HTML page" in err, err)
    # The same policy by other paths.
    os.symlink("fed.yaml", session.path("link.yaml"))
    for spelling in (session.path("./fed.yaml"), os.path.relpath(session.path("fed.yaml")), session.path("link.yaml")):
        code, out, err = session.controlctl("check", spelling)
        equal(code, 3, f"check of a refused feed by {spelling}\n{out}{err}")
        check("list `fed` keeps its last good content (entries: 1000): " in err, err)
    # A policy that is to take the place of this one, beside what this one made.
    with open(session.path("fed.yaml"), encoding="ascii") as file, open(session.path("next.yaml"), "w", encoding="ascii") as copy:
        copy.writelines(line for line in file if not line.startswith("state_dir:"))
    code, out, err = session.controlctl("check", session.path("next.yaml"), "--state-dir", session.path("nowhere"))
    equal(code, 1, f"check of a feed that never was good\n{out}{err}")
    check("feeds are not compared with what is enforced: cannot open " in err, err)
    code, out, err = session.controlctl("check", session.path("next.yaml"), "--state-dir", session.path("controld-state"))
    equal(code, 3, f"check of another policy beside what is enforced\n{out}{err}")
    check("list `fed` keeps its last good content (entries: 1000): " in err and "is an HTML page" in err, err)
    code, out, err = session.controlctl("status")
    check("feed of fed REFUSED" in out and "is an HTML page" in out, out)
    code, out, err = session.controlctl("feeds")
    check("REFUSED" in out and "is an HTML page" in out and "--accept" not in out, out)
    for kill in (session.stop, session.kill):
        kill("controld")
        session.start_controld(session.path("fed.yaml"), targets=False)
        equal(feed_cases.verdicts(session), good, "verdicts after a restart")
        check(session.call("status")["refused"], "status after a restart")
    session.controlctl("feeds", "--accept", "fed")
    equal(feed_cases.verdicts(session), good, "verdicts after a page was to be accepted")
    feed_cases.put(feed, feed_cases.CONTENTS["a third of it"])
    code, out, err = session.controlctl("reload")
    equal(code, 3, f"reload of a feed that lost most of its entries\n{out}{err}")
    check("controlctl feeds --accept fed" in err, err)
    code, out, err = session.controlctl("feeds", "--accept", "fed")
    equal(code, 0, f"feeds --accept\n{out}{err}")
    empty = feed_cases.verdicts(session)
    check(events(session.log("controld"), "asked for", command="accept fed"), "the log says who accepted what")
    check(empty != good, "an accepted part of a list blocks less")
    session.kill("controld")
    session.start_controld(session.path("fed.yaml"), targets=False)
    equal(feed_cases.verdicts(session), empty, "verdicts of an accepted feed after a restart")
    equal(controlctl(session, "feeds")["feeds"][0]["state"], "accepted", "state after a restart")
    feed_cases.put(feed, feed_cases.RAW)
    equal(controlctl(session, "reload")["refused"], [], "refused once it is mended")
    equal(controlctl(session, "check", session.path("fed.yaml"))["refused"], [], "refused by check once it is mended")

    # No memory for a reload: what is enforced stays, and the next one works.
    with open(feed, "w", encoding="ascii") as file:
        file.write(feed_cases.BASE + feed_cases.others(9 * feed_cases.HOSTS))
    with open(session.path("large.txt"), "w", encoding="ascii") as file:
        file.write(feed_cases.others(3_000_000, 20))
    with open(session.path("fed.yaml"), "a", encoding="ascii") as file:
        file.write("  - {name: large, action: drop, file: large.txt}\n")
    pid = session.controld.pid
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    before = feed_cases.verdicts(session)
    _, most = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (used + (24 << 20), most))
    answer = controlctl(session, "reload", expect=1)
    check("memory" in answer["error"], f"a reload without memory: {answer}")
    equal(feed_cases.verdicts(session), before, "verdicts after a reload without memory")
    resource.prlimit(pid, resource.RLIMIT_AS, (most, most))
    answer = controlctl(session, "reload")
    check(answer["ok"] and answer["entries"] > 3_000_000, f"a reload with memory: {answer}")
print(f"{len(results)} changes of a feed")
