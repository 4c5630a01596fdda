"""Runs inside the guest and does what the host asks: one JSON object a line, over a serial port of virtio."""

import glob
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "rig", "world")]  # on the disk of tests/rack both files are in one folder
from until import until  # noqa: E402 (path first)

PORT = "weir.guest"  # its name on both sides
SECONDS = 480      # for one program
processes = {}     # name -> Popen


def find_port():
    for folder in glob.glob("/sys/class/virtio-ports/*"):
        with open(folder + "/name", encoding="ascii") as file:
            if file.read().strip() == PORT:
                return "/dev/" + os.path.basename(folder)
    return None


def text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def put(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(content)
    os.replace(path + ".new", path)


def bind(address, driver):
    """Gives a PCI device to a driver; the driver that has it now."""
    device = "/sys/bus/pci/devices/" + address
    if os.path.exists(device + "/driver"):
        with open(device + "/driver/unbind", "w", encoding="ascii") as file:
            file.write(address)
    for path, value in ((device + "/driver_override", driver), ("/sys/bus/pci/drivers_probe", address)):
        with open(path, "w", encoding="ascii") as file:
            file.write(value)
    ids = [text(device + "/" + name).strip().removeprefix("0x") for name in ("vendor", "device")]
    bound = os.path.basename(os.path.realpath(device + "/driver")) if os.path.exists(device + "/driver") else None
    return {"driver": bound, "id": ":".join(ids), "node": int(text(device + "/numa_node"))}


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def start(name, command, folder, environment):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/{name}.log", "wb") as log:
        processes[name] = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                           env={**os.environ, "RUNTIME_DIRECTORY": folder, **environment})


def ended(name, seconds=0):
    """Its exit code, or None: it still runs after so many seconds."""
    process = processes[name]
    if seconds and process.poll() is None:
        fd = os.pidfd_open(process.pid)
        select.select([fd], [], [], seconds)
        os.close(fd)
    return process.poll()


def stop(name):
    """Asks it to stop; its exit code."""
    processes[name].terminate()
    try:
        return processes[name].wait(SECONDS)
    except subprocess.TimeoutExpired:
        processes[name].kill()
        processes[name].wait()
        return "did not stop"


def can_connect(path, kind):
    with socket.socket(socket.AF_UNIX, getattr(socket, kind)) as probe:
        try:
            probe.connect(path)
            return True
        except OSError:
            return False


def call(path, request):
    """One request to controld; its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS)
        connection.connect(path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answer:
            return json.loads(answer.readline())


def nodes():
    """What each NUMA node has: its CPUs and free huge pages."""
    found = {}
    for folder in glob.glob("/sys/devices/system/node/node[0-9]*"):
        found[folder[-1]] = {"cpus": text(folder + "/cpulist").strip(),
                             "free_huge_pages": int(text(folder + "/hugepages/hugepages-2048kB/free_hugepages"))}
    return found


REQUESTS = {function.__name__: function for function in
            (bind, call, can_connect, ended, nodes, put, run, start, stop, text)}


def tell(port, what):
    """The whole line: the port takes 32 KiB of a write."""
    left = json.dumps(what).encode() + b"\n"
    while left:
        left = left[port.write(left):]


def main():
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    os.environ["HOME"] = "/root"
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with open(until("the port", find_port, math.inf, turn=0.1), "r+b", buffering=0) as port:
        waiting = b""
        tell(port, {"value": "ready"})
        while True:
            waiting += until("the host's end to open", lambda: port.read(4096), math.inf, turn=0.05)
            while b"\n" in waiting:
                line, waiting = waiting.split(b"\n", 1)
                request = json.loads(line)
                try:
                    answer = {"value": REQUESTS[request["do"]](**request["with"])}
                except Exception as error:  # pylint: disable=broad-except: the host hears of all of them
                    answer = {"error": f"{type(error).__name__}: {error}"}
                tell(port, answer)


main()
