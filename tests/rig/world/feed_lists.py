#!/usr/bin/env python3
"""Every list of the test data, read as `format: auto`: its entries beside those that an earlier version read, and what
`controlctl check` warns of.

    feed_lists.py --build DIR           prints what differs, and each warning that the list does not deserve
    feed_lists.py --build DIR --write   writes the digests of the entries to feed_digests.json, beside this file

Digests: SHA-256 of the sorted entries as `controlctl list NAME --entries` prints them, a line each.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from all_lists import COUNTRIES, write_countries  # noqa: E402
from rig import Skip, test_data  # noqa: E402
from session import ROOT, SessionError  # noqa: E402
from until import until  # noqa: E402

DIGESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "feed_digests.json")

# Lists that are read otherwise than before, each with its reason and the digest that is right now.
EXPLAINED = {}

# Warnings that a list deserves: what stands in them.
RESERVED = r"blocks addresses that are reserved"
DESERVED = {"combined-v4.txt.xz": RESERVED, "doh-ipv4.txt": RESERVED, "doh-ipv6.json": RESERVED, "doh-ipv6.txt": RESERVED,
            "shadowwhisperer_Tunnels": RESERVED, "wael_p2p.p2p.xz": RESERVED,
            "iana_OFACSanctioned.txt.xz": r"has host bits in 21 prefixes",
            "ipsum.txt.xz": r"has numbers behind \d+ of its \d+ entries",
            # Most of their lines are domains and paths.
            "maltrail_elf_mirai.txt.xz": r"has \d+ bad lines", "maltrail_emotet.txt.xz": r"has \d+ bad lines"}

# What depends on the machine that asks: its own gateway, its resolvers.
OF_THIS_HOST = r"blocks addresses that this host or weir needs"


def data_lists(folder):
    """(name, path) of every list, unpacked into folder. Skip when the test data is not there."""
    where = os.path.join(os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data")), "blocklists")
    if not os.path.isdir(where):
        raise Skip(f"data: no blocklists in {os.path.normpath(where)}")
    lists = []
    for base, _, files in os.walk(where):
        for file in files:
            name = os.path.relpath(os.path.join(base, file), where)
            if not file.endswith((".md", ".tar.xz")):
                lists.append((name, test_data("blocklists/" + name, folder)))
    for family in ("ipv4", "ipv6"):
        path = os.path.join(folder, f"countries-{family}.txt")
        write_countries(test_data("blocklists/" + COUNTRIES, folder), family, path)
        lists.append((f"countries-{family}", path))
    return sorted(lists)


def policy_of(lists):
    text = "version: 1\ntargets: []\nlists:\n"
    for name, path in lists:
        text += f"- {{name: {key_of(name)}, action: drop, file: '{path}', allow_any: true}}\n"
    return text


def key_of(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[-60:].strip("-")


class Programs:
    def __init__(self, build, folder):
        inside = os.path.join(build, "control")
        where = inside if os.path.isdir(inside) else build
        self.ctl, self.daemon = (os.path.join(where, name) for name in ("controlctl", "controld"))
        self.folder = folder

    def ask(self, *arguments):
        return subprocess.run([self.ctl, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)

    def check(self, lists):
        path = os.path.join(self.folder, "check.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(policy_of(lists))
        done = self.ask("check", path, "--state-dir", os.path.join(self.folder, "no-state"), "--json")
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise SessionError(f"check ended with {done.returncode}: {done.stderr[:200]}") from error

    def entries(self, lists):
        """name -> sorted entries, from one controld."""
        path, socket = os.path.join(self.folder, "lists.yaml"), os.path.join(self.folder, "s")
        with open(path, "w", encoding="utf-8") as file:
            file.write(policy_of(lists))
        with open(os.path.join(self.folder, "controld.log"), "wb") as log, subprocess.Popen(
                [self.daemon, "--config", path, "--state-dir", os.path.join(self.folder, "state"), "--socket", socket, "--metrics",
                 "off", "--read-group", "none", "--admin-group", "none"], stdout=log, stderr=log) as daemon:
            try:
                return self._entries(lists, socket, daemon)
            finally:
                daemon.terminate()

    def _entries(self, lists, socket, daemon):
        def log():
            with open(os.path.join(self.folder, "controld.log"), encoding="utf-8", errors="replace") as file:
                return file.read()[-300:]

        until("controld to start", lambda: '"lists"' in self.ask("--socket", socket, "list", "--json").stdout, 120, SessionError,
              ended=lambda: f"controld ended: {log()}" if daemon.poll() is not None else "", about=lambda: f": {log()}", turn=0.1)
        found = {}
        for name, _ in lists:
            done = self.ask("--socket", socket, "list", key_of(name), "--entries", "--json")
            if done.returncode != 0:
                raise SessionError(f"list {name} --entries: {done.stderr[:200]}")
            found[name] = sorted({entry["entry"] for line in done.stdout.splitlines() for entry in json.loads(line)["entries"]})
        return found


def digest_of(entries):
    return hashlib.sha256("".join(entry + "\n" for entry in entries).encode()).hexdigest()


def warnings_of(answer):
    return [one["message"] for one in answer.get("diagnostics", []) if one["severity"] == "warning"]


def measure(build):
    """name -> {"entries", "digest", "warnings", "refused"}: all lists as this build reads them."""
    with tempfile.TemporaryDirectory(prefix="weir-feeds-") as folder:
        lists = data_lists(folder)
        programs = Programs(build, folder)
        found = {}
        usual = None
        for name, path in lists:
            answer = programs.check([(name, path)])
            errors = [one["message"] for one in answer.get("diagnostics", []) if one["severity"] == "error"]
            errors += [one["reason"] for one in answer.get("refused", [])]
            if usual is None:  # what is said of any list in such a policy
                harmless = os.path.join(folder, "harmless.txt")
                with open(harmless, "w", encoding="ascii") as file:
                    file.write("192.0.2.250\n")
                usual = set(warnings_of(programs.check([("harmless", harmless)])))
            found[name] = {"warnings": [text.replace(path, name) for text in warnings_of(answer)
                                        if text not in usual and not re.search(OF_THIS_HOST, text)],
                           "refused": " ".join(errors).replace(path, name)}
        taken = [(name, path) for name, path in lists if not found[name]["refused"]]
        for name, entries in programs.entries(taken).items():
            found[name].update(entries=len(entries), digest=digest_of(entries))
        return found


def differences(found):
    """Lists whose entries are not those of feed_digests.json, without a reason."""
    with open(DIGESTS, encoding="utf-8") as file:
        before = json.load(file)
    wrong = []
    for name, one in found.items():
        known = before.get(name)
        now = one.get("digest", "refused")
        right = EXPLAINED[name][1] if name in EXPLAINED else known and known["digest"]
        if now != right:
            wrong.append(f"{name}: {known and known['entries']} entries before, "
                         + (f"{one['entries']} now" if "entries" in one else f"refused now: {one['refused']}"))
    return wrong


def false_alarms(found):
    """Lists with more than one warning, or with one that they do not deserve."""
    wrong = []
    for name, one in found.items():
        alarms = one["warnings"]
        if len(alarms) > 1 or (alarms and not re.search(DESERVED.get(name, r"\0"), alarms[0])):
            wrong.append(f"{name}: " + "; ".join(alarms))
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, metavar="DIR", help="controlctl and controld are in it, or in its control/")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    found = measure(os.path.abspath(arguments.build))
    if arguments.write:
        with open(DIGESTS, "w", encoding="utf-8") as file:
            table = {name: {"entries": one.get("entries", 0), "digest": one.get("digest", "refused")} for name, one in found.items()}
            json.dump(table, file, indent=1)
            file.write("\n")
    wrong = differences(found) + ["warns: " + text for text in false_alarms(found)]
    print("\n".join(wrong) or f"{len(found)} lists are read as before")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
