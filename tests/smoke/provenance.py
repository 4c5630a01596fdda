"""Why was it dropped yesterday? Entries of policies, feeds and `add`: their lines, who and when, over reloads, a rollback and a
restart; and what cannot be told any more is said."""

import json
import os
import time

from weir_smoke import BUILD, Session, check, controlctl, equal, make_samples, read_capture, start_loop, write
from until import until

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


def explain(session, key, *options):
    return controlctl(session, "explain", *([key] if key else []), *options)


def origin(answer, listed, entry):
    found = [one for one in answer["origins"] if (one["list"], one["entry"]) == (listed, entry)]
    check(len(found) == 1, f"one entry {entry} of {listed}: {json.dumps(answer)}")
    return found[0]


def number(session):
    return session.call("status")["generation"]["number"]


with Session(BUILD) as session:
    make_samples(session.folder, flows=100, frames=1000)
    write(session.folder, "feed.txt", "# made by hand\n203.0.113.1 ; SBL1\n203.0.113.2 ; SBL2\n203.0.113.16/28 ; SBL3\n")
    write(session.folder, "table.csv", "ip,ticket,source\n203.0.113.1,T-7,honeypot\n203.0.113.40,T-8,spam trap\n")
    policy = write(session.folder, "policy.yaml", POLICY.format(more=""))
    start_loop(session, read_capture(session.path("capture.pcap")))
    session.start_controld(policy)
    session.wait_enforced()
    first = number(session)
    begin = time.time()

    # What runs: the line, its feed, its comment, since when.
    answer = explain(session, "203.0.113.1")
    equal((answer["as_source"]["action"], answer["as_source"]["reason"]), ("drop", "files"), "verdict now")
    feed = origin(answer, "files", "203.0.113.1")
    equal((feed["line"], feed["comment"], feed["provenance"]["text"]), (2, "SBL1", "203.0.113.1 ; SBL1"), "a line of a feed")
    equal((feed["provenance"]["since"]["generation"], feed["provenance"].get("until")), (first, None), "since when")
    check(abs(feed["provenance"]["feed"]["taken_at"] - begin) < 60 and feed["provenance"]["feed"]["from"] == "feed.txt", str(feed))
    row = origin(answer, "table", "203.0.113.1")
    equal({c["name"]: c["value"] for c in row["provenance"]["columns"]},
          {"ip": "203.0.113.1", "ticket": "T-7", "source": "honeypot"}, "columns of a table")
    written = origin(explain(session, "198.51.100.7"), "files", "198.51.100.0/24")
    equal((written["comment"], written["provenance"]["text"]), ("ticket 12", "- {entry: 198.51.100.0/24, comment: ticket 12}"),
          "a line of the policy")
    equal(explain(session, "src 198.51.100.7 dst 192.0.2.9 proto tcp dport 80")["verdict"]["because"]["comment"], "ticket 12",
          "a packet's")

    # Added, renewed, deleted.
    controlctl(session, "add", "203.0.113.99", "--list", "bans", "--comment", "brute force")
    added = number(session)
    controlctl(session, "add", "203.0.113.99", "--list", "bans", "--ttl", "1h", "--comment", "again")
    renewed = number(session)
    controlctl(session, "add", "203.0.113.98", "--list", "bans", "--ttl", "1s")
    brief = number(session)
    time.sleep(1.1)
    controlctl(session, "del", "203.0.113.99", "--list", "bans")
    deleted = number(session)
    for generation, comment in ((added, "brute force"), (renewed, "again")):
        answer = explain(session, "203.0.113.99", "--generation", str(generation))
        equal((answer["generation"]["number"], answer["as_source"]["reason"], answer["as_source"]["action"]),
              (generation, "bans", "drop"), "verdict then")
        ban = answer["origins"][0]
        equal((ban["comment"], ban["provenance"]["added_by"], ban["provenance"]["since"]["generation"],
               ban["provenance"]["until"]["generation"], ban["provenance"]["until"]["cause"]),
              (comment, os.getuid(), added, deleted, "del"), f"an entry that was added, in generation {generation}")
    for generation in (first, deleted):
        answer = explain(session, "203.0.113.99", "--generation", str(generation))
        equal((answer["as_source"]["action"], answer["origins"]), ("pass", []), f"before and after: generation {generation}")
    answer = explain(session, "203.0.113.98", "--generation", str(brief))
    equal(answer["origins"][0]["provenance"]["until"]["cause"], "expired", "an entry that ended by itself")

    # The feed and the policy change; the old lines are still told. In the policy the entry moves by a line.
    write(session.folder, "feed.txt", "203.0.113.2 ; other\n203.0.113.16/28 ; SBL3\n")
    write(session.folder, "policy.yaml", POLICY.format(more="      - {entry: 192.0.2.77, comment: new}\n"))
    controlctl(session, "reload")
    second = number(session)
    now = explain(session, "203.0.113.1")
    equal(now["as_source"]["reason"], "table", "now only the table has it")
    then = explain(session, "203.0.113.1", "--generation", str(deleted))
    equal((then["as_source"]["reason"], then["then"]["cause"], then["then"]["by"]), ("files", "del", os.getuid()), "then")
    feed = origin(then, "files", "203.0.113.1")
    equal((feed["line"], feed["provenance"]["text"], feed["provenance"]["since"]["generation"], feed["provenance"]["until"]["generation"]),
          (2, "203.0.113.1 ; SBL1", first, second), "a line that is no more")
    kept = origin(explain(session, "203.0.113.17"), "files", "203.0.113.16/28")
    equal((kept["line"], kept["provenance"]["since"]["generation"], kept["provenance"]["or_before"]), (2, first, True), "a line that moved")
    equal(explain(session, "203.0.113.2", "--generation", str(first))["origins"][0]["provenance"]["text"], "203.0.113.2 ; SBL2",
          "the same entry, as it was written then")

    # By time, also as how long ago; by a packet, and a whole frame.
    time.sleep(3.2)
    write(session.folder, "policy.yaml", POLICY.format(more=""))
    controlctl(session, "reload")
    third = number(session)
    published = controlctl(session, "history")["generations"][0]["at"]
    # Again where the machine stood still between the question and its answer.
    until("--at 2 s before it", lambda: explain(session, "192.0.2.77", "--at", f"{int(time.time()) - published + 2}s")[
        "generation"]["number"] == second)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(published - 1))
    answer = explain(session, "src 192.0.2.77 dst 192.0.2.1", "--at", stamp)
    equal((answer["generation"]["number"], answer["verdict"]["because"]["comment"]), (second, "new"), "--at a time, of a packet")
    ip = "4500001c0000000040110000" + "c000024d" + "c0000201" + "0035003500080000"
    answer = explain(session, None, "--packet", "020000000001020000000002" + "0800" + ip, "--generation", str(second))
    equal((answer["verdict"]["action"], answer["layers"][0]["origins"][0]["provenance"]["until"]["generation"]), ("drop", third),
          "a frame then")
    verbose = explain(session, "192.0.2.77", "--generation", str(second), "--verbose")
    check(any(probe["rule"] != 0 for probe in verbose["probes"]), f"the snapshot of then is asked: {json.dumps(verbose)}")
    check("no snapshot is kept" in explain(session, "192.0.2.77", "--generation", str(deleted), "--verbose")["notice"], "or said not to be kept")

    # A rollback and a restart.
    controlctl(session, "rollback", str(second))
    back = number(session)
    again = origin(explain(session, "192.0.2.77"), "files", "192.0.2.77")
    equal(again["provenance"]["since"]["generation"], back, "since the rollback")
    equal(origin(explain(session, "192.0.2.77", "--generation", str(second)), "files", "192.0.2.77")["provenance"]["until"]["generation"],
          third, "in its first time")
    session.stop("controld")
    session.start_controld(policy)
    session.wait_enforced()
    then = explain(session, "203.0.113.1", "--generation", str(added))
    equal(origin(then, "files", "203.0.113.1")["provenance"]["text"], "203.0.113.1 ; SBL1", "after a restart")
    code, out, err = session.controlctl("explain", "203.0.113.99", "--generation", str(added))
    check(code == 0 and "brute force" in out and f"generation {deleted}" in out and "until" in out, out + err)

    # What cannot be told, and what is no question.
    for options, wanted in ((["--generation", "123456"], "nothing is kept of generation 123456: what is kept begins with generation"),
                            (["--at", "2001-01-01T00:00:00Z"], "nothing is kept of 2001-01-01T00:00:00Z"),
                            (["--at", "2037-01-01T00:00:00Z"], "still to come"), (["--at", "yesterday"], "must be a time like")):
        code, out, err = session.controlctl("explain", "203.0.113.1", *options)
        check(code in (1, 2) and wanted in err, f"{options}: {code} {out}{err}")
    damaged = session.path(f"controld-state/history/{first}.book")
    with open(damaged, "r+b") as file:
        file.seek(40)
        file.write(b"damaged!")
    session.stop("controld")
    session.start_controld(policy)
    session.wait_enforced()
    code, out, err = session.controlctl("explain", "203.0.113.1", "--generation", str(first))
    check(code == 1 and "damaged" in err, f"a damaged book: {code} {out}{err}")
    equal(explain(session, "203.0.113.40")["as_source"]["reason"], "table", "what runs is told all the same")
    equal((session.stop("dataplane"), session.stop("controld")), (0, 0), "exit codes of both")
