#include "common/shadow.h"

#include <algorithm>
#include <cstring>

#include "common/wire_rows.h"

namespace weir::wire {

namespace {

bool is_sound(const ShadowCredit& credit) {
  return credit.by <= DroppedBy::no_snapshot && credit.dropped <= 1;
}

}  // namespace

ShadowList* row_of(const char (&name)[64], DroppedBy by, std::vector<ShadowList>& rows) {
  for (ShadowList& row : rows) {
    if (row.by == static_cast<uint32_t>(by) && strncmp(row.name, name, sizeof row.name) == 0) return &row;
  }
  if (rows.size() == kMaxShadowLists) return nullptr;
  ShadowList& row = rows.emplace_back();
  memcpy(row.name, name, sizeof row.name);
  row.by = static_cast<uint32_t>(by);
  return &row;
}

std::vector<std::byte> encode_shadow(const Shadow& shadow) {
  ShadowBody body = shadow.body;
  const size_t n_lists = std::min(shadow.lists.size(), kMaxShadowLists);
  const size_t n_samples = std::min(shadow.samples.size(), most_shadow_samples(n_lists));
  body.n_lists = static_cast<uint32_t>(n_lists);
  body.n_samples = static_cast<uint32_t>(n_samples);
  std::vector<std::byte> bytes;
  append(bytes, std::span<const ShadowBody>(&body, 1));
  append(bytes, std::span(shadow.lists).first(n_lists));
  append(bytes, std::span(shadow.samples).first(n_samples));
  return bytes;
}

std::optional<Shadow> shadow_from(const Message& message) {
  std::span<const std::byte> rest = message.body;
  if (rest.size() < sizeof(ShadowBody)) return std::nullopt;
  Shadow shadow;
  shadow.body = take<ShadowBody>(rest, 1).front();
  const uint64_t lists = shadow.body.n_lists, samples = shadow.body.n_samples;
  if (rest.size() != lists * sizeof(ShadowList) + samples * sizeof(ShadowSample)) return std::nullopt;
  shadow.lists = take<ShadowList>(rest, lists);
  shadow.samples = take<ShadowSample>(rest, samples);
  for (const ShadowSample& sample : shadow.samples) {
    if (!is_sound(sample.by_running) || !is_sound(sample.by_candidate)) return std::nullopt;
    if (sample.by_running.dropped == sample.by_candidate.dropped) return std::nullopt;
  }
  return shadow;
}

}  // namespace weir::wire
