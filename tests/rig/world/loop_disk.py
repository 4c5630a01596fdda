"""A session's own disk, an ext4 in a file: it can be full, and it can stop to answer. Needs root. Standard library only."""

import contextlib
import fcntl
import os
import subprocess
import unittest

from namespaces import bind

DISK_BYTES, DISK_FILES = 4 << 30, 256
STATE_FOLDERS, LOGS = ("dataplane-state", "controld-state"), ("dataplane.log", "controld.log")
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878                                     # ioctl_fifreeze(2)


class NoDisk(unittest.SkipTest):
    """This machine cannot make one; the text says why."""


class Disk:
    """A file system of its own for the state folders and the logs, which can be full, and can stop to answer."""

    def __init__(self, session):
        self.image, self.folder = session.path("disk.img"), session.path("disk")
        with open(self.image, "wb") as file:
            file.truncate(DISK_BYTES)
        os.mkdir(self.folder)
        for command in (["mkfs.ext4", "-q", "-F", "-m", "0", "-N", str(DISK_FILES), self.image],
                        ["mount", "-o", "loop", self.image, self.folder]):
            try:
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            except FileNotFoundError as missing:
                raise NoDisk(f"package: no {missing.filename}: it makes a disk that can be full") from None
            if done.returncode != 0:
                raise NoDisk(f"kernel: no disk of its own: {' '.join(done.stdout.split())}")
        self.mounted = [self.folder]
        for name in STATE_FOLDERS:
            for path in (session.path(name), os.path.join(self.folder, name)):
                os.mkdir(path, 0o700)
            bind(os.path.join(self.folder, name), session.path(name))
            self.mounted.insert(0, session.path(name))
        for name in LOGS:
            os.symlink(os.path.join(self.folder, name), session.path(name))
        session.at_exit(self.close)

    def close(self):
        for path in self.mounted:
            subprocess.run(["umount", "--lazy", path], check=False)

    @contextlib.contextmanager
    def frozen(self):
        """Whoever writes to it waits, and nothing ends that."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, FIFREEZE, 0)
            try:
                yield
            finally:
                fcntl.ioctl(folder, FITHAW, 0)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def full(self):
        """No block and no file more."""
        taken = []
        try:
            path = os.path.join(self.folder, "fills it")
            taken.append(path)
            with open(path, "wb") as file:
                for chunk in (64 << 20, 1 << 20, 4096):
                    with contextlib.suppress(OSError):
                        while True:
                            os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, chunk)
            with contextlib.suppress(OSError):
                while True:
                    path = os.path.join(self.folder, f"takes a file {len(taken)}")
                    os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
                    taken.append(path)
            yield
        finally:
            for path in taken:
                os.unlink(path)
