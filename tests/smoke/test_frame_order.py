"""No flow is reordered or loses a frame, whatever its neighbours are: numbered flows of plain, tagged, fragmented and tunnelled
frames. Their addresses are unlisted, next to listed ones, exempt, monitored, blocked, or blocked by one of two policies that
alternate all the time."""

import random

import pytest

from weir_smoke import BUILD, needs_root
from numbered import DROPPED, PASSED, Book, World, mixture
from order import SHARE_OF_VETH, measure_order

pytestmark = pytest.mark.timeout(300)

FRAMES = 200_000
MISTAKES = 20  # of each kind, at each output


@pytest.mark.parametrize(("way", "frames"), (
    pytest.param("pipes", FRAMES, id="full-bursts"),
    pytest.param("veth", round(FRAMES * SHARE_OF_VETH), id="bursts-of-any-size", marks=needs_root("interfaces need it"))))
def test_every_flow_keeps_its_order(way, frames):
    found = measure_order(BUILD, way, frames)
    assert found["violations"] == 0, found
    assert found["reloads"] > 0, "no reload fell into the traffic"


# The book of flows notices each mistake of a data plane.

@pytest.fixture
def world():
    return World(1)


@pytest.fixture
def stream(world):
    """(frames sent of each flow, [(flow, number)] of each output) of a data plane that makes no mistake."""
    sent, out = [0] * len(world.flows), ([], [])
    for flow in mixture(world, 20_000, 1):
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


def frames_with_a_successor(outputs):
    """(output, place of a frame, place of the next one of its flow), at random."""
    rng = random.Random(1)
    for output in (PASSED, DROPPED):
        tails = outputs[output]
        for _ in range(MISTAKES):
            at = rng.randrange(len(tails) // 2)
            other = next((place for place in range(at + 1, len(tails)) if tails[place][0] == tails[at][0]), None)
            if other is not None:
                yield output, at, other


def test_the_book_has_no_fault_for_a_right_stream(world, stream):
    assert faults_of(world, *stream) == {}


def swap(tails, at, other):
    tails[at], tails[other] = tails[other], tails[at]


def lose(tails, at, _):
    del tails[at]


def double(tails, at, other):
    tails.insert(other, tails[at])


@pytest.mark.parametrize(("mistake", "fault"), ((swap, "out of order"), (lose, "lost"), (double, "out of order")),
                         ids=("swapped", "lost", "doubled"))
def test_the_book_notices_a_mistake(world, stream, mistake, fault):
    sent, outputs = stream
    for output, at, other in frames_with_a_successor(outputs):
        wrong = [list(tails) for tails in outputs]
        mistake(wrong[output], at, other)
        assert faults_of(world, sent, wrong).get(fault, 0) > 0, f"not noticed at frame {at} of output {output}"


def test_the_book_notices_a_wrong_port(world, stream):
    sent, outputs = stream
    at = next(at for at, (flow, _) in enumerate(outputs[PASSED]) if world.flows[flow].fate == "neighbour")
    outputs[DROPPED].append(outputs[PASSED].pop(at))
    assert "wrong verdict" in faults_of(world, sent, outputs)
