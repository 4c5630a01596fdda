#include <algorithm>
#include <tuple>

#include "control/book/origin.h"
#include "control/book/origin_record.h"
#include "control/model/range_text.h"
#include "filter/format/residual.h"

// The entries that packets match: many packets in one scan, since the file has no index.
namespace weir::control {

using namespace origin_file;

namespace {

template <class Addr>
struct Probe {
  uint8_t list;
  Addr address;
  uint16_t port;  // 0: none
  uint8_t side;   // weir_direction
  size_t question;
  auto order() const { return std::tie(list, address); }
};

uint16_t port_of(const weir_packet& packet, weir_side side) {
  return (packet.has & WEIR_HAS_PORTS) != 0 ? __builtin_bswap16(packet.port[side]) : uint16_t{0};
}

template <class Addr>
Addr address_of_packet(const weir_packet& packet, weir_side side) {
  if constexpr (sizeof(Addr) == sizeof(Ipv4)) {
    return __builtin_bswap32(static_cast<uint32_t>(packet.address[side][0]));
  } else {
    return Ipv6{__builtin_bswap64(packet.address[side][0])} << 64 | __builtin_bswap64(packet.address[side][1]);
  }
}

// The best entry so far: the one that is written first.
struct Found {
  Place place;
  std::string text;
};

auto written_at(const Place& place) {
  return std::make_tuple(place.flags >> kSourceShift, place.line);
}

template <class Text>
void offer(std::optional<Found>& found, const Place& place, Text text) {
  if (!found || written_at(place) < written_at(found->place)) found = Found{place, text()};
}

template <class Record, class Addr>
void search(const std::byte* records, uint64_t n, std::vector<Probe<Addr>>& probes,
            std::vector<std::optional<Found>>& found) {
  if (probes.empty()) return;
  std::sort(probes.begin(), probes.end(), [](const auto& a, const auto& b) { return a.order() < b.order(); });
  for (uint64_t i = 0; i < n; i++) {
    const auto record = load<Record>(records + i * sizeof(Record));
    const Addr first = address_of(record.first), last = address_of(record.last);
    const Place& place = record.place;
    auto probe = std::lower_bound(probes.begin(), probes.end(), std::tie(place.list, first),
                                  [](const auto& p, const auto& wanted) { return p.order() < wanted; });
    for (; probe != probes.end() && probe->list == place.list && probe->address <= last; ++probe) {
      if ((place.flags & probe->side) == 0 || (place.port != 0 && place.port != probe->port)) continue;
      offer(found[probe->question], place, [&] { return range_text(first, last, place.port); });
    }
  }
}

bool matches(const RecordConditional& record, const weir_packet& packet, uint64_t now) {
  if (record.family != 0 && record.family != packet.family) return false;
  if (weir_residual_holds(&record.condition, &packet, now) == 0) return false;
  const uint8_t sides = record.place.flags & kDirections;
  const bool is_flow = sides == 0 || (record.condition.asks & (WEIR_ASKS_SOURCE | WEIR_ASKS_DESTINATION)) != 0;
  if (is_flow) return true;
  const auto on = [&](weir_side side, weir_direction direction) {
    if ((sides & direction) == 0) return false;
    const Ipv6 address =
        packet.family == 4 ? Ipv6{address_of_packet<Ipv4>(packet, side)} : address_of_packet<Ipv6>(packet, side);
    return first_of(record.condition, side) <= address && address <= last_of(record.condition, side) &&
           (record.place.port == 0 || record.place.port == port_of(packet, side));
  };
  return on(WEIR_SIDE_SOURCE, WEIR_AS_SOURCE) || on(WEIR_SIDE_DESTINATION, WEIR_AS_DESTINATION);
}

}  // namespace

std::vector<std::optional<OriginMatch>> OriginView::first_matches(std::span<const OriginQuestion> questions) const {
  std::vector<std::optional<Found>> found(questions.size());
  std::vector<Probe<Ipv4>> v4;
  std::vector<Probe<Ipv6>> v6;
  std::vector<std::vector<size_t>> of_list(lists_.size());
  for (size_t q = 0; q < questions.size(); q++) {
    const weir_packet& packet = questions[q].packet;
    const auto list = std::find_if(lists_.begin(), lists_.end(),
                                   [&](const Source& source) { return source.name == questions[q].list; });
    if (list == lists_.end() || (packet.family != 4 && packet.family != 6)) continue;
    const auto index = static_cast<uint8_t>(list - lists_.begin());
    of_list[index].push_back(q);
    for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      const uint8_t direction = side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
      const uint16_t port = port_of(packet, side);
      if (packet.family == 4) v4.push_back({index, address_of_packet<Ipv4>(packet, side), port, direction, q});
      if (packet.family == 6) v6.push_back({index, address_of_packet<Ipv6>(packet, side), port, direction, q});
    }
  }
  search<RecordV4>(v4_, n_v4_, v4, found);
  search<RecordV6>(v6_, n_v6_, v6, found);
  for (uint64_t i = 0; i < n_conditional_; i++) {
    const auto record = load<RecordConditional>(conditional_ + i * sizeof(RecordConditional));
    for (const size_t q : of_list[record.place.list]) {
      if (!matches(record, questions[q].packet, questions[q].now)) continue;
      offer(found[q], record.place, [&] { return std::string(text_.substr(record.text.offset, record.text.bytes)); });
    }
  }

  std::vector<std::optional<OriginMatch>> answers(questions.size());
  for (size_t q = 0; q < questions.size(); q++) {
    if (!found[q]) continue;
    const Place& place = found[q]->place;
    const Source& list = lists_[place.list];
    answers[q] = OriginMatch{std::string(list.name), std::string(list.files[place.flags >> kSourceShift]), place.line,
                             std::move(found[q]->text), static_cast<uint8_t>(place.flags & kDirections)};
  }
  return answers;
}

}  // namespace weir::control
