#include "filter/read/validate.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "filter/format/buckets.h"
#include "filter/format/chunks.h"
#include "filter/format/packet.h"
#include "filter/format/rules.h"
#include "filter/format/snapshot.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"
#include "filter/read/sections.h"
#include "filter/read/validate_gates.h"

namespace weir::filter {
namespace {

class Validator {
 public:
  explicit Validator(std::span<const std::byte> bytes)
      : bytes_(bytes), sections_(bytes), header_(*reinterpret_cast<const weir_snapshot_header*>(bytes.data())) {}

  Result<void> run() {
    if (auto ok = header(); !ok) return ok;
    if (auto ok = lists(); !ok) return ok;
    if (auto ok = sets(); !ok) return ok;
    if (auto ok = rules(); !ok) return ok;
    if (auto ok = residuals(); !ok) return ok;
    if (auto ok = shapes(); !ok) return ok;
    if (auto ok = validate_gates(header_, sections_); !ok) return ok;
    if (auto ok = tables(); !ok) return ok;
    if (sections_.end() != bytes_.size()) {
      return bad("total_bytes", header_.total_bytes, "the last section ends at " + std::to_string(sections_.end()));
    }
    return {};
  }

 private:
  Result<void> header() const {
    if (header_.magic != WEIR_SNAPSHOT_MAGIC) return bad("magic", header_.magic, "not a weir snapshot");
    if (header_.version != WEIR_SNAPSHOT_VERSION) {
      return bad("version", header_.version,
                 "this program reads version " + std::to_string(WEIR_SNAPSHOT_VERSION) + " and does not guess");
    }
    if (header_.header_bytes != sizeof header_) {
      return bad("header_bytes", header_.header_bytes, "must be " + std::to_string(sizeof header_));
    }
    if (header_.total_bytes != bytes_.size()) {
      return bad("total_bytes", header_.total_bytes, "there are " + std::to_string(bytes_.size()) + " bytes");
    }
    if (header_.default_action > WEIR_DROP) return bad("default_action", header_.default_action, "pass is 0, drop 1");
    if (header_.unparsed_action > WEIR_DROP)
      return bad("unparsed_action", header_.unparsed_action, "pass is 0, drop 1");
    if (!all_zero(header_.reserved, sizeof header_.reserved)) return broken("reserved is not 0");
    if (header_.n_lists > WEIR_MAX_LISTS) return bad("n_lists", header_.n_lists, "at most 256");
    if (header_.n_shapes > WEIR_MAX_SHAPES) return bad("n_shapes", header_.n_shapes, "at most 32");
    if (header_.n_sets == 0) return bad("n_sets", 0, "set 0 is always there");
    if (header_.n_rules == 0) return bad("n_rules", 0, "rule 0 is always there");
    if (header_.n_residuals == 0) return bad("n_residuals", 0, "residual 0 is always there");
    if (header_.reserved1 != 0) return bad("reserved1", header_.reserved1, "must be 0");
    if ((header_.tunnels & ~WEIR_TUNNELS) != 0) return bad("tunnels", header_.tunnels, "at most 127");
    if (header_.base_number == 0 && (header_.base_digest[0] | header_.base_digest[1]) != 0) {
      return broken("base_digest is not 0, and there is no base");
    }
    if (header_.base_number != 0 && header_.base_number >= header_.number) {
      return bad("base_number", header_.base_number,
                 "not less than that of the overlay, " + std::to_string(header_.number));
    }
    return {};
  }

  Result<void> lists() {
    if (auto ok = sections_.next("lists", header_.lists, uint64_t{header_.n_lists} * sizeof(weir_list)); !ok) return ok;
    const weir_list* list = sections_.at<weir_list>(header_.lists);
    weir_snapshot_header expected = {};  // its three masks
    for (uint32_t l = 0; l < header_.n_lists; l++) {
      const std::string name = "lists[" + std::to_string(l) + "]";
      const size_t length = strnlen(list[l].name, sizeof list[l].name);
      if (!is_list_name({list[l].name, length})) return broken(name + ".name is not [A-Za-z0-9._-]{1,63}");
      if (!all_zero(list[l].name + length, sizeof list[l].name - length)) {
        return broken(name + ".name is not padded with NUL");
      }
      for (uint32_t other = 0; other < l; other++) {
        if (memcmp(list[other].name, list[l].name, sizeof list[l].name) == 0) {
          return broken(name + ".name is that of lists[" + std::to_string(other) + "] too");
        }
      }
      if (list[l].action > WEIR_DROP) return bad(name + ".action", list[l].action, "pass is 0, drop 1");
      if (list[l].mode > WEIR_MONITOR) return bad(name + ".mode", list[l].mode, "enforce is 0, monitor 1");
      if (list[l].action == WEIR_PASS && list[l].mode == WEIR_MONITOR) {
        return bad(name + ".mode", list[l].mode, "only drop lists can be monitored");
      }
      if (!all_zero(list[l].reserved, sizeof list[l].reserved)) return broken(name + ".reserved is not 0");
      list_mask(expected, list[l].action, list[l].mode)[l / 64] |= uint64_t{1} << (l % 64);
    }
    for (uint32_t word = 0; word < WEIR_LIST_WORDS; word++) {
      const std::string index = "[" + std::to_string(word) + "]";
      const std::string why = "does not agree with the list table";
      if (header_.pass_lists[word] != expected.pass_lists[word]) {
        return bad("pass_lists" + index, header_.pass_lists[word], why);
      }
      if (header_.drop_lists[word] != expected.drop_lists[word]) {
        return bad("drop_lists" + index, header_.drop_lists[word], why);
      }
      if (header_.monitor_lists[word] != expected.monitor_lists[word]) {
        return bad("monitor_lists" + index, header_.monitor_lists[word], why);
      }
    }
    return {};
  }

  Result<void> sets() {
    if (auto ok = sections_.next("sets", header_.sets, uint64_t{header_.n_sets} * sizeof(weir_set)); !ok) return ok;
    const weir_set* set = sections_.at<weir_set>(header_.sets);
    for (uint32_t id = 0; id < header_.n_sets; id++) {
      if (const char* problem = set_problem(set[id], id, header_.n_lists)) {
        return broken("sets[" + std::to_string(id) + "] " + problem);
      }
    }
    return {};
  }

  Result<void> rules() {
    if (auto ok = sections_.next("rules", header_.rules, uint64_t{header_.n_rules} * sizeof(weir_rule)); !ok) return ok;
    rules_ = sections_.at<weir_rule>(header_.rules);
    return {};
  }

  Result<void> residuals() {
    const uint64_t size_bytes = uint64_t{header_.n_residuals} * sizeof(weir_residual);
    if (auto ok = sections_.next("residuals", header_.residuals, size_bytes); !ok) return ok;
    const std::span residuals(sections_.at<weir_residual>(header_.residuals), header_.n_residuals);
    uint32_t in_chain = 0;
    for (uint32_t id = 0; id < residuals.size(); id++) {
      if (const char* problem = residual_problem(residuals[id], id, header_.n_sets, in_chain)) {
        return broken("residuals[" + std::to_string(id) + "]: " + problem);
      }
      in_chain = residuals[id].last == 1 ? 0 : in_chain + 1;
    }
    if (in_chain != 0) return broken("the last of the residuals does not end its chain");
    for (uint32_t id = 0; id < header_.n_rules; id++) {
      if (!rule_is_valid(rules_[id], id, header_.n_sets, residuals))
        return broken("rules[" + std::to_string(id) + "] names a set or chain that is not there");
    }
    return {};
  }

  Result<void> shapes() {
    unsigned per_family[2] = {};
    for (uint32_t i = 0; i < header_.n_shapes; i++) {
      const weir_shape& s = header_.shapes[i];
      const std::string name = "shapes[" + std::to_string(i) + "]";
      if (auto ok = shape_fields(name, s); !ok) return ok;
      if (i > 0 && s.family < header_.shapes[i - 1].family) return bad(name + ".family", s.family, "IPv4 comes first");
      if (++per_family[s.family == 6] > WEIR_MAX_SHAPES_PER_FAMILY) {
        return bad(name + ".family", s.family, "more than 16 shapes of it");
      }
      for (uint32_t other = 0; other < i; other++) {
        if (shape_of(s) == shape_of(header_.shapes[other])) {
          return broken(name + " is the same key shape as shapes[" + std::to_string(other) + "]");
        }
      }
    }
    const size_t unused = WEIR_MAX_SHAPES - header_.n_shapes;
    if (!all_zero(header_.shapes + header_.n_shapes, unused * sizeof(weir_shape))) {
      return bad("n_shapes", header_.n_shapes, "shapes behind that number must be 0");
    }
    return {};
  }

  Result<void> tables() {
    for (uint32_t i = 0; i < header_.n_shapes; i++) {
      const weir_shape& s = header_.shapes[i];
      const std::string name = "shapes[" + std::to_string(i) + "]";
      if (auto ok = s.layout == WEIR_LAYOUT_BITMAP ? bitmap(name, s) : hashed(name, s); !ok) return ok;
    }
    return {};
  }

  static Result<void> shape_fields(const std::string& name, const weir_shape& s) {
    if (s.family != 4 && s.family != 6) return bad(name + ".family", s.family, "4 or 6");
    if (s.addr_bits > (s.family == 4 ? 32 : 128))
      return bad(name + ".addr_bits", s.addr_bits, "longer than an address");
    if (s.with_port > 1) return bad(name + ".with_port", s.with_port, "0 or 1");
    if (s.flow > 1) return bad(name + ".flow", s.flow, "0 or 1");
    if (!shape_is_valid(shape_of(s))) return broken(name + ": no key has these fields");
    if (s.flow == 1 && (s.directions & WEIR_AS_DESTINATION) != 0) {
      return bad(name + ".directions", s.directions, "what a flow key means stands under source");
    }
    const auto layouts = all_layouts();
    const auto layout = std::find_if(layouts.begin(), layouts.end(), [&](const Layout& l) { return l.id == s.layout; });
    if (layout == layouts.end()) {
      return bad(name + ".layout", s.layout, "line8 is 1, bitmap 2, page2 3, page7 4, ribbon 5");
    }
    if (s.k < layout->min_k || s.k > layout->max_k || (s.k - layout->min_k) % layout->step_k != 0) {
      return bad(name + ".k", s.k, std::string(layout->name) + " has no keys of so many bits");
    }
    if (s.filter_lines == 0 || s.filter_lines % layout->unit_lines != 0) {
      return bad(name + ".filter_lines", s.filter_lines,
                 "not a positive multiple of " + std::to_string(layout->unit_lines));
    }
    if (s.directions > (WEIR_AS_SOURCE | WEIR_AS_DESTINATION)) return bad(name + ".directions", s.directions, "0 to 3");
    if (s.gate_side > (s.flow ? WEIR_SIDE_DESTINATION : 0)) {
      return bad(name + ".gate_side", s.gate_side, s.flow ? "source is 0, destination 1" : "only a flow shape has one");
    }
    if (!all_zero(s.reserved, sizeof s.reserved)) return broken(name + ".reserved is not 0");
    return {};
  }

  Result<void> hashed(const std::string& name, const weir_shape& s) {
    const uint32_t per_page = buckets_per_page(shape_of(s));
    if (s.exact_buckets == 0 || s.exact_buckets % per_page != 0) {
      return bad(name + ".exact_buckets", s.exact_buckets, "not a positive multiple of " + std::to_string(per_page));
    }
    if (!all_zero(&s.chunks, sizeof s.chunks)) return broken(name + ".chunks is not 0: only a bitmap has them");
    if (auto ok = sections_.next(name + ".filter", s.filter, uint64_t{s.filter_lines} * WEIR_LINE_BYTES); !ok)
      return ok;
    if (auto ok = sections_.next(name + ".exact", s.exact, exact_stage_bytes(shape_of(s), s.exact_buckets)); !ok)
      return ok;
    return with_bucket_type(shape_of(s),
                            [&]<class Bucket>() { return buckets(name, s, sections_.at<Bucket>(s.exact)); });
  }

  template <class Bucket>
  Result<void> buckets(const std::string& name, const weir_shape& s, const Bucket* bucket) const {
    uint64_t keys = 0;
    uint32_t reserved = 0;
    uint8_t sides = 0;
    for (uint32_t b = 0; b < s.exact_buckets; b++) {
      for (uint32_t rule : bucket[b].rule) {
        if (rule >= header_.n_rules) return bad(name + ", bucket " + std::to_string(b) + ": rule", rule, "not there");
        sides |= sides_of(rules_[rule]);
        keys += rule != 0;
      }
      if constexpr (std::is_same_v<Bucket, weir_bucket_flow>) {
        for (const uint32_t word : bucket[b].reserved) reserved |= word;
      } else if constexpr (requires { bucket[b].reserved; }) {
        reserved |= bucket[b].reserved;
      }
    }
    if (keys != s.n_keys) return bad(name + ".n_keys", s.n_keys, "its table holds " + std::to_string(keys));
    if (reserved != 0) return bad(name + ", a bucket's reserved", reserved, "must be 0");
    return sides_within(name, s, sides);
  }

  Result<void> bitmap(const std::string& name, const weir_shape& s) {
    if (!(shape_of(s) == KeyShape{.family = 4, .addr_bits = 24}))
      return bad(name + ".layout", s.layout, "a bitmap is for v4 addr/24");
    if (s.filter_lines != WEIR_BITMAP_BYTES / WEIR_LINE_BYTES) {
      return bad(name + ".filter_lines", s.filter_lines, "a bitmap has 2^24 / 512");
    }
    if (s.exact_buckets != 0) return bad(name + ".exact_buckets", s.exact_buckets, "a bitmap has none");
    const uint64_t n_chunks = s.chunks.size_bytes / sizeof(RuleChunk);
    if (n_chunks == 0 || n_chunks > kMaxChunks) return bad(name + ".chunks", n_chunks, "1 to 65537");
    if (auto ok = sections_.next(name + ".filter", s.filter, WEIR_BITMAP_BYTES); !ok) return ok;
    if (auto ok = sections_.next(name + ".exact", s.exact, kChunkSlots * sizeof(uint32_t)); !ok) return ok;
    if (auto ok = sections_.next(name + ".chunks", s.chunks, n_chunks * sizeof(RuleChunk)); !ok) return ok;

    const uint64_t* network = sections_.at<uint64_t>(s.filter);
    uint64_t n_set = 0;
    for (size_t w = 0; w < WEIR_BITMAP_BYTES / sizeof *network; w++) {
      n_set += static_cast<uint64_t>(std::popcount(network[w]));
    }
    if (n_set != s.n_keys) return bad(name + ".n_keys", s.n_keys, "its bitmap has " + std::to_string(n_set));
    const uint32_t* chunk_of = sections_.at<uint32_t>(s.exact);
    for (size_t slot = 0; slot < kChunkSlots; slot++) {
      if (chunk_of[slot] >= n_chunks) {
        return bad(name + ", chunk_of[" + std::to_string(slot) + "]", chunk_of[slot], "no such chunk");
      }
    }
    const uint32_t* rule = sections_.at<uint32_t>(s.chunks);
    if (!all_zero(rule, sizeof(RuleChunk))) return broken(name + ", chunk 0 is not all zero");
    uint8_t sides = 0;
    for (uint64_t i = 0; i < n_chunks * kChunkRules; i++) {
      if (rule[i] >= header_.n_rules) {
        return bad(name + ", chunk " + std::to_string(i / kChunkRules) + ": rule", rule[i], "not there");
      }
      sides |= sides_of(rules_[rule[i]]);
    }
    return sides_within(name, s, sides);
  }

  static Result<void> sides_within(const std::string& name, const weir_shape& s, uint8_t sides) {
    if ((sides & ~s.directions) == 0) return {};
    return bad(name + ".directions", s.directions, "its rules have lists on sides " + std::to_string(sides));
  }

  std::span<const std::byte> bytes_;
  Sections sections_;
  const weir_snapshot_header& header_;
  const weir_rule* rules_ = nullptr;
};

}  // namespace

Result<void> validate_snapshot(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(weir_snapshot_header)) {
    return bad("size", bytes.size(), "the header alone has " + std::to_string(sizeof(weir_snapshot_header)));
  }
  if (reinterpret_cast<uintptr_t>(bytes.data()) % WEIR_LINE_BYTES != 0) {
    return bad("address", reinterpret_cast<uintptr_t>(bytes.data()), "not a multiple of 64");
  }
  return Validator(bytes).run();
}

}  // namespace weir::filter
