"""A start that fails leaves nothing behind that another user would meet, and names the folder that it cannot use."""

import os
import shutil
import subprocess

import pytest

from weir_smoke import BUILD, needs_root, write

pytestmark = needs_root("it starts programs as other users")

BAD = "version: 1\nlists: [{name: x}]\n"
GOOD = "version: 1\ntargets: []\nlists: [{name: x, action: drop, entries: [192.0.2.1]}]\n"
NOBODY = 65534


def run(folder, program, *arguments, **how):
    """By a copy: another user may not reach the build."""
    copy = shutil.copy(os.path.join(BUILD, program), folder)
    return subprocess.run([copy, *arguments], capture_output=True, text=True, timeout=120, cwd=folder, **how)


def start(folder, policy, *arguments, socket="s.sock", **how):
    return run(folder, "control/controld", "--config", policy, "--socket", os.path.join(folder, socket), "--metrics", "off",
               *arguments, **how)


def foreign(path):
    """A folder of another user."""
    os.mkdir(path, 0o755)
    os.chown(path, NOBODY, NOBODY)
    return path


@pytest.fixture
def bad(folder):
    return write(folder, "bad.yaml", BAD)


@pytest.fixture
def good(folder):
    os.chmod(folder, 0o755)
    path = write(folder, "good.yaml", GOOD)
    os.chmod(path, 0o644)
    return path


@pytest.fixture
def closed_home(folder):
    """Variables of a user who cannot read their home."""
    home = os.path.join(folder, "home")
    os.mkdir(home, 0o700)
    return {"HOME": home, "PATH": "/usr/bin:/bin"}


def test_a_new_state_folder_is_removed(folder, bad):
    state = os.path.join(folder, "state")
    done = start(folder, bad, "--state-dir", state)
    assert done.returncode == 1, f"a start with a bad policy: {done.stderr}"
    assert "there is no last good in" in done.stderr, done.stderr
    assert not os.path.exists(state), "the new state folder stays"


def test_an_empty_state_folder_stays_empty(folder, bad):
    empty = os.path.join(folder, "empty")
    os.mkdir(empty, 0o700)
    assert start(folder, bad, "--state-dir", empty).returncode == 1
    assert os.listdir(empty) == []


def test_root_makes_nothing_in_a_folder_of_another_user(folder, bad):
    theirs = foreign(os.path.join(folder, "foreign"))
    done = start(folder, bad, "--state-dir", os.path.join(theirs, "state"))
    assert done.returncode == 1 and "belongs to user" in done.stderr, f"{done.returncode} {done.stderr}"
    assert os.listdir(theirs) == []


def test_a_start_names_a_home_that_it_cannot_read(folder, good, closed_home):
    foreign(os.path.join(folder, "run"))
    done = start(folder, good, socket="run/s.sock", user=NOBODY, group=NOBODY, env=closed_home)
    assert done.returncode == 1, done.stderr
    assert f"cannot create folder {closed_home['HOME']}/.local" in done.stderr and "Permission denied" in done.stderr, done.stderr


def test_a_check_needs_no_home(folder, good, closed_home):
    done = run(folder, "control/controlctl", "check", good, user=NOBODY, group=NOBODY, env=closed_home)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_a_policy_that_one_may_not_read_is_not_called_missing(folder, good):
    os.rename(good, os.path.join(folder, "weir.yaml"))
    os.chmod(os.path.join(folder, "weir.yaml"), 0o600)
    done = run(folder, "control/controlctl", "check", user=NOBODY, group=NOBODY)
    assert done.returncode == 1
    assert "weir.yaml is there, and you may not read it: Permission denied\nhint: be root or in its group" in done.stderr, done.stderr
