"""What lists are worth, of a data plane that judges traffic: counters of drops that one list alone gives, verdicts, the matrix,
and what is recommended."""

from weir_smoke import BUILD, Session, check, controlctl, equal, make_samples, moved, order_bypass, read_capture, start_loop, write

POLICY = """version: 1
lists:
  - {{name: partners, action: pass, match: either, entries: [198.18.7.0/24, "2001:db8:7::/48"]}}
  - {{name: scanners, action: drop, file: feeds/scanners.txt}}
{copy}
  - {{name: botnet, action: drop, file: feeds/botnet.txt, guard: {{max_shrink: 100%}}}}
  - {{name: watch, action: drop, mode: monitor, entries: [198.18.64.0/20, "2001:db8:64::/48"]}}
  - {{name: bans, action: drop, dynamic: true}}
"""
COPY = "  - {name: copy, action: drop, file: feeds/scanners.txt}"


def lists_of(session):
    answer = controlctl(session, "lists")
    return answer, {one["name"]: one for one in answer["lists"]}


def text_of(session, *arguments):
    code, out, err = session.controlctl(*arguments)
    equal(code, 0, f"controlctl {' '.join(arguments)}: {out}{err}")
    return out


def cell(one, other):
    return next((held["entries"], held["addresses"]) for held in one["held_by"] if held["list"] == other)


with Session(BUILD) as session:
    make_samples(session.folder, flows=200, frames=4000)
    policy = write(session.folder, "policy.yaml", POLICY.format(copy=COPY))
    start_loop(session, read_capture(session.path("capture.pcap")))
    session.start_controld(policy)
    session.wait_enforced()
    session.wait("traffic", lambda: session.stats()["packets"] >= 50_000)
    # Samples name the entries that were hit.
    session.wait("samples of traffic", lambda: lists_of(session)[0]["samples"] >= 100)
    lists = lists_of(session)[1]
    hits = lists["scanners"]["hits"]
    check(0 < hits["entries"] <= hits["samples"] and hits["entries"] + hits["never"] == lists["scanners"]["entries"],
          f"hits of scanners: {hits}")
    equal(lists["bans"]["hits"], {"samples": 0, "entries": 0, "never": 0}, "hits of a list without entries")
    order_bypass(session, "on", "to count")  # what lists count stands still

    answer, lists = lists_of(session)
    stats = session.stats()
    for name, one in lists.items():
        for counter in ("matched", "dropped", "dropped_alone", "would_drop", "would_drop_alone", "passed"):
            equal(one[counter], stats["lists"][name][counter], f"{name}: {counter} of lists and of stats")
    copy, scanners, botnet, watch = (lists[name] for name in ("copy", "scanners", "botnet", "watch"))
    check(copy["matched"] > 0 and copy["matched"] == scanners["matched"], f"the copy matches the same: {copy}, {scanners}")
    equal((copy["dropped"], copy["dropped_alone"], scanners["dropped_alone"]), (0, 0, 0), "drops that one of two gives alone")
    check(0 < botnet["dropped_alone"] <= botnet["dropped"], f"drops of botnet alone: {botnet}")
    check(0 < watch["would_drop_alone"] <= watch["would_drop"], f"what watch would drop alone: {watch}")
    equal(cell(copy, "scanners"), (copy["entries"], copy["addresses"]), "what scanners hold of the copy")
    equal((copy["unique_entries"], copy["unique_addresses"]), (0, 0), "unique to the copy")
    check(copy["cost"]["bytes"] > 0 and copy["cost"]["bytes_alone"] == 0, f"cost of the copy: {copy['cost']}")
    verdict = answer["verdicts"][0]
    equal((verdict["kind"], verdict["list"], verdict["other"]), ("can_go", "copy", "scanners"), "the first verdict")
    again = lists_of(session)[0]
    equal((again["at"], again["took_ms"]), (answer["at"], answer["took_ms"]), "a comparison is made once a generation")

    text = text_of(session, "lists")
    check(text.startswith(f"copy can go: scanners holds all of its {copy['entries']} entries\n"), text)
    check("held most by" in text and "% of entries" not in text, text)
    check("% of entries" in text_of(session, "lists", "--matrix"), "--matrix prints the matrix")

    # The advice of the same, and what there are not enough data for.
    advice = controlctl(session, "recommend")
    said = {(one["rule"], one["subject"]): one for one in advice["advice"]}
    check(("list_can_go", "copy") in said and ("guard_off", "botnet") in said, f"advice: {advice}")
    equal(said["guard_off", "botnet"]["policy"], ["- name: botnet", "  guard: {max_shrink: 50%}"], "lines of the policy")
    waits = {one["rule"]: one["reason"] for one in advice["not_judged"]}
    check("frames were counted for" in waits["enforce_monitored"], f"not judged: {waits}")
    text = text_of(session, "recommend")
    check("take the list copy out\n  because  scanners holds all" in text and "not judged: enforce_monitored" in text, text)
    check("guard_off" in text_of(session, "recommend", "--rules"), "the rules are printed")

    # Without the copy the scanners drop alone.
    order_bypass(session, "off", "to go on")
    write(session.folder, "policy.yaml", POLICY.format(copy=""))
    controlctl(session, "reload")
    grown = moved(session)[1]["scanners"]
    check(grown["dropped"] > 0 and grown["dropped_alone"] > 0, f"without the copy: {grown}")
    answer, lists = lists_of(session)
    check("copy" not in lists and lists["scanners"]["unique_entries"] > 0, f"without the copy: {lists['scanners']}")
    equal(answer["generation"], controlctl(session, "status")["generation"], "the generation that was compared")

    # What is added counts at once; what ends is in none any more, without a publication.
    controlctl(session, "add", "198.18.7.9", "--list", "bans", "--ttl", "3s")
    bans = lists_of(session)[1]["bans"]
    if bans["entries"] == 1:  # else three seconds were over
        equal(cell(bans, "partners"), (1, 0) if bans["addresses"] == 0 else (1, 1), "an entry that a pass list holds")
        check(any(one["rule"] == "pass_shadows" and one["subject"] == "bans"
                  for one in controlctl(session, "recommend")["advice"]) or lists_of(session)[1]["bans"]["entries"] == 0,
              "a pass list that holds an entry")
    session.wait("the entry to end", lambda: lists_of(session)[1]["bans"]["entries"] == 0)
