"""The worth of lists, of a data plane that judges traffic: drops that one list alone gives, verdicts, the matrix, and advice."""

import pytest

from weir_smoke import controlctl, make_samples, moved, order_bypass, read_capture, start_loop, write

POLICY = """version: 1
{targets}
lists:
  - {{name: partners, action: pass, match: either, entries: [198.18.7.0/24, "2001:db8:7::/48"]}}
  - {{name: scanners, action: drop, file: feeds/scanners.txt}}
{copy}
  - {{name: botnet, action: drop, file: feeds/botnet.txt, guard: {{max_shrink: 100%}}}}
  - {{name: watch, action: drop, mode: monitor, entries: [198.18.64.0/20, "2001:db8:64::/48"]}}
  - {{name: bans, action: drop, dynamic: true}}
"""
COPY = "  - {name: copy, action: drop, file: feeds/scanners.txt}"


def write_policy(session, copy=COPY, targets=""):
    return write(session.folder, "policy.yaml", POLICY.format(copy=copy, targets=targets))


def lists_of(session):
    answer = controlctl(session, "lists")
    return answer, {one["name"]: one for one in answer["lists"]}


def text_of(session, *arguments):
    code, out, err = session.controlctl(*arguments)
    assert code == 0, f"controlctl {' '.join(arguments)}: {out}{err}"
    return out


def cell(one, other):
    return next((held["entries"], held["addresses"]) for held in one["held_by"] if held["list"] == other)


@pytest.fixture
def samples(session):
    make_samples(session.folder, flows=200, frames=4000)


def hits_name_entries(session):
    session.wait("traffic", lambda: session.stats()["packets"] >= 50_000)
    session.wait("samples of traffic", lambda: lists_of(session)[0]["samples"] >= 100)
    lists = lists_of(session)[1]
    hits = lists["scanners"]["hits"]
    assert 0 < hits["entries"] <= hits["samples"] and hits["entries"] + hits["never"] == lists["scanners"]["entries"], hits
    assert lists["bans"]["hits"] == {"samples": 0, "entries": 0, "never": 0}, "hits of a list without entries"


def a_copy_can_go(session):
    answer, lists = lists_of(session)
    stats = session.stats()
    for name, one in lists.items():
        for counter in ("matched", "dropped", "dropped_alone", "would_drop", "would_drop_alone", "passed"):
            assert one[counter] == stats["lists"][name][counter], f"{name}: {counter} of lists and of stats"
    copy, scanners, botnet, watch = (lists[name] for name in ("copy", "scanners", "botnet", "watch"))
    assert copy["matched"] > 0 and copy["matched"] == scanners["matched"], f"matches of two equal lists: {copy}, {scanners}"
    assert (copy["dropped"], copy["dropped_alone"], scanners["dropped_alone"]) == (0, 0, 0), "drops that one of two equal lists gives alone"
    assert 0 < botnet["dropped_alone"] <= botnet["dropped"], f"drops of botnet alone: {botnet}"
    assert 0 < watch["would_drop_alone"] <= watch["would_drop"], f"drops that watch would give alone: {watch}"
    assert cell(copy, "scanners") == (copy["entries"], copy["addresses"]), "entries of the copy that scanners holds"
    assert (copy["unique_entries"], copy["unique_addresses"]) == (0, 0), "unique to the copy"
    assert copy["cost"]["bytes"] > 0 and copy["cost"]["bytes_alone"] == 0, f"cost of the copy: {copy['cost']}"
    verdict = answer["verdicts"][0]
    assert (verdict["kind"], verdict["list"], verdict["other"]) == ("can_go", "copy", "scanners"), "the first verdict"
    again = lists_of(session)[0]
    assert (again["at"], again["took_ms"]) == (answer["at"], answer["took_ms"]), "one comparison for each generation"
    text = text_of(session, "lists")
    assert text.startswith(f"copy can go: scanners holds all of its {copy['entries']} entries\n"), text
    assert "held most by" in text and "% of entries" not in text, text
    assert "% of entries" in text_of(session, "lists", "--matrix"), "--matrix prints the matrix"


def advice_names_lines_of_the_policy(session):
    advice = controlctl(session, "recommend")
    said = {(one["rule"], one["subject"]): one for one in advice["advice"]}
    assert ("list_can_go", "copy") in said and ("guard_off", "botnet") in said, advice
    assert said["guard_off", "botnet"]["policy"] == ["- name: botnet", "  guard: {max_shrink: 50%}"], "lines of the policy"
    waits = {one["rule"]: one["reason"] for one in advice["not_judged"]}
    assert "frames were counted for" in waits["enforce_monitored"], f"not judged: {waits}"
    text = text_of(session, "recommend")
    assert "take the list copy out\n  because  scanners holds all" in text and "not judged: enforce_monitored" in text, text
    assert "guard_off" in text_of(session, "recommend", "--rules"), "the rules are printed"


def without_the_copy_scanners_drops_alone(session):
    write_policy(session, copy="")
    controlctl(session, "reload")
    grown = moved(session)[1]["scanners"]
    assert grown["dropped"] > 0 and grown["dropped_alone"] > 0, grown
    answer, lists = lists_of(session)
    assert "copy" not in lists and lists["scanners"]["unique_entries"] > 0, lists["scanners"]
    assert answer["generation"] == controlctl(session, "status")["generation"], "the generation that was compared"


def test_a_copy_of_a_list_can_go(session, samples):
    policy = write_policy(session)
    start_loop(session, read_capture(session.path("capture.pcap")))
    session.start_controld(policy)
    session.wait_enforced()
    hits_name_entries(session)
    order_bypass(session, "on", "to count")  # counters of lists stand still
    a_copy_can_go(session)
    advice_names_lines_of_the_policy(session)
    order_bypass(session, "off", "to go on")
    without_the_copy_scanners_drops_alone(session)


def test_an_added_entry_counts_until_its_end(session, samples, clock):
    session.start_controld(write_policy(session, targets="targets: []"), targets=False)
    controlctl(session, "add", "198.18.7.9", "--list", "bans", "--ttl", "1h")
    bans = lists_of(session)[1]["bans"]
    assert (bans["entries"], bans["addresses"], cell(bans, "partners")) == (1, 1, (1, 1)), "an entry that a pass list holds"
    advice = {(one["rule"], one["subject"]) for one in controlctl(session, "recommend")["advice"]}
    assert ("pass_shadows", "bans") in advice, advice
    number = session.call("status")["generation"]["number"]
    clock.pass_time(3601)
    session.wait("the entry to end", lambda: lists_of(session)[1]["bans"]["entries"] == 0)
    assert session.call("status")["generation"]["number"] == number, "the end of an entry needs no publication"
