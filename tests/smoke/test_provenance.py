"""Why was it dropped yesterday? Entries of policies, feeds and `add`: their lines, authors and times, over reloads, a rollback and a
restart. controld says what it cannot tell any more."""

import json
import os
import time

import pytest

from weir_smoke import BUILD, controlctl, make_samples, read_capture, start_loop, write

POLICY = """version: 1
history: {{keep: 1h, size: 20MiB}}
lists:
  - {{name: vips, action: pass, entries: [192.0.2.200]}}
  - {{name: bans, action: drop, dynamic: true}}
  - name: files
    action: drop
    file: feed.txt
    entries:
      - {{entry: 198.51.100.0/24, comment: ticket 12}}
{more}  - {{name: table, action: drop, file: table.csv, format: csv}}
"""
MORE = "      - {entry: 192.0.2.77, comment: new}\n"
FEED = "# made by hand\n203.0.113.1 ; SBL1\n203.0.113.2 ; SBL2\n203.0.113.16/28 ; SBL3\n"
OTHER_FEED = "203.0.113.2 ; other\n203.0.113.16/28 ; SBL3\n"
FRAME = "0200000000010200000000020800" "4500001c0000000040110000c000024dc00002010035003500080000"  # UDP from 192.0.2.77


def explain(session, key, *options):
    return controlctl(session, "explain", *([key] if key else []), *options)


def explain_then(session, key, generation, *options):
    return explain(session, key, "--generation", str(generation), *options)


def verdict(answer):
    return answer["as_source"]["action"], answer["as_source"].get("reason")


def origin(answer, listed, entry):
    found = [one for one in answer["origins"] if (one["list"], one["entry"]) == (listed, entry)]
    assert len(found) == 1, f"one entry {entry} of {listed}: {json.dumps(answer)}"
    return found[0]


def since_until(one):
    """Numbers of the generations; None: the entry is still there."""
    provenance = one["provenance"]
    return provenance["since"]["generation"], provenance.get("until", {}).get("generation")


def number(session):
    return session.call("status")["generation"]["number"]


def write_policy(session, more=""):
    return write(session.folder, "policy.yaml", POLICY.format(more=more))


def reload(session):
    """The generation's number."""
    controlctl(session, "reload")
    return number(session)


def restart(session):
    session.stop("controld")
    session.start_controld(session.path("policy.yaml"))
    session.wait_enforced()


@pytest.fixture
def first(session, clock, monkeypatch):
    """The number of the first generation. Every program of the test has the clock."""
    for name, value in clock.environment(BUILD).items():
        monkeypatch.setenv(name, value)
    make_samples(session.folder, flows=100, frames=1000)
    write(session.folder, "feed.txt", FEED)
    write(session.folder, "table.csv", "ip,ticket,source\n203.0.113.1,T-7,honeypot\n203.0.113.40,T-8,spam trap\n")
    start_loop(session, read_capture(session.path("capture.pcap")))
    session.start_controld(write_policy(session))
    session.wait_enforced()
    return number(session)


def test_explain_names_lines_columns_and_comments(session, first):
    answer = explain(session, "203.0.113.1")
    assert verdict(answer) == ("drop", "files"), "verdict"
    feed = origin(answer, "files", "203.0.113.1")
    assert (feed["line"], feed["comment"], feed["provenance"]["text"]) == (2, "SBL1", "203.0.113.1 ; SBL1"), "a line of a feed"
    assert since_until(feed) == (first, None), "generations of the line"
    taken = feed["provenance"]["feed"]
    assert int(os.stat(session.path("feed.txt")).st_mtime) <= taken["taken_at"] <= time.time() and taken["from"] == "feed.txt", taken
    row = origin(answer, "table", "203.0.113.1")
    assert {column["name"]: column["value"] for column in row["provenance"]["columns"]} == {
        "ip": "203.0.113.1", "ticket": "T-7", "source": "honeypot"}, "columns of a table"
    written = origin(explain(session, "198.51.100.7"), "files", "198.51.100.0/24")
    assert (written["comment"], written["provenance"]["text"]) == ("ticket 12", "- {entry: 198.51.100.0/24, comment: ticket 12}"), (
        "a line of the policy")
    packet = explain(session, "src 198.51.100.7 dst 192.0.2.9 proto tcp dport 80")
    assert packet["verdict"]["because"]["comment"] == "ticket 12", "verdict of a packet"


def test_explain_names_author_and_end_of_a_ban(session, first, clock):
    def change(*arguments):
        controlctl(session, *arguments, "--list", "bans")
        return number(session)

    added = change("add", "203.0.113.99", "--comment", "brute force")
    renewed = change("add", "203.0.113.99", "--ttl", "30m", "--comment", "again")
    brief = change("add", "203.0.113.98", "--ttl", "1m")
    clock.pass_time(61)
    deleted = change("del", "203.0.113.99")
    for generation, comment in ((added, "brute force"), (renewed, "again")):
        answer = explain_then(session, "203.0.113.99", generation)
        assert (answer["generation"]["number"], *verdict(answer)) == (generation, "drop", "bans"), "verdict then"
        ban = answer["origins"][0]
        assert (ban["comment"], ban["provenance"]["added_by"]) == (comment, os.getuid()), f"the ban in generation {generation}"
        assert (*since_until(ban), ban["provenance"]["until"]["cause"]) == (added, deleted, "del"), f"the ban in generation {generation}"
    for generation in (first, deleted):
        answer = explain_then(session, "203.0.113.99", generation)
        assert (answer["as_source"]["action"], answer["origins"]) == ("pass", []), f"verdict in generation {generation}"
    ban = explain_then(session, "203.0.113.98", brief)["origins"][0]
    assert ban["provenance"]["until"]["cause"] == "expired", "cause of the end of an entry with a ttl"
    restart(session)
    code, out, err = session.controlctl("explain", "203.0.113.99", "--generation", str(added))
    assert code == 0 and "brute force" in out and f"generation {deleted}" in out and "until" in out, out + err


def test_explain_tells_lines_that_a_feed_no_longer_has(session, first):
    controlctl(session, "add", "203.0.113.99", "--list", "bans")
    controlctl(session, "del", "203.0.113.99", "--list", "bans")
    deleted = number(session)
    write(session.folder, "feed.txt", OTHER_FEED)
    session.wait("the feed to be taken", lambda: number(session) > deleted)
    taken = number(session)
    assert verdict(explain(session, "203.0.113.1"))[1] == "table", "only the table still has the address"
    then = explain_then(session, "203.0.113.1", deleted)
    assert (verdict(then)[1], then["then"]["cause"], then["then"]["by"]) == ("files", "del", os.getuid()), "verdict then"
    feed = origin(then, "files", "203.0.113.1")
    assert (feed["line"], feed["provenance"]["text"], *since_until(feed)) == (2, "203.0.113.1 ; SBL1", first, taken), "a removed line"
    moved = origin(explain(session, "203.0.113.17"), "files", "203.0.113.16/28")
    assert (moved["line"], *since_until(moved), moved["provenance"]["or_before"]) == (2, first, None, True), "a line that moved"
    changed = explain_then(session, "203.0.113.2", first)
    assert changed["origins"][0]["provenance"]["text"] == "203.0.113.2 ; SBL2", "the line as it was written then"
    write_policy(session, MORE)  # the entry moves by a line
    reload(session)
    entry = origin(explain(session, "198.51.100.7"), "files", "198.51.100.0/24")
    assert (entry["comment"], *since_until(entry)) == ("ticket 12", first, None), "an entry of the policy that moved"
    restart(session)
    then = explain_then(session, "203.0.113.1", deleted)
    assert origin(then, "files", "203.0.113.1")["provenance"]["text"] == "203.0.113.1 ; SBL1", "after a restart"


def test_explain_takes_a_time_a_packet_and_a_frame_of_the_past(session, first, clock):
    controlctl(session, "add", "203.0.113.99", "--list", "bans")
    added = number(session)
    write_policy(session, MORE)
    second = reload(session)
    clock.pass_time(1200)
    write_policy(session)
    third = reload(session)
    assert explain(session, "192.0.2.77", "--at", "10m")["generation"]["number"] == second, "10 minutes ago"
    published = controlctl(session, "history")["generations"][0]["at"]
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(published - 1))
    answer = explain(session, "src 192.0.2.77 dst 192.0.2.1", "--at", stamp)
    assert (answer["generation"]["number"], answer["verdict"]["because"]["comment"]) == (second, "new"), "a packet, at a time"
    answer = explain(session, None, "--packet", FRAME, "--generation", str(second))
    assert answer["verdict"]["action"] == "drop", "verdict of a frame then"
    assert since_until(answer["layers"][0]["origins"][0])[1] == third, "a frame then"
    verbose = explain_then(session, "192.0.2.77", second, "--verbose")
    assert any(probe["rule"] != 0 for probe in verbose["probes"]), f"probes of the snapshot of then: {json.dumps(verbose)}"
    assert "no snapshot is kept" in explain_then(session, "192.0.2.77", added, "--verbose")["notice"], "a generation without a snapshot"

    controlctl(session, "rollback", str(second))
    again = origin(explain(session, "192.0.2.77"), "files", "192.0.2.77")
    assert again["provenance"]["since"]["generation"] == number(session), "since the rollback"
    assert since_until(origin(explain_then(session, "192.0.2.77", second), "files", "192.0.2.77"))[1] == third, "before the rollback"


def test_explain_says_what_it_cannot_tell(session, first):
    for options, error in ((["--generation", "123456"], "nothing is kept of generation 123456: what is kept begins with generation"),
                           (["--at", "2001-01-01T00:00:00Z"], "nothing is kept of 2001-01-01T00:00:00Z"),
                           (["--at", "2037-01-01T00:00:00Z"], "still to come"), (["--at", "yesterday"], "must be a time like")):
        code, out, err = session.controlctl("explain", "203.0.113.1", *options)
        assert code in (1, 2) and error in err, f"{options}: {code} {out}{err}"
    write_policy(session, MORE)
    reload(session)
    with open(session.path(f"controld-state/history/{first}.book"), "r+b") as file:
        file.seek(40)
        file.write(b"damaged!")
    restart(session)
    code, out, err = session.controlctl("explain", "203.0.113.1", "--generation", str(first))
    assert code == 1 and "damaged" in err, f"a damaged book: {code} {out}{err}"
    assert verdict(explain(session, "203.0.113.40"))[1] == "table", "the generation that runs is told all the same"
    assert (session.stop("dataplane"), session.stop("controld")) == (0, 0), "exit codes of both"
