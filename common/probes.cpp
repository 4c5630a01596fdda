#include "common/probes.h"

#include <algorithm>
#include <cstring>

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
  const std::span<const std::byte> head = bytes_of(body), shapes = std::as_bytes(std::span(probes.shapes));
  std::vector<std::byte> bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), shapes.begin(), shapes.end());
  return bytes;
}

std::optional<Probes> probes_from(const Message& message) {
  Probes probes;
  ProbesBody& body = probes.body;
  if (message.body.size() < sizeof body) return std::nullopt;
  memcpy(static_cast<void*>(&body), message.body.data(), sizeof body);
  const std::span<const std::byte> rest = std::span(message.body).subspan(sizeof body);
  if (body.n_shapes > kMaxProbed || rest.size() != body.n_shapes * sizeof(ShapeProbes)) return std::nullopt;
  probes.shapes.resize(body.n_shapes);
  if (!rest.empty()) memcpy(static_cast<void*>(probes.shapes.data()), rest.data(), rest.size());
  if (!std::all_of(probes.shapes.begin(), probes.shapes.end(), is_sound)) return std::nullopt;
  return probes;
}

}  // namespace weir::wire
