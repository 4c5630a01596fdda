"""Namespaces that last as long as the process: networks and mounts that nobody else sees. Standard library only."""

import ctypes
import fcntl
import itertools
import os
import socket
import struct
import threading
import unittest

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000  # unshare(2)
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 1 << 18  # mount(2)


class NoNamespace(unittest.SkipTest):
    """One cannot be had; the text is a reason to skip (docs/develop/testing.md)."""


def _unshare(kind, what):
    if os.geteuid() != 0:
        raise NoNamespace(f"root: a {what} of its own needs it")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(kind) != 0:
        raise NoNamespace(f"kernel: no {what} of its own: {os.strerror(ctypes.get_errno())}")


def own_network():
    """From here on, this process and all that it starts see only the interfaces made here. Nothing of the kernel's own
    is sent on them."""
    _unshare(CLONE_NEWNET, "network")
    for which in ("all", "default"):
        path = f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6"
        if os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write("1")


def own_mounts():
    """From here on, this process mounts for itself and what it starts alone. One mount after the other: the root folder
    is none in a plain chroot."""
    _unshare(CLONE_NEWNS, "mount table")
    libc = ctypes.CDLL(None)
    with open("/proc/self/mountinfo", "rb") as file:
        points = [line.split()[4].replace(rb"\040", b" ") for line in file]
    for point in points:
        libc.mount(None, point, None, MS_PRIVATE, None)


_ports = None  # of a world of our own


def own_world():
    """From here on, this process and what it starts have a network with nothing but loopback, and a mount table, names of
    networks and a BPF file system of their own. All of it ends with them, however they end."""
    global _ports
    own_mounts()
    _unshare(CLONE_NEWNET, "network")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # netdevice(7): SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
    os.makedirs("/run/netns", exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", b"/run/netns", b"tmpfs", 0, b"mode=0755") != 0:
        raise NoNamespace(f"kernel: no folder of its own for names of networks: {os.strerror(ctypes.get_errno())}")
    if os.path.isdir("/sys/fs/bpf"):
        mount_bpf("/sys/fs/bpf")
    _ports = itertools.count(20000)  # below those that the kernel gives to whoever connects


def free_port():
    """A TCP port of loopback that nobody listens on. In a world of our own nobody else ever will; elsewhere it is a guess."""
    if _ports is not None:
        return next(_ports)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def mount_bpf(folder):
    """A BPF file system, for this process and what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"bpf", folder.encode(), b"bpf", 0, b"mode=0700") != 0:
        raise NoNamespace(f"kernel: no BPF file system: {os.strerror(ctypes.get_errno())}")


def bind(source, target):
    """Shows a folder, with what is mounted in it, at another place."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), None, MS_BIND | MS_REC, None) != 0:
        raise NoNamespace(f"kernel: cannot show {source} at {target}: {os.strerror(ctypes.get_errno())}")


def in_network(path, make):
    """What make() returns, called by a thread of its own in the network namespace. A socket stays where it was made."""
    result = []

    def work():
        try:
            with open(path, encoding="ascii") as file:
                if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"cannot enter the network {path}")
            result.append(make())
        except OSError as error:
            result.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(result[0], OSError):
        raise result[0]
    return result[0]
