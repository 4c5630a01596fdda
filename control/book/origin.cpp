#include "control/book/origin.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "control/book/origin_record.h"
#include "control/model/flow_condition.h"
#include "control/model/range_text.h"
#include "filter/format/snapshot.h"

namespace weir::control {
using namespace origin_file;

namespace {

void store(Ipv4& to, Ipv4 address) {
  to = address;
}
void store(uint64_t (&to)[2], Ipv6 address) {
  to[0] = static_cast<uint64_t>(address >> 64);
  to[1] = static_cast<uint64_t>(address);
}

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

TextRef add_text(std::string& text, const std::string& what) {
  const TextRef ref = {static_cast<uint32_t>(text.size()), static_cast<uint32_t>(what.size())};
  text += what;
  return ref;
}

template <class Record, class Addr>
void append_entries(std::string& bytes, unsigned list, const std::vector<Entry<Addr>>& entries) {
  for (const Entry<Addr>& entry : entries) {
    if (entry.expires != kNever) continue;
    Record record;
    store(record.first, entry.first);
    store(record.last, entry.last);
    record.place = {entry.line, entry.port, static_cast<uint8_t>(list),
                    static_cast<uint8_t>(entry.directions | entry.source << kSourceShift)};
    append(bytes, record);
  }
}

// Collects the conditional entries and their texts.
class Conditional {
 public:
  explicit Conditional(std::string& text) : text_(text) {}

  template <class Addr>
  void add_expiring(unsigned list, const std::vector<Entry<Addr>>& entries) {
    for (const Entry<Addr>& entry : entries) {
      if (entry.expires == kNever) continue;
      RecordConditional& record = add(list, entry.line, sizeof(Addr) == sizeof(Ipv4) ? 4 : 6,
                                      range_text(entry.first, entry.last, entry.port) + expiry_text(entry.expires));
      record.place.flags = static_cast<uint8_t>(entry.directions | entry.source << kSourceShift);
      record.place.port = entry.port;
      for (const int side : {0, 1}) {
        if ((entry.directions & (side == 0 ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION)) == 0) continue;
        weir_residual& condition = record.condition;
        store(side == 0 ? condition.source_first : condition.destination_first, entry.first);
        store(side == 0 ? condition.source_last : condition.destination_last, entry.last);
      }
      record.condition.asks = WEIR_ASKS_EXPIRES;
      record.condition.expires_unix_s = entry.expires;
    }
  }

  void add_flows(unsigned list, const std::vector<Flow>& flows) {
    for (const Flow& flow : flows) {
      RecordConditional& record = add(list, flow.line, flow.family, flow_text(flow));
      record.place.flags = static_cast<uint8_t>((flow.src ? WEIR_AS_SOURCE : 0) | (flow.dst ? WEIR_AS_DESTINATION : 0));
      record.condition = condition_of(flow);
      if (!flow.src) name_no_address(record.condition.source_first);
      if (!flow.dst) name_no_address(record.condition.destination_first);
    }
  }

  const std::vector<RecordConditional>& records() const { return records_; }

 private:
  static void name_no_address(uint64_t (&first)[2]) { first[0] = UINT64_MAX; }

  RecordConditional& add(unsigned list, uint32_t line, uint8_t family, const std::string& what) {
    RecordConditional record = {};
    name_no_address(record.condition.source_first);
    name_no_address(record.condition.destination_first);
    record.text = add_text(text_, what);
    record.place = {line, 0, static_cast<uint8_t>(list), 0};
    record.family = family;
    return records_.emplace_back(record);
  }

  std::string& text_;
  std::vector<RecordConditional> records_;
};

}  // namespace

std::string write_origins(const Policy& policy) {
  Header header = {kMagic, kVersion, static_cast<uint32_t>(policy.lists.size()), 0, 0, 0, 0};
  std::string text;
  std::vector<ListRecord> lists;
  const TextRef policy_path = add_text(text, policy.path);
  for (const List& list : policy.lists) {
    lists.push_back({add_text(text, list.name), {policy_path, add_text(text, list.feed.path)}});
    const auto lasts = [](const auto& entry) { return entry.expires == kNever; };
    header.n_v4 += static_cast<uint64_t>(std::count_if(list.v4.begin(), list.v4.end(), lasts));
    header.n_v6 += static_cast<uint64_t>(std::count_if(list.v6.begin(), list.v6.end(), lasts));
  }
  Conditional conditional(text);
  for (unsigned l = 0; l < policy.lists.size(); l++) {
    conditional.add_expiring(l, policy.lists[l].v4);
    conditional.add_expiring(l, policy.lists[l].v6);
    conditional.add_flows(l, policy.lists[l].flows);
  }
  header.n_conditional = conditional.records().size();
  header.text_bytes = text.size();

  std::string bytes;
  bytes.reserve(sizeof header + lists.size() * sizeof(ListRecord) + header.n_v4 * sizeof(RecordV4) +
                header.n_v6 * sizeof(RecordV6) + header.n_conditional * sizeof(RecordConditional) + text.size());
  append(bytes, header);
  for (const ListRecord& list : lists) append(bytes, list);
  for (unsigned l = 0; l < policy.lists.size(); l++) append_entries<RecordV4>(bytes, l, policy.lists[l].v4);
  for (unsigned l = 0; l < policy.lists.size(); l++) append_entries<RecordV6>(bytes, l, policy.lists[l].v6);
  for (const RecordConditional& record : conditional.records()) append(bytes, record);
  return bytes += text;
}

template <class Record>
Result<void> OriginView::check_records(const std::byte* records, uint64_t n, size_t n_lists) {
  for (uint64_t i = 0; i < n; i++) {
    const auto record = load<Record>(records + i * sizeof(Record));
    const uint8_t flags = record.place.flags;
    if (record.place.list >= n_lists || (flags & ~kFlags) != 0 || (flags & kDirections) == 0 ||
        address_of(record.first) > address_of(record.last)) {
      return Error{"origin file: entry " + std::to_string(i) + " is damaged"};
    }
  }
  return {};
}

Result<OriginView> OriginView::open(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Header)) {
    return Error{"origin file: " + std::to_string(bytes.size()) + " bytes are too few for a header"};
  }
  const auto header = load<Header>(bytes.data());
  if (header.magic != kMagic) return Error{"origin file: not one (wrong magic number)"};
  if (header.version != kVersion) {
    return Error{"origin file: version " + std::to_string(header.version) + ", this program reads version " +
                 std::to_string(kVersion)};
  }
  if (header.n_lists > WEIR_MAX_LISTS) return Error{"origin file: too many lists"};

  // Each part must fit what the parts before it left, so nothing can overflow.
  std::span<const std::byte> rest = bytes.subspan(sizeof(Header));
  const auto take = [&rest](uint64_t n, size_t record_bytes) -> std::optional<std::span<const std::byte>> {
    if (n > rest.size() / record_bytes) return std::nullopt;
    const auto part = rest.first(static_cast<size_t>(n) * record_bytes);
    rest = rest.subspan(part.size());
    return part;
  };
  const auto lists = take(header.n_lists, sizeof(ListRecord));
  const auto v4 = lists ? take(header.n_v4, sizeof(RecordV4)) : std::nullopt;
  const auto v6 = v4 ? take(header.n_v6, sizeof(RecordV6)) : std::nullopt;
  const auto conditional = v6 ? take(header.n_conditional, sizeof(RecordConditional)) : std::nullopt;
  if (!conditional || rest.size() != header.text_bytes) {
    return Error{"origin file: " + std::to_string(bytes.size()) + " bytes are not what its header says"};
  }

  OriginView view;
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), rest.size());
  for (uint32_t l = 0; l < header.n_lists; l++) {
    const auto record = load<ListRecord>(lists->data() + l * sizeof(ListRecord));
    for (const TextRef& ref : {record.name, record.files[0], record.files[1]}) {
      if (ref.offset > text.size() || ref.bytes > text.size() - ref.offset) {
        return Error{"origin file: list " + std::to_string(l) + " is damaged"};
      }
    }
    const auto piece = [text](TextRef ref) { return text.substr(ref.offset, ref.bytes); };
    view.lists_.push_back({piece(record.name), {piece(record.files[0]), piece(record.files[1])}});
  }
  view.v4_ = v4->data();
  view.v6_ = v6->data();
  view.conditional_ = conditional->data();
  view.text_ = text;
  view.n_v4_ = header.n_v4;
  view.n_v6_ = header.n_v6;
  view.n_conditional_ = header.n_conditional;
  for (uint64_t i = 0; i < view.n_conditional_; i++) {
    const auto record = load<RecordConditional>(view.conditional_ + i * sizeof(RecordConditional));
    const bool whole = record.place.list < view.lists_.size() && (record.place.flags & ~kFlags) == 0 &&
                       record.text.offset <= text.size() && record.text.bytes <= text.size() - record.text.offset;
    if (!whole) return Error{"origin file: conditional entry " + std::to_string(i) + " is damaged"};
  }
  if (auto ok = check_records<RecordV4>(view.v4_, view.n_v4_, view.lists_.size()); !ok) return Error{ok.error()};
  if (auto ok = check_records<RecordV6>(view.v6_, view.n_v6_, view.lists_.size()); !ok) return Error{ok.error()};
  return view;
}

template <class Record, class Addr>
std::vector<OriginMatch> OriginView::scan(const std::byte* records, uint64_t n, Addr address, uint16_t port) const {
  std::vector<OriginMatch> matches;
  for (uint64_t i = 0; i < n; i++) {
    const auto record = load<Record>(records + i * sizeof(Record));
    const Addr first = address_of(record.first), last = address_of(record.last);
    const Place& place = record.place;
    if (address < first || address > last || (place.port != 0 && place.port != port)) continue;
    const Source& list = lists_[place.list];
    const std::string_view file = list.files[place.flags >> kSourceShift];
    matches.push_back({std::string(list.name), std::string(file), place.line, range_text(first, last, place.port),
                       static_cast<uint8_t>(place.flags & kDirections)});
  }
  return matches;
}

void OriginView::scan_conditional(uint8_t family, Ipv6 address, uint16_t port,
                                  std::vector<OriginMatch>& matches) const {
  for (uint64_t i = 0; i < n_conditional_; i++) {
    const auto record = load<RecordConditional>(conditional_ + i * sizeof(RecordConditional));
    const uint8_t sides = record.place.flags & kDirections;
    const auto names_it = [&](int side) {
      return first_of(record.condition, side) <= address && address <= last_of(record.condition, side);
    };
    if (record.family != 0 && record.family != family) continue;
    if (record.place.port != 0 && record.place.port != port) continue;
    if (sides != 0 && !names_it(0) && !names_it(1)) continue;
    const Source& list = lists_[record.place.list];
    matches.push_back({std::string(list.name), std::string(list.files[record.place.flags >> kSourceShift]),
                       record.place.line, std::string(text_.substr(record.text.offset, record.text.bytes)), sides});
  }
}

std::vector<OriginMatch> OriginView::find(Ipv4 address, uint16_t port) const {
  std::vector<OriginMatch> matches = scan<RecordV4>(v4_, n_v4_, address, port);
  scan_conditional(4, address, port, matches);
  return matches;
}

std::vector<OriginMatch> OriginView::find(Ipv6 address, uint16_t port) const {
  std::vector<OriginMatch> matches = scan<RecordV6>(v6_, n_v6_, address, port);
  scan_conditional(6, address, port, matches);
  return matches;
}

}  // namespace weir::control
