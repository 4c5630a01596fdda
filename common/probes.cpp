#include "common/probes.h"

#include <algorithm>

#include "common/wire_rows.h"

namespace weir::wire {

static_assert(sizeof(ShapeProbes) == 48 && sizeof(ProbesBody) == 56, "no padding");
static_assert(sizeof(Header) + sizeof(ProbesBody) + kMaxProbed * sizeof(ShapeProbes) <= kMaxMessageBytes);

namespace {

// Counters are read one after the other while packets come, so of the first three none is compared.
bool is_sound(const ShapeProbes& one) {
  return one.of_overlay <= 1 && one.absent_let_through <= one.absent;
}

}  // namespace

std::vector<std::byte> encode_probes(const Probes& probes) {
  ProbesBody body = probes.body;
  body.n_shapes = static_cast<uint32_t>(probes.shapes.size());
  std::vector<std::byte> bytes;
  append(bytes, std::span<const ProbesBody>(&body, 1));
  append(bytes, std::span<const ShapeProbes>(probes.shapes));
  return bytes;
}

std::optional<Probes> probes_from(const Message& message) {
  std::span<const std::byte> rest = message.body;
  if (rest.size() < sizeof(ProbesBody)) return std::nullopt;
  Probes probes;
  probes.body = take<ProbesBody>(rest, 1).front();
  const uint32_t n_shapes = probes.body.n_shapes;
  if (n_shapes > kMaxProbed || rest.size() != n_shapes * sizeof(ShapeProbes)) return std::nullopt;
  probes.shapes = take<ShapeProbes>(rest, n_shapes);
  if (!std::all_of(probes.shapes.begin(), probes.shapes.end(), is_sound)) return std::nullopt;
  return probes;
}

}  // namespace weir::wire
