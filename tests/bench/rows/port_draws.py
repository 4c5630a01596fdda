"""What all lists and frames of the port benchmarks are drawn with. The same seed gives the same bytes."""

SEED = 20260801
PORTS = (53, 80, 123, 443, 8080)
POLICY = "version: 1\nlists:\n"


def write_lines(path, lines):
    with open(path, "w", encoding="ascii") as file:
        file.writelines(lines)
    return path


def ports(rng):
    return rng.randrange(1024, 65536), rng.choice(PORTS)


def stranger_to(rng, draw, *known):
    """What draw(rng) gives, until none of these collections has it."""
    address = draw(rng)
    while any(address in addresses for addresses in known):
        address = draw(rng)
    return address


def sample(rng, population, count):
    """Each as often as the next, when there are fewer than are wanted."""
    rounds, rest = divmod(count, len(population))
    return population * rounds + rng.sample(population, rest)
