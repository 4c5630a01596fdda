"""Figures of `controlctl lists`: how long the comparison of all lists takes, and whether it is right."""

import statistics

from figure import at_most
from many_lists import many_lists
from overlap_reference import differences, overlap
from rig import PlacedSession, say, spread
from session import SessionError

ROUNDS = 5
OVERLAP_S = 2


def exported(session, name):
    """The entries of a list, as texts."""
    code, out, err = session.controlctl("export", name)
    if code != 0:
        raise SessionError(f"controlctl export {name} ended with {code}: {err}")
    return [line for line in out.splitlines() if line and not line.startswith("#")]


def overlap_of_all_lists(build, folder):
    """took_ms of the answer: the comparison alone, on controld's background thread. Each round is a generation of its
    own. The last one is compared with the reference, entry by entry."""
    seconds = []
    with PlacedSession(build) as session:
        policy = many_lists(folder)
        path = session.path("policy.yaml")
        for i in range(ROUNDS):
            say(f"answers: comparison {i + 1} of {ROUNDS} of all lists")
            with open(path, "w", encoding="utf-8") as file:
                file.write(policy.replace("match: src", "match: dst" if i % 2 else "match: src"))
            if i == 0:
                session.start_controld(path, targets=False)
            elif not session.call("reload").get("ok"):
                raise SessionError("reload of all lists failed")
            answer = session.call("lists")
            seconds.append(answer["took_ms"] / 1e3)
        lists = answer["lists"]
        say("answers: the same by binary search, pair by pair")
        wrong = differences(answer, overlap({one["name"]: exported(session, one["name"]) for one in lists}))
    for text in wrong[:20]:
        say(f"answers: {text}")
    entries = sum(one["entries"] for one in lists)
    note = f"{spread(seconds)}; {len(lists)} lists, {entries} entries"
    return ([at_most("answers.overlap_s", statistics.median(seconds), OVERLAP_S, "s", note),
             at_most("answers.overlap_wrong", len(wrong), 0, "cells", f"of {len(lists)}x{len(lists)}, and 4 sums a list")],
            {"seconds": seconds, "wrong": wrong, "lists": len(lists), "entries": entries})


# (names it gives, function): each returns figures and its raw runs.
MEASUREMENTS = (
    (("answers.overlap_s", "answers.overlap_wrong"), overlap_of_all_lists),
)
