"""Unit files of configs/systemd: what they say, and their programs run as systemd would run them. Standard library only."""

import os
import pwd
import re
import select
import shutil
import socket
import subprocess

from until import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
UNITS = os.path.join(ROOT, "configs/systemd")
SERVICES = ("weir-controld.service", "weir-crowdsec.service", "weir-dataplane@.service", "weir-flowspec@.service", "weir-hugepages.service")


def settings(unit, instance=""):
    """{setting: [its values, in order]} of a unit, whatever the section."""
    found = {}
    with open(os.path.join(UNITS, unit), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith(("#", "[")) or "=" not in line:
            continue
        key, value = line.split("=", 1)
        found.setdefault(key, []).append(" ".join(value.split()).replace("%i", instance))
    return found


def installed(folder, programs):
    """The units in a folder, with the programs of a build instead of the installed ones: systemd-analyze looks for them."""
    for name in os.listdir(UNITS):
        if not name.endswith((".service", ".mount")):
            continue
        with open(os.path.join(UNITS, name), encoding="utf-8") as file:
            text = file.read()
        for program, path in programs.items():
            text = text.replace(f"/usr/bin/{program} ", path + " ")
        text = text.replace("/usr/lib/weir/reserve-huge-pages", os.path.join(UNITS, "reserve-huge-pages"))
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    return folder


def exposure(unit):
    """What systemd-analyze security says of a unit: 0 is safe, 10 is not."""
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", os.path.join(UNITS, unit)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    found = re.search(r"Overall exposure level for \S+: (\d+\.\d+) ", done.stdout)
    return float(found.group(1)), done.stderr


class Manager:
    """Runs services as their units say, as far as that needs no systemd: user, groups, capabilities, folders, messages."""

    def __init__(self, folder, programs):
        self.folder = folder
        self.programs = programs

    def _make(self, path, mode, user):
        parent = os.path.dirname(path)
        os.makedirs(parent, exist_ok=True)  # root's
        if not os.path.isdir(path):
            os.mkdir(path)
            account = pwd.getpwnam(user)
            os.chown(path, account.pw_uid, account.pw_gid)
        os.chmod(path, int(mode, 8))

    def command(self, unit, key, instance="", environment=None):
        """(program and arguments, what they run as)"""
        said = settings(unit, instance)
        words = []
        for word in next(value for value in said[key] if "/usr/bin/" in value).split():
            if word.startswith("$"):
                words += (environment or {}).get(word[1:], "").split()
            else:
                words.append(word)
        words[0] = self.programs[os.path.basename(words[0])]
        user = said["User"][0]
        kept = ["-all"] + ["+" + name.removeprefix("CAP_").lower() for name in said["CapabilityBoundingSet"][0].split()]
        to_be = ["setpriv", f"--reuid={user}", f"--regid={said['Group'][0]}", "--init-groups", "--no-new-privs",
                 f"--inh-caps={','.join(kept)}", f"--ambient-caps={','.join(kept)}", f"--bounding-set={','.join(kept)}"]
        return to_be + words

    def start(self, unit, instance="", environment=None, watchdog_us=None):
        said = settings(unit, instance)
        for kind, root in (("Runtime", "/run"), ("State", "/var/lib")):
            self._make(os.path.join(root, said[kind + "Directory"][0]), said[kind + "DirectoryMode"][0], said["User"][0])
        return Service(self, self.command(unit, "ExecStart", instance, environment), os.path.join(self.folder, unit),
                       watchdog_us, {"RUNTIME_DIRECTORY": os.path.join("/run", said["RuntimeDirectory"][0])})

    def run(self, unit, key, instance="", environment=None):
        return subprocess.run(self.command(unit, key, instance, environment), stdout=subprocess.PIPE, cwd="/",
                              stderr=subprocess.STDOUT, text=True, timeout=120)


class Service:
    def __init__(self, manager, command, name, watchdog_us, environment):
        self.notify = name + ".notify"
        if os.path.exists(self.notify):
            os.unlink(self.notify)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.notify)
        os.chmod(self.notify, 0o777)
        environment = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": self.notify, **environment}
        if watchdog_us:
            environment["WATCHDOG_USEC"] = str(watchdog_us)
        self.log_path = name + ".log"
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd="/")

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def hear(self, wanted, seconds):
        """All that it told, until a message holds this; empty: none did in that time."""
        heard = []

        def is_heard():
            while wanted not in "\n".join(heard) and select.select([self.socket], [], [], 0)[0]:
                heard.append(self.socket.recv(8192).decode())
            return wanted in "\n".join(heard)

        return "\n".join([*heard, ""]) if until(wanted, is_heard, seconds, error=None) else ""

    def forget(self):
        while select.select([self.socket], [], [], 0)[0]:
            self.socket.recv(8192)

    def end(self, kill=False):
        """Its exit code."""
        if self.process.poll() is None:
            self.process.kill() if kill else self.process.terminate()
        return self.process.wait(60)


def copy_programs(build, folder):
    """{name: path} where every user may run them."""
    programs = {}
    for path in ("dataplane/dataplane", "control/controld", "control/controlctl"):
        programs[os.path.basename(path)] = shutil.copy(os.path.join(build, path), folder)
    return programs


def call_groups():
    """{group of system calls: the calls and groups in it}, of this systemd."""
    text = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True).stdout
    groups, group = {}, None
    for line in text.splitlines():
        if line.startswith("@"):
            group = groups.setdefault(line.strip(), [])
        elif line.startswith("    ") and not line.strip().startswith("#"):
            group.append(line.strip())
    return groups


def calls_allowed(unit):
    """System calls that the unit's filter lets pass."""
    groups = call_groups()

    def calls(name):
        return set().union(*map(calls, groups[name])) if name.startswith("@") else {name}

    allowed = calls("@default")
    for value in settings(unit)["SystemCallFilter"]:
        for name in value.removeprefix("~").split():
            allowed = allowed - calls(name) if value.startswith("~") else allowed | calls(name)
    return allowed


def calls_named(*sources):
    """System calls that lists of allowed calls in these sources name."""
    named = set()
    for source in sources:
        with open(os.path.join(ROOT, source), encoding="utf-8") as file:
            text = file.read()
        for rows in re.findall(r"constexpr const char\* k\w*(?:Calls|Everybodys)\[\] = \{(.*?)\};", text, re.DOTALL):
            named |= set(re.findall(r'"(\w+)"', rows))
        named |= set(re.findall(r'\{"(\w+)", \d, ', text))
    return named
