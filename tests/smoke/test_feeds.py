"""A feed's file changes in every way: by `reload`, `check` and over restarts nothing is unblocked or blocked without a word.
`feeds --accept` takes a list that shrank, but no file that is not a list. A reload without memory fails alone."""

import os
import resource

import pytest

from weir_smoke import controlctl, events, read, write
import feed_cases

KEPT = "list `fed` keeps its last good content (entries: 1000): "
PAGE = feed_cases.CONTENTS["an error page"]


@pytest.fixture
def feed(session):
    """Path of a feed that controld enforces."""
    path = session.path("fed.txt")
    feed_cases.put(path, feed_cases.RAW)
    feed_cases.write_policy(session.path("fed.yaml"))
    session.start_controld(session.path("fed.yaml"), targets=False)
    return path


def restarted(session, end):
    end("controld")
    session.start_controld(session.path("fed.yaml"), targets=False)


@pytest.mark.timeout(300)
def test_no_change_of_a_feed_is_silent(session):
    results = feed_cases.run(session, print)
    assert len(results) >= 40, "cases that could be made"
    assert [name for name, changed, told, _ in results if changed and not told] == [], "changed verdicts without a word"
    assert [name for name, changed, _, refused in results if changed and refused] == [], "were refused, and changed verdicts"


def test_every_command_says_that_a_feed_is_refused(session, feed):
    feed_cases.put(feed, PAGE)
    answer = controlctl(session, "reload", expect=3)
    assert [one["list"] for one in answer["refused"]] == ["fed"], "refused by reload"
    for command in (("reload",), ("check", session.path("fed.yaml"))):
        code, out, err = session.controlctl(*command)
        assert code == 3 and KEPT in err and "is an HTML page" in err, f"{command}: {code}\n{out}{err}"
        assert "--accept" not in err, f"{command} offers to accept what is no list\n{err}"
    assert "is an HTML page" in session.log("controld"), "the log says so"
    out = session.controlctl("status")[1]
    assert "feed of fed REFUSED" in out and "is an HTML page" in out, out
    out = session.controlctl("feeds")[1]
    assert "REFUSED" in out and "is an HTML page" in out and "--accept" not in out, out


def test_check_compares_with_what_is_enforced(session, feed):
    feed_cases.put(feed, PAGE)
    os.symlink("fed.yaml", session.path("link.yaml"))
    for spelling in (session.path("./fed.yaml"), os.path.relpath(session.path("fed.yaml")), session.path("link.yaml")):
        code, out, err = session.controlctl("check", spelling)
        assert code == 3 and KEPT in err, f"check {spelling}: {code}\n{out}{err}"
    # A policy without a state folder: the command line names that of the policy which runs.
    lines = read(session.path("fed.yaml")).decode().splitlines(keepends=True)
    other = write(session.folder, "next.yaml", "".join(line for line in lines if not line.startswith("state_dir:")))
    code, out, err = session.controlctl("check", other, "--state-dir", session.path("nowhere"))
    assert code == 1 and "feeds are not compared with what is enforced: cannot open " in err, f"{code}\n{out}{err}"
    code, out, err = session.controlctl("check", other, "--state-dir", session.path("controld-state"))
    assert code == 3 and KEPT in err and "is an HTML page" in err, f"{code}\n{out}{err}"


def test_a_refused_feed_keeps_its_content_over_restarts(session, feed):
    good = feed_cases.verdicts(session)
    feed_cases.put(feed, PAGE)
    controlctl(session, "reload", expect=3)
    for end in (session.stop, session.kill):
        restarted(session, end)
        assert feed_cases.verdicts(session) == good, "verdicts after a restart"
        assert session.call("status")["refused"], "status after a restart"
    session.controlctl("feeds", "--accept", "fed")
    assert feed_cases.verdicts(session) == good, "verdicts after a page was to be accepted"


def test_an_accepted_feed_stays_accepted(session, feed):
    good = feed_cases.verdicts(session)
    feed_cases.put(feed, feed_cases.CONTENTS["a third of it"])
    code, out, err = session.controlctl("reload")
    assert code == 3 and "controlctl feeds --accept fed" in err, f"reload of a feed that lost most of its entries: {code}\n{out}{err}"
    code, out, err = session.controlctl("feeds", "--accept", "fed")
    assert code == 0, f"feeds --accept\n{out}{err}"
    assert events(session.log("controld"), "asked for", command="accept fed"), "the log says who accepted the feed"
    accepted = feed_cases.verdicts(session)
    assert accepted != good, "an accepted part of a list blocks less"
    restarted(session, session.kill)
    assert feed_cases.verdicts(session) == accepted, "verdicts after a restart"
    assert controlctl(session, "feeds")["feeds"][0]["state"] == "accepted", "state after a restart"
    feed_cases.put(feed, feed_cases.RAW)
    assert controlctl(session, "reload")["refused"] == [], "refused by reload once the feed is whole again"
    assert controlctl(session, "check", session.path("fed.yaml"))["refused"] == [], "refused by check once the feed is whole again"


@pytest.mark.timeout(300)
def test_a_reload_without_memory_fails_alone(session, feed):
    feed_cases.put(feed, (feed_cases.BASE + feed_cases.others(9 * feed_cases.HOSTS)).encode())
    write(session.folder, "large.txt", feed_cases.others(3_000_000, 20))
    with open(session.path("fed.yaml"), "a", encoding="ascii") as file:
        file.write("  - {name: large, action: drop, file: large.txt}\n")
    pid = session.controld.pid
    used = int(read(f"/proc/{pid}/statm").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    before = feed_cases.verdicts(session)
    _, most = resource.prlimit(pid, resource.RLIMIT_AS)
    resource.prlimit(pid, resource.RLIMIT_AS, (used + (24 << 20), most))
    answer = controlctl(session, "reload", expect=1)
    assert "memory" in answer["error"], answer
    assert feed_cases.verdicts(session) == before, "verdicts after a reload without memory"
    resource.prlimit(pid, resource.RLIMIT_AS, (most, most))
    answer = controlctl(session, "reload")
    assert answer["ok"] and answer["entries"] > 3_000_000, f"a reload with memory: {answer}"
