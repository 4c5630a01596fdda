"""`controlctl setup` on veth pairs: it writes the target, reloads or restarts controld, and proves a first block. What it refuses
changes nothing."""

import json
import os
import subprocess
import threading

import pytest

from weir_smoke import controlctl, needs_programs, needs_root, write
from wires import make_veth, own_bpf_file_system

pytestmark = [pytest.mark.timeout(180), needs_root("interfaces and XDP need it"), needs_programs("ip", "ethtool")]

POLICY = """\
version: 1
# mine
targets: {targets}
lists:
  - {{name: allowed, action: pass, dynamic: true}}
  - {{name: blocked, action: drop, match: dst, dynamic: true}}
"""
PROOF = "a made packet from 203.0.113.7 passed, dropped while 203.0.113.7 was blocked, and passes again"


@pytest.fixture
def session(quiet_network, session):
    """Two veth pairs, a BPF file system, and a policy without a target."""
    with own_bpf_file_system(session.path("bpf")):
        for number in range(2):
            make_veth(f"out{number}", f"in{number}")
        put_policy(session, "[]")
        yield session


def put_policy(session, targets):
    write(session.folder, "weir.yaml", POLICY.format(targets=targets))


def policy(session):
    with open(session.path("weir.yaml"), encoding="utf-8") as file:
        return file.read()


def start(session):
    session.start_controld(session.path("weir.yaml"), targets=False, extra=["--bpf-dir", session.path("bpf")])


def run_setup(session, *arguments):
    """(exit code, standard output, standard error)"""
    return session.controlctl("setup", "--config", session.path("weir.yaml"), *arguments)


def attached(session):
    return {one["name"] for target in controlctl(session, "status")["targets"] for one in target["interfaces"] if one["attached"]}


def test_the_first_interface_takes_a_restart(session):
    start(session)
    wanted = session.path("restart-wanted")
    done = []
    runs = threading.Thread(target=lambda: done.append(run_setup(session, "--interface", "in0", "--restart", f"touch {wanted}", "--json")))
    runs.start()
    session.wait("setup to restart controld", lambda: os.path.exists(wanted) or not runs.is_alive())
    assert os.path.exists(wanted), done
    session.stop("controld")
    start(session)
    runs.join()
    (code, out, err), = done
    assert code == 0, err
    answer = json.loads(out)
    assert (answer["ok"], answer["changed"], answer["target"], answer["proof"]) == (True, True, "xdp:in0", PROOF)
    assert attached(session) == {"in0"}
    assert "# mine\ntargets:\n  - xdp: {interfaces: [in0]}\n" in policy(session)
    assert controlctl(session, "list", "blocked")["lists"][0]["entries"] == 0, "the block is taken back"


def test_another_interface_takes_a_reload_and_again_changes_nothing(session):
    put_policy(session, "\n  - xdp: {interfaces: [in0]}")
    start(session)
    for changed in (True, False):
        code, out, err = run_setup(session, "--interface", "in1", "--restart", "false", "--json")
        assert code == 0, err
        assert json.loads(out)["changed"] == changed
    assert attached(session) == {"in0", "in1"}
    assert "\n  - xdp: {interfaces: [in0, in1]}\n" in policy(session)
    code, out, err = session.controlctl("setup", "--interface", "in1", "--restart", "false")  # the policy that controld has
    assert code == 0, err
    assert PROOF in out, out


def test_a_proof_that_fails_is_told(session):
    """A pass list lets the blocked address through: the made packet passes."""
    put_policy(session, "\n  - xdp: {interfaces: [in0]}")
    start(session)
    controlctl(session, "allow", "203.0.113.0/24")
    code, _, err = run_setup(session, "--interface", "in0")
    assert code == 1
    assert "no proof: a made packet from 203.0.113.7 passes, though it is blocked" in err


@pytest.mark.parametrize("arguments, code, text", [
    ((), 2, "--interface or --ports is missing"),
    (("--interface", "in9"), 1, "there is no interface in9\nhint: there are in0, in1, out0, out1"),
    (("--ports", "0000:99:00.0"), 1, "there is no card at 0000:99:00.0"),
], ids=["nothing named", "no interface", "no card"])
def test_what_is_refused_changes_nothing(session, arguments, code, text):
    before = policy(session)
    result = subprocess.run([os.path.join(session.build, "control/controlctl"), "setup", *arguments, "--config", session.path("weir.yaml")],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert result.returncode == code
    assert text in result.stderr
    assert policy(session) == before


def test_a_policy_that_takes_a_person_or_has_errors_stays(session):
    for targets, text in (("[{dataplane: /run/x.sock}]", "line 3 has all targets in one line"), ("[{xpd: 1}]", "has errors")):
        put_policy(session, targets)
        before = policy(session)
        code, _, err = run_setup(session, "--interface", "in0")
        assert code == 1
        assert text in err
        assert policy(session) == before


def test_a_dry_run_tells_all_and_changes_nothing(session):
    before = policy(session)
    code, out, err = run_setup(session, "--interface", "in0", "--dry-run")
    assert code == 0, err
    for text in ("+   - xdp: {interfaces: [in0]}", "would run: systemctl restart weir-controld", "would block 203.0.113.7"):
        assert text in out
    code, out, err = run_setup(session, "--interface", "in0", "--dry-run", "--json")
    assert (code, json.loads(out)["changed"]) == (0, True), err
    assert policy(session) == before


def test_a_link_to_the_policy_stays(session):
    put_policy(session, "\n  - xdp: {interfaces: [in0]}")
    os.rename(session.path("weir.yaml"), session.path("kept.yaml"))
    os.symlink("kept.yaml", session.path("weir.yaml"))
    os.chmod(session.path("kept.yaml"), 0o640)
    start(session)
    code, _, err = run_setup(session, "--interface", "in1", "--restart", "false")
    assert code == 0, err
    assert os.path.islink(session.path("weir.yaml"))
    assert os.stat(session.path("kept.yaml")).st_mode & 0o7777 == 0o640
