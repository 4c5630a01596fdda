"""A bad policy changes nothing: controlctl names the error, and the running policy stays."""

import glob
import os
import subprocess

import pytest

from weir_smoke import BUILD, ROOT, controlctl, make_samples, moved, read, read_capture, start_loop, write

BAD = "configs/bad"  # relative, as the expected texts name it
LIST = "version: 1\nlists:\n  - {{name: bad, action: drop, {0}}}\n"
CANARY = "version: 1\nfilter: {{canaries: [{0}]}}\nlists:\n  - {{name: bad, action: drop, entries: [{1}]}}\n"
RELOADED = {
    "no YAML": ("lists: [nonsense\n", "weir.yaml:"),
    "an unknown key": (LIST.format("entrys: [198.18.0.1]"), "weir.yaml:3:"),
    "an impossible entry": (LIST.format("entries: [198.18.0.1/33]"), "weir.yaml:3:"),
    "a pattern without files": (LIST.format("file: feeds/*.none"), "stands for no file"),
    "a missing feed": (LIST.format("file: feeds/none.txt"), "feeds/none.txt"),
    "a dropped canary": (CANARY.format("198.18.0.1", "198.18.0.0/24"), "198.18.0.1"),
    "more memory than allowed": ("version: 1\nfilter: {memory: 4KiB}\nlists:\n"
                                 "  - {name: bad, action: drop, entries: [198.18.0.0/24]}\n", "memory"),
}


def disk(*folders):
    """Every file below the folders with its size and time of change."""
    found = {}
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                status = os.stat(os.path.join(parent, name))
                found[os.path.join(parent, name)] = (status.st_size, status.st_mtime_ns)
    return found


@pytest.fixture
def check(folder):
    """Runs controlctl check on a policy in the project's folder, with `folder` as the home; the text of its refusal."""
    environment = dict(os.environ, HOME=folder, XDG_STATE_HOME=f"{folder}/state", XDG_RUNTIME_DIR=folder, TMPDIR=folder)

    def refused(policy):
        done = subprocess.run([os.path.join(BUILD, "control/controlctl"), "check", policy], text=True, env=environment, cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        assert done.returncode == 1, f"{policy}: exit code\n{done.stdout}"
        return done.stdout

    return refused


def test_check_names_the_error_and_writes_nothing(check, folder):
    configs = os.path.join(ROOT, "configs")
    policies = sorted(glob.glob(f"{BAD}/*.yaml", root_dir=ROOT))
    assert len(policies) > 20, f"{BAD} has too few policies"
    before = disk(configs, folder)
    for policy in policies:
        expected = read(os.path.join(ROOT, policy.removesuffix(".yaml") + ".expected")).decode()
        said = check(policy)
        assert expected and said.startswith(expected), f"{policy}: expected\n{expected}\nfound\n{said}"
    assert disk(configs, folder) == before, "files on disk"


def test_check_refuses_a_policy_that_drops_a_canary(check, folder):
    """Only the finished snapshot shows it, as in a reload."""
    policy = write(folder, "canary.yaml", CANARY.format("192.0.2.7", "192.0.2.0/24"))
    said = check(policy)
    assert f"canary.yaml: error: canary 192.0.2.7 would drop as source: list bad, entry 192.0.2.0/24 ({policy}:4)" in said, said
    assert "\nhint: put it into a pass list" in said, said


def test_a_bad_reload_keeps_the_old_policy(session):
    make_samples(session.folder, flows=1000, frames=5000)
    good = read(session.path("weir.yaml")).decode()
    start_loop(session, read_capture(session.path("capture.pcap")))
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    generation = session.stats()["generation"]

    for what, (policy, expected) in RELOADED.items():
        write(session.folder, "weir.yaml", policy)
        code, out, err = session.controlctl("reload")
        assert code == 1, f"{what}: exit code of controlctl reload\n{out}{err}"
        assert expected in out + err, f"{what}: '{expected}' is not in the answer:\n{out}{err}"
        assert not controlctl(session, "reload", expect=1)["ok"], f"{what}: the JSON says ok"
        assert session.stats()["generation"] == generation, f"{what}: generation"
        totals, lists = moved(session)
        assert lists["scanners"]["dropped"] > 0 and lists["partners"]["passed"] > 0, f"{what}: the old verdicts"
        assert "bad" not in lists, f"{what}: the bad policy has counters"

    write(session.folder, "weir.yaml", good)
    answer = controlctl(session, "reload")
    assert answer["generation"]["number"] > generation["number"], f"a good policy is published again: {answer}"
