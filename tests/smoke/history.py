"""What was published before: told, published again by `rollback`, and taken back by itself when nobody confirms; over restarts
and kill -9 as well."""

import os

from weir_smoke import BUILD, Session, ask_dataplane, check, controlctl, equal, make_samples, read_capture, start_loop, write
from fault_rig import Switch

POLICY = """version: 1
history: {{keep: 1h, size: 10MiB}}
lists:
  - {{name: bans, action: drop, dynamic: true}}
  - {{name: files, action: drop, entries: [{entries}], file: feed.txt}}
"""


def drops(session, key):
    code, out, err = session.controlctl("test", "-q", key)
    check(code in (0, 1), f"test {key} ended with {code}: {out}{err}")
    return code == 0


def number(session):
    return session.call("status")["generation"]["number"]


with Session(BUILD) as session:
    make_samples(session.folder, flows=100, frames=1000)
    feed = write(session.folder, "feed.txt", "192.0.2.1\n192.0.2.2\n")
    policy = write(session.folder, "policy.yaml", POLICY.format(entries="192.0.2.10"))
    start_loop(session, read_capture(session.path("capture.pcap")))
    clock = Switch(session.path("clock"))  # controld's
    session.environment = clock.environment(BUILD)
    session.start_controld(policy)
    session.wait_enforced()

    def enforced(*keys):
        equal(ask_dataplane(session)[0], number(session), "generation of the data plane")
        return [drops(session, key) for key in keys]

    # Each publication is told, with what caused it and what it changed.
    first = number(session)
    controlctl(session, "add", "203.0.113.1", "--list", "bans")
    with_one = number(session)
    controlctl(session, "add", "203.0.113.2", "203.0.113.3", "--list", "bans")
    controlctl(session, "del", "203.0.113.1", "--list", "bans")
    with_two = number(session)
    write(session.folder, "policy.yaml", POLICY.format(entries="192.0.2.11, 192.0.2.12"))
    controlctl(session, "reload")
    reloaded = number(session)
    rows = controlctl(session, "history")["generations"]
    equal([row["number"] for row in rows[:5]], [reloaded, with_two, with_two - 1, with_one, first], "numbers in the history")
    equal([(row["cause"], [(c["name"], c["added"], c["removed"]) for c in row["changes"]]) for row in rows[:4]],
          [("asked for", [("files", 2, 1)]), ("del", [("bans", 0, 1)]), ("add", [("bans", 2, 0)]), ("add", [("bans", 1, 0)])],
          "causes and changes in the history")
    check(all(row["kept"] for row in rows[:5]), "what can be published again")
    check(os.path.exists(session.path(f"controld-state/history/{reloaded}.book")), "the book of a reload is kept")
    check(not os.path.exists(session.path(f"controld-state/history/{with_two}.book")), "a change keeps no book of its own")
    code, out, err = session.controlctl("history")
    check(code == 0 and "bans +2" in out and "files +2 -1" in out and "runs" in out, out + err)

    # Back to a generation: policy, and what was added, as they were; and forward again.
    equal(enforced("203.0.113.1", "203.0.113.2", "192.0.2.10", "192.0.2.11"), [False, True, False, True], "before the rollback")
    equal(controlctl(session, "rollback", str(with_one))["ok"], True, "rollback")
    equal(enforced("203.0.113.1", "203.0.113.2", "192.0.2.10", "192.0.2.11"), [True, False, True, False], "after the rollback")
    check("rolled back" in session.call("status")["notice"], "status tells of a rollback")
    equal(controlctl(session, "add", "203.0.113.9", "--list", "bans")["entries"], 2, "add after a rollback")
    rolled = number(session)
    with open(feed, "a", encoding="ascii") as file:
        file.write("192.0.2.3\n")
    for end in (session.stop, session.kill):
        end("controld")
        session.start_controld(policy)
        session.wait_enforced()
        equal(enforced("203.0.113.1", "203.0.113.9", "192.0.2.10", "192.0.2.11", "192.0.2.3"), [True, True, True, False, False],
              "a rollback after a restart")
    equal(controlctl(session, "rollback", str(reloaded))["ok"], True, "rollback of the rollback")
    equal(enforced("203.0.113.1", "203.0.113.2", "203.0.113.9", "192.0.2.10", "192.0.2.11"), [False, True, False, False, True],
          "after the rollback of the rollback")
    controlctl(session, "reload")
    equal(enforced("203.0.113.2", "192.0.2.3", "192.0.2.11"), [True, True, True], "a reload reads the policy again")
    equal(session.call("status").get("notice"), None, "notice after a reload")
    code, out, err = session.controlctl("rollback", "123456")
    check(code == 1 and "is not known" in err, out + err)
    equal(session.controlctl("rollback", "one")[0], 2, "exit code of a number that is none")

    # Not confirmed: it goes back by itself, and what was added meanwhile stays.
    equal(session.controlctl("confirm")[0], 1, "confirm when nothing waits")
    write(session.folder, "policy.yaml", POLICY.format(entries="192.0.2.99"))
    answer = controlctl(session, "reload", "--confirm", "10m")
    equal((answer["ok"], enforced("192.0.2.99", "192.0.2.11")), (True, [True, False]), "reload --confirm")
    check("controlctl confirm" in session.call("status")["notice"], "status tells of what waits")
    code, out, err = session.controlctl("reload")
    check(code == 1 and "controlctl confirm" in out + err, f"another reload meanwhile: {code} {out}{err}")
    controlctl(session, "add", "203.0.113.20", "--list", "bans")
    clock.pass_time(601)
    session.wait("it to go back", lambda: not drops(session, "192.0.2.99"))
    session.wait_enforced()
    equal(enforced("192.0.2.99", "192.0.2.11", "203.0.113.20"), [False, True, True], "after nobody confirmed")
    check("not confirmed in 600 s" in controlctl(session, "history")["generations"][0]["cause"], "the history tells of it")
    # Confirmed: it stays.
    controlctl(session, "reload", "--confirm", "10m")
    equal(controlctl(session, "confirm")["generation"]["number"], number(session), "confirm")
    clock.pass_time(601)
    for key in ("203.0.113.21", "203.0.113.22"):  # whatever was due comes before the second of them
        controlctl(session, "add", key, "--list", "bans")
    equal(enforced("192.0.2.99", "192.0.2.11"), [True, False], "after it was confirmed")
    # controld dies before: it goes back at its next start.
    write(session.folder, "policy.yaml", POLICY.format(entries="192.0.2.77"))
    controlctl(session, "reload", "--confirm", "1h")
    equal(enforced("192.0.2.77", "192.0.2.99"), [True, False], "reload --confirm 1h")
    session.kill("controld")
    session.start_controld(policy)
    session.wait_enforced()
    equal(enforced("192.0.2.77", "192.0.2.99", "203.0.113.20"), [False, True, True], "a start before it was confirmed")
    controlctl(session, "reload")
    equal(enforced("192.0.2.77", "192.0.2.99"), [True, False], "a reload after that")

    # Content that is damaged is refused, and what is enforced stays.
    last = number(session)
    controlctl(session, "reload")
    with open(session.path(f"controld-state/history/{last}.yaml"), "r+b") as file:
        file.write(b"damaged!")
    code, out, err = session.controlctl("rollback", str(last))
    check(code == 1 and "damaged" in out + err, f"rollback to what is damaged: {code} {out}{err}")
    equal(enforced("192.0.2.77"), [True], "after a rollback that failed")
    equal(controlctl(session, "add", "203.0.113.30", "--list", "bans")["added"], 1, "add after a rollback that failed")

    # Bytes are bounded: the oldest go, the newest stays.
    write(session.folder, "feed.txt", "".join(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}\n" for i in range(400_000)))
    write(session.folder, "policy.yaml", POLICY.format(entries="192.0.2.77").replace("10MiB", "8MiB"))
    controlctl(session, "feeds", "--accept", "files")
    for _ in range(4):
        controlctl(session, "reload")
    files = [os.stat(entry.path) for entry in os.scandir(session.path("controld-state/history"))]
    size = sum({file.st_ino: file.st_size for file in files}.values())  # a file that several generations have is there once
    check(size <= 8 << 20, f"the history takes {size} bytes")
    rows = controlctl(session, "history")["generations"]
    check(rows[0]["kept"], "the newest is kept")
    equal((session.stop("dataplane"), session.stop("controld")), (0, 0), "exit codes of both")
