"""scripts/test on another Debian: in a folder that debootstrap makes, entered by chroot. scripts/test --on SUITE calls it.

    test_on.py SUITE [--root FOLDER] [--mirror URL] [-- ARGUMENT...]

What is committed is cloned there and tested with warnings as errors; arguments go to scripts/test. A named folder stays, and the
next run finds its packages and its build there; without one a folder is made below the temporary one (TMPDIR), and removed. Exit
code: that of scripts/test there; 77 when it could not be tried, with the reason.
"""

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
import chroots
from rig import Skip, say

SKIPPED = 77


def prepare(folder, suite, mirror):
    """A complete system of the suite in the folder, made when it is not there."""
    found = chroots.made_suite(folder)
    if found is not None and found != suite:
        raise Skip(f"{folder} is a Debian {found}: name another folder for {suite}", missing_here=True)
    if found is None:
        if os.path.isdir(folder) and os.listdir(folder):
            raise Skip(f"{folder} holds something else than a Debian that this command made: name an empty folder", missing_here=True)
        say(f"test: making a Debian {suite} in {folder}")
        os.makedirs(folder, exist_ok=True)
        try:
            chroots.make_system(folder, suite, mirror)
        except BaseException:  # half a system would be in the way of the next run
            chroots.remove(folder)
            raise
    else:
        say(f"test: the Debian {suite} in {folder}")


def run(folder, arguments):
    """Exit code of scripts/test there."""
    with chroots.entered(folder):
        chroots.clone(folder)
        chroots.inside(folder, "dpkg", "--configure", "-a")  # a run before may have been ended while it installed
        code, _ = chroots.inside(folder, "scripts/test", *arguments, environment={"CI": "true"},
                                 heard=lambda line: print(line, end="", flush=True))
        return code


def main():
    parser = argparse.ArgumentParser(prog="test --on", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", metavar="SUITE", help="of Debian: bookworm, trixie")
    parser.add_argument("--root", default="", metavar="FOLDER", help="where that Debian is, or is to be made and stays")
    parser.add_argument("--mirror", default="", metavar="URL", help="of Debian packages (default: debootstrap's own)")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="of scripts/test there")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):  # so that what was made is removed
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    holder = ""
    try:
        chroots.check_machine()
        if not shutil.which("git"):
            raise Skip("package: no git: what is committed is cloned", missing_here=True)
        folder = os.path.realpath(arguments.root) if arguments.root else ""
        if not folder:
            holder = tempfile.mkdtemp(prefix="weir-test-on-")
            folder = os.path.join(holder, arguments.suite)
        with open(folder + ".lock", "w", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Skip(f"{folder} is in use by another run", missing_here=True) from None
            prepare(folder, arguments.suite, arguments.mirror)
            return run(folder, arguments.arguments)
    except (Skip, subprocess.CalledProcessError, OSError) as error:
        print(f"test: skipped: {error}", file=sys.stderr)
        return SKIPPED
    except KeyboardInterrupt:
        return 130
    finally:
        if holder:
            chroots.remove(holder)


if __name__ == "__main__":
    sys.exit(main())
