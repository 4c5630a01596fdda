"""A shadow: a candidate judges live packets beside the policy that runs. What it counts is what a replay of both policies on the
same packets says, frame by frame; nothing that is enforced changes; a promotion loses no packet and publishes the bytes that
judged; what is wrong is told and changes nothing."""

import os
import shutil

from weir_smoke import (BUILD, Session, check, controlctl, equal, make_samples, read_capture, start_loop, temporary_folder, write)

from shadows import ask, plain_capture, promote_under_traffic, replayed_difference, shadowed_difference

RUNNING = """\
version: 1
policy: {own: [198.51.100.0/28]}
lists:
  - {name: partners, action: pass, match: either, entries: [%(first)s]}
  - {name: old, action: drop, match: either, entries: [%(second)s, %(third)s]}
"""
CANDIDATE = """\
version: 1
policy: {tunnels: [ipip, 6in4, gre, vxlan]}
lists:
  - {name: fresh, action: drop, match: either, file: feeds/fresh.txt}
  - {name: late, action: drop, match: either, entries: [%(third)s]}
  - {name: trial, action: drop, mode: monitor, match: either, entries: [0.0.0.0/1], allow_any: true}
"""
COUNTS = ("newly_dropped", "newly_dropped_bytes", "newly_passed", "newly_passed_bytes")


def addresses_of(capture):
    """IPv4 addresses of its plain frames, the commonest first."""
    seen = {}
    for frame in capture.frames:
        if frame[12:14] == b"\x08\x00" and len(frame) >= 34:
            for at in (26, 30):
                text = ".".join(map(str, frame[at:at + 4]))
                seen[text] = seen.get(text, 0) + 1
    return sorted(seen, key=lambda text: (-seen[text], text))


def counts_are_those_of_a_replay(folder):
    make_samples(folder)
    pcap = plain_capture(folder, os.path.join(folder, "capture.pcap"))
    common = addresses_of(read_capture(pcap))
    check(len(common) >= 6, f"the capture has {len(common)} addresses only")
    names = dict(first=common[0], second=", ".join(common[1:3]), third=common[3])
    running = write(folder, "running.yaml", RUNNING % names)
    candidate = write(folder, "new/candidate.yaml", CANDIDATE % names)
    write(folder, "new/feeds/fresh.txt", "\n".join([common[0], common[4], common[5]]) + "\n")
    expected = replayed_difference(BUILD, folder, running, candidate, pcap)
    check(expected["newly_dropped"] > 0 and expected["newly_passed"] > 0, f"both policies differ both ways: {expected}")
    told, dropped = shadowed_difference(BUILD, folder, running, candidate, pcap)
    for key, value in expected.items():
        equal(told[key], value, f"the shadow's {key}, and that of a replay")
    for key in COUNTS:
        equal(sum(row[key] for row in told["lists"]), told[key], f"sum of {key} over lists")
    equal({row["list"] for row in told["lists"] if row["newly_passed"]} - {"old"}, set(), "lists that drop now")
    equal({row["list"] for row in told["lists"] if row["newly_dropped"]} - {"fresh", "late"}, set(), "lists that would drop")
    check(told["flows"], "differing flows were sampled")
    for flow in told["flows"]:
        check(flow["running"].split()[0] != flow["candidate"].split()[0], f"verdicts differ: {flow}")
    target, = told["targets"]
    check(target["acknowledged"] and target["cycles"] > 0 and target["nanoseconds"] > 0, f"its cost is told: {target}")
    return running, candidate, dropped


def promotes_without_loss(folder):
    found = promote_under_traffic(BUILD, folder, 18)
    equal(found["faults"], {}, f"faults of numbered frames: {found['told_faults']}")
    equal(found["begun"]["ok"], True, f"begun: {found['begun']}")
    told, promoted = found["told"], found["promoted"]
    check(told["newly_dropped"] > 0 and told["newly_passed"] > 0, "both differ under traffic")
    equal({row["list"] for row in told["lists"]}, {"changing"}, "the list that differs")
    equal(promoted["ok"], True, f"promoted: {promoted}")
    equal(promoted["judged_digest"], told["digest"], "the digest that judged")
    equal(promoted["enforced_digest"], told["digest"], "the digest that is enforced")
    check(promoted.get("overlay_digest"), "what was added since stands on it")
    check("weir.yaml" in promoted.get("notice", ""), f"the other policy file is named: {promoted}")
    target, = found["status"]["targets"]
    equal((target["acknowledged"], target["generation"]), (True, promoted["generation"]), "the target enforces it")
    equal(found["explained"]["as_source"]["reason"], "bans", "what was added before the promotion stays")
    equal(found["last"]["on"], False, "the shadow has ended")
    check(found["last"]["ended"].startswith("promoted"), f"and says why: {found['last']['ended']}")
    check("promoted" in found["history"][0]["cause"], f"history has it: {found['history'][0]}")


def ends_and_begins(folder, running, candidate):
    """Commands, wrong input, restarts, in one session with looped traffic."""
    with Session(BUILD) as session:
        start_loop(session, read_capture(os.path.join(folder, "frames.pcap")))
        session.start_controld(running)
        session.wait_enforced()
        equal(ask(session)["on"], False, "no shadow at the beginning")
        equal(session.controlctl("shadow", "--promote")[0], 1, "nothing to promote")
        equal(session.controlctl("shadow", "--discard")[0], 1, "nothing to discard")
        equal(session.controlctl("shadow", session.path("none.yaml"))[0], 2, "no such file")
        equal(session.controlctl("shadow", candidate, "--one-in", "0")[0], 2, "one in 0")
        equal(session.controlctl("shadow", candidate, "--promote")[0], 2, "two wishes")
        bad = write(session.folder, "bad.yaml", "version: 1\nlists:\n  - {name: x, action: drop, entries: [300.1.1.1]}\n")
        code, _, err = session.controlctl("shadow", bad)
        equal(code, 1, "a bad policy")
        check("bad.yaml:3:" in err and "300.1.1.1" in err, f"its error names the place: {err}")
        equal(ask(session)["on"], False, "still no shadow")

        begun = ask(session, candidate, "--one-in", "7")
        equal((begun["ok"], begun["on"], begun["one_in"], begun["file"]), (True, True, 7, candidate), "it has begun")
        session.wait("packets that were judged", lambda: ask(session)["packets"] > 100)
        share = ask(session)["packets"] / session.stats()["packets"]
        check(share < 0.5, f"one in 7 judges about a seventh, not {share:.2f}")
        code, out, err = session.controlctl("shadow")
        equal(code, 0, f"shown: {err}")
        check("newly dropped" in out and "fresh" in out and "one batch of packets in 7" in out, f"shown for people:\n{out}")

        # A reload goes on beside it; the list that drops is counted by its new name.
        renamed = write(session.folder, "renamed.yaml", open(running, encoding="utf-8").read().replace("name: old", "name: older"))
        shutil.copy(running, running + ".kept")
        shutil.copy(renamed, running)
        controlctl(session, "reload")
        session.wait("packets of the new list", lambda: any(row["list"] == "older" for row in ask(session)["lists"]))
        check(any(row["list"] == "old" for row in ask(session)["lists"]), "what was counted before is kept")
        shutil.copy(running + ".kept", running)

        # A data plane that starts anew begins there anew; a controld that does, ends it.
        begun = session.log("dataplane").count("a shadow judges")
        session.kill("dataplane")
        start_loop(session, read_capture(os.path.join(folder, "frames.pcap")))
        session.wait("the shadow in the new data plane", lambda: session.log("dataplane").count("a shadow judges") > begun)
        session.wait("controld to know of it", lambda: ask(session, codes=(0, 3))["targets"][0]["acknowledged"])
        session.stop("controld")
        session.start_controld(running)
        session.wait_enforced()
        session.wait("the data plane to hear of the end", lambda: "the shadow ends" in session.log("dataplane"))
        equal(ask(session)["on"], False, "no shadow after a restart of controld")

        # Without changes since, the bytes are published as they are.
        begun = ask(session, candidate)
        promoted = ask(session, "--promote")
        equal((promoted["ok"], promoted.get("overlay_digest")), (True, None), "promoted as it is")
        equal(promoted["enforced_digest"], begun["digest"], "the digest that judged is enforced")
        equal(promoted["generation"], begun["candidate"], "under its own number")
        # Feeds are read where the promoted policy lies.
        feed = os.path.join(os.path.dirname(candidate), "feeds/fresh.txt")
        with open(feed, "a", encoding="ascii") as file:
            file.write("203.0.113.200\n")
        session.wait("the feed to be read", lambda: session.call("explain", key="203.0.113.200")["as_source"]["reason"] == "fresh")
        begun = ask(session, candidate)
        discarded = ask(session, "--discard")
        equal((discarded["on"], discarded["ended"]), (False, "discarded"), "discarded")
        equal(session.controlctl("shadow", "--promote")[0], 1, "nothing to promote any more")


with temporary_folder() as work:
    policies = counts_are_those_of_a_replay(work)
    promotes_without_loss(work)
    ends_and_begins(work, policies[0], policies[1])
