"""The history of publications: its rows, `rollback` to them, and the return to the one before when nobody confirms a reload. All of
it survives restarts and kill -9."""

import os

import pytest

from weir_smoke import BUILD, ask_dataplane, controlctl, write
from fault_rig import Switch

POLICY = """version: 1
history: {{keep: 1h, size: 10MiB}}
lists:
  - {{name: bans, action: drop, dynamic: true}}
  - {{name: files, action: drop, entries: [{entries}], file: feed.txt}}
"""


def drops(session, key):
    code, out, err = session.controlctl("test", "-q", key)
    assert code in (0, 1), f"test {key} ended with {code}: {out}{err}"
    return code == 0


def number(session):
    return session.call("status")["generation"]["number"]


def enforced(session, *keys):
    """Whether the data plane drops each. It enforces controld's generation."""
    assert ask_dataplane(session)[0] == number(session), "generation of the data plane"
    return [drops(session, key) for key in keys]


def change_policy(session, entries):
    return write(session.folder, "policy.yaml", POLICY.format(entries=entries))


def add(session, *keys):
    return controlctl(session, "add", *keys, "--list", "bans")


@pytest.fixture
def clock(session):
    """The clock of controld."""
    return Switch(session.path("clock"))


@pytest.fixture
def running(session, clock):
    """A session whose data plane enforces the first generation."""
    write(session.folder, "feed.txt", "192.0.2.1\n192.0.2.2\n")
    change_policy(session, "192.0.2.10")
    session.start_dataplane("forward: sink\n")
    session.environment = clock.environment(BUILD)
    session.start_controld(session.path("policy.yaml"))
    session.wait_enforced()
    return session


def restart(session, end):
    end("controld")
    session.start_controld(session.path("policy.yaml"))
    session.wait_enforced()


def test_each_publication_has_its_cause_and_changes(running):
    first = number(running)
    add(running, "203.0.113.1")
    add(running, "203.0.113.2", "203.0.113.3")
    controlctl(running, "del", "203.0.113.1", "--list", "bans")
    change_policy(running, "192.0.2.11, 192.0.2.12")
    controlctl(running, "reload")
    rows = controlctl(running, "history")["generations"]
    numbers = [row["number"] for row in rows[:5]]
    assert numbers == [first + n for n in (4, 3, 2, 1, 0)] and numbers[0] == number(running), "numbers"
    assert [(row["cause"], [(c["name"], c["added"], c["removed"]) for c in row["changes"]]) for row in rows[:4]] == [
        ("asked for", [("files", 2, 1)]), ("del", [("bans", 0, 1)]), ("add", [("bans", 2, 0)]), ("add", [("bans", 1, 0)])], "rows"
    assert all(row["kept"] for row in rows[:5]), "all can be published again"
    assert os.path.exists(running.path(f"controld-state/history/{numbers[0]}.book")), "a reload keeps its book"
    assert not os.path.exists(running.path(f"controld-state/history/{numbers[1]}.book")), "a change keeps no book of its own"
    code, out, err = running.controlctl("history")
    assert code == 0 and "bans +2" in out and "files +2 -1" in out and "runs" in out, out + err


def test_a_rollback_brings_back_policy_and_entries(running):
    keys = ("203.0.113.1", "203.0.113.2", "192.0.2.10", "192.0.2.11")
    add(running, "203.0.113.1")
    with_one = number(running)
    add(running, "203.0.113.2", "203.0.113.3")
    controlctl(running, "del", "203.0.113.1", "--list", "bans")
    change_policy(running, "192.0.2.11, 192.0.2.12")
    controlctl(running, "reload")
    reloaded = number(running)
    assert enforced(running, *keys) == [False, True, False, True], "before the rollback"
    assert controlctl(running, "rollback", str(with_one))["ok"] is True, "rollback"
    assert enforced(running, *keys) == [True, False, True, False], "after the rollback"
    assert "rolled back" in running.call("status")["notice"], "notice in status"
    assert add(running, "203.0.113.9")["entries"] == 2, "add after a rollback"
    write(running.folder, "feed.txt", "192.0.2.1\n192.0.2.2\n192.0.2.3\n")
    for end in (running.stop, running.kill):
        restart(running, end)
        assert enforced(running, "203.0.113.1", "203.0.113.9", "192.0.2.10", "192.0.2.11", "192.0.2.3") == [
            True, True, True, False, False], "a rollback after a restart"
    assert controlctl(running, "rollback", str(reloaded))["ok"] is True, "rollback of the rollback"
    assert enforced(running, *keys, "203.0.113.9") == [False, True, False, True, False], "after the rollback of the rollback"
    controlctl(running, "reload")
    assert enforced(running, "203.0.113.2", "192.0.2.3", "192.0.2.11") == [True, True, True], "a reload reads the policy again"
    assert running.call("status").get("notice") is None, "notice after a reload"


def test_a_rollback_to_a_wrong_number_is_refused(running):
    code, out, err = running.controlctl("rollback", "123456")
    assert code == 1 and "is not known" in err, out + err
    assert running.controlctl("rollback", "one")[0] == 2, "exit code of a word"


def test_a_reload_that_nobody_confirms_is_taken_back(running, clock):
    assert running.controlctl("confirm")[0] == 1, "confirm when nothing waits"
    change_policy(running, "192.0.2.99")
    answer = controlctl(running, "reload", "--confirm", "10m")
    assert (answer["ok"], enforced(running, "192.0.2.99", "192.0.2.10")) == (True, [True, False]), "reload --confirm"
    assert "controlctl confirm" in running.call("status")["notice"], "notice in status"
    code, out, err = running.controlctl("reload")
    assert code == 1 and "controlctl confirm" in out + err, f"another reload meanwhile: {code} {out}{err}"
    add(running, "203.0.113.20")
    clock.pass_time(601)
    running.wait("the return", lambda: not drops(running, "192.0.2.99"))
    running.wait_enforced()
    assert enforced(running, "192.0.2.99", "192.0.2.10", "203.0.113.20") == [False, True, True], "added entries stay"
    assert "not confirmed in 600 s" in controlctl(running, "history")["generations"][0]["cause"], "cause in the history"


def test_a_confirmed_reload_stays(running, clock):
    change_policy(running, "192.0.2.99")
    controlctl(running, "reload", "--confirm", "10m")
    assert controlctl(running, "confirm")["generation"]["number"] == number(running), "confirm"
    clock.pass_time(601)
    for key in ("203.0.113.21", "203.0.113.22"):  # a return that is due comes before the second of them
        add(running, key)
    assert enforced(running, "192.0.2.99", "192.0.2.10") == [True, False], "after it was confirmed"


def test_an_unconfirmed_reload_is_taken_back_by_the_next_start(running):
    add(running, "203.0.113.20")
    change_policy(running, "192.0.2.77")
    controlctl(running, "reload", "--confirm", "1h")
    assert enforced(running, "192.0.2.77", "192.0.2.10") == [True, False], "reload --confirm 1h"
    restart(running, running.kill)
    assert enforced(running, "192.0.2.77", "192.0.2.10", "203.0.113.20") == [False, True, True], "a start before it was confirmed"
    controlctl(running, "reload")
    assert enforced(running, "192.0.2.77", "192.0.2.10") == [True, False], "a reload after that"


def test_a_damaged_generation_is_not_published(running):
    last = number(running)
    controlctl(running, "reload")
    with open(running.path(f"controld-state/history/{last}.yaml"), "r+b") as file:
        file.write(b"damaged!")
    code, out, err = running.controlctl("rollback", str(last))
    assert code == 1 and "damaged" in out + err, f"rollback to a damaged generation: {code} {out}{err}"
    assert enforced(running, "192.0.2.10") == [True], "after a rollback that failed"
    assert add(running, "203.0.113.30")["added"] == 1, "add after a rollback that failed"


def test_the_history_takes_as_many_bytes_as_the_policy_allows(running):
    write(running.folder, "feed.txt", "".join(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}\n" for i in range(400_000)))
    write(running.folder, "policy.yaml", POLICY.format(entries="192.0.2.77").replace("10MiB", "8MiB"))
    controlctl(running, "feeds", "--accept", "files")
    for _ in range(4):
        controlctl(running, "reload")
    files = [os.stat(entry.path) for entry in os.scandir(running.path("controld-state/history"))]
    size = sum({file.st_ino: file.st_size for file in files}.values())  # a file that several generations have is there once
    assert size <= 8 << 20, f"the history takes {size} bytes"
    assert controlctl(running, "history")["generations"][0]["kept"], "the newest is kept"
    assert (running.stop("dataplane"), running.stop("controld")) == (0, 0), "exit codes of both"
