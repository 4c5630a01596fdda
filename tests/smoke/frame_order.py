"""No flow is reordered or loses a frame, whatever its neighbours are: numbered flows of plain, tagged, fragmented and tunnelled
frames whose addresses are unlisted, next to listed ones, exempt, monitored, blocked, or blocked by one of two policies that
are exchanged all the time. Through pipes at full speed, and through veth in bunches of any size with pauses between.

    frame_order.py [--frames N] [--count] [--seed N]
--count: the last line is the number of frames that came too early, too late, not at all, twice, or out of the wrong port,
and what was done; for scripts/figures. Without: any of them fails the test."""

import argparse
import random

from weir_smoke import BUILD, NoNamespace, Session, check, equal

from numbered import DROPPED, PASSED, Book, World, mixture
from order import run_order
from turns import make_interfaces

FRAMES = 200_000
SHARE_OF_VETH = 0.1  # it is that much slower


def tails_of(world, order):
    """What a data plane that makes no mistake puts out under the first policy: [(flow, number)] by output."""
    sent, out = [0] * len(world.flows), ([], [])
    for flow in order:
        out[flow.out[0]].append((flow.number, sent[flow.number]))
        sent[flow.number] += 1
    return sent, out


def faults_of(world, sent, outputs):
    book = Book(world)
    book.sent = sent
    for output, tails in zip((PASSED, DROPPED), outputs):
        book.frames(output, tails)
    book.close()
    return book.faults


def later_of_flow(tails, at):
    return next((place for place in range(at + 1, len(tails)) if tails[place][0] == tails[at][0]), None)


def prove_that_it_can_fail():
    """Deliberate mistakes in what came out."""
    world = World(1)
    sent, right = tails_of(world, mixture(world, 20_000, 1))
    equal(faults_of(world, sent, right), {}, "faults of a stream without any")
    rng = random.Random(1)
    for output in (PASSED, DROPPED):
        for _ in range(20):
            at = rng.randrange(len(right[output]) // 2)
            other = later_of_flow(right[output], at)
            if other is None:
                continue
            swapped = [list(tails) for tails in right]
            swapped[output][at], swapped[output][other] = swapped[output][other], swapped[output][at]
            check(faults_of(world, sent, swapped).get("out of order", 0) > 0, "two frames of a flow change places: not seen")
            lost = [list(tails) for tails in right]
            del lost[output][at]
            check("lost" in faults_of(world, sent, lost), "a frame is lost: not seen")
            twice = [list(tails) for tails in right]
            twice[output].insert(other, twice[output][at])
            check("out of order" in faults_of(world, sent, twice), "a frame comes twice: not seen")
    wrong = [list(tails) for tails in right]
    constant = next(at for at, (flow, _) in enumerate(wrong[PASSED]) if world.flows[flow].fate == "neighbour")
    wrong[DROPPED].append(wrong[PASSED].pop(constant))
    check("wrong verdict" in faults_of(world, sent, wrong), "a frame comes out of the wrong port: not seen")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    prove_that_it_can_fail()
    ways = {"pipes": arguments.frames}
    try:
        make_interfaces()
        ways["veth"] = round(arguments.frames * SHARE_OF_VETH)
    except NoNamespace as reason:
        print(f"not on veth: {reason}")
    violations, notes = 0, []
    for way, frames in ways.items():
        with Session(BUILD) as session:
            book, reloads = run_order(session, way, frames, arguments.seed)
            equal(session.stop("controld"), 0, "controld's exit code")
            equal(session.stop("dataplane"), 0, "the data plane's exit code")
        violations += book.violations()
        notes.append(f"{way}: {sum(book.came)} frames of {len(book.came)} flows, {reloads} reloads, {book.faults or 'no fault'}")
        for fault in book.told:
            print(f"{way}: {fault}")
        check(reloads > 0, f"{way}: no reload fell into the traffic")
    print(f"{violations} " + "; ".join(notes))
    if not arguments.count:
        equal(violations, 0, "frames out of order, lost, twice or at the wrong port")


if __name__ == "__main__":
    main()
