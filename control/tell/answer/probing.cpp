#include "control/tell/answer/probing.h"

#include "control/compile/plan/plan.h"
#include "control/compile/prove/verdict.h"
#include "control/policy/model/flow_condition.h"
#include "control/policy/model/range_text.h"
#include "filter/format/rules.h"
#include "filter/format/siphash.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"

namespace weir::control {
std::vector<std::string> lists_of(const filter::SnapshotView& snapshot) {
  std::vector<std::string> names;
  for (uint32_t l = 0; l < snapshot.header().n_lists; l++) names.emplace_back(snapshot.lists()[l].name);
  return names;
}

void ask_filter(const filter::ShapeView& shape, const filter::Key& key, bool is_of_overlay, AskedKey& asked) {
  const filter::Layout& layout = filter::layout_of(shape.layout);
  const bool bitmap = shape.layout == WEIR_LAYOUT_BITMAP;
  if (!bitmap) asked.hash = weir_siphash13(shape.secret, key.word.data(), filter::key_words(shape.shape));
  const uint64_t place = bitmap ? weir_bitmap_index(key.word[0]) : asked.hash;
  asked.shape = shape_name(shape.shape, bitmap) + (is_of_overlay ? ", overlay" : "");
  asked.layout = layout.name;
  asked.place = key_place(shape, place);
  asked.filter_hit = layout.check(shape.filter, place);
}

std::vector<std::string> names_of(const std::vector<std::string>& lists, const weir_set& set) {
  std::vector<std::string> names;
  for (uint32_t l = 0; l < lists.size(); l++) {
    if (has_list(set, l)) names.push_back(lists[l]);
  }
  return names;
}

std::vector<std::string> names_of(const filter::SnapshotView& snapshot, const weir_set& set) {
  return names_of(lists_of(snapshot), set);
}

Verdict verdict_of(const weir_snapshot_header& header, const std::vector<std::string>& lists, const weir_set& matched,
                   const std::function<std::optional<Origin>(const std::string&)>& first_entry) {
  const Judgement judgement = judge(header, matched);
  Verdict verdict;
  verdict.action = judgement.action == WEIR_DROP ? "drop" : "pass";
  verdict.reason = judgement.list == kNoList ? "default" : lists[static_cast<size_t>(judgement.list)];
  if (judgement.list != kNoList) verdict.because = first_entry(verdict.reason);
  verdict.matched = names_of(lists, matched);
  verdict.monitored = names_of(lists, lists_in(matched, header.monitor_lists));
  return verdict;
}

Verdict verdict_of(const filter::SnapshotView& snapshot, const weir_set& matched,
                   const std::function<std::optional<Origin>(const std::string&)>& first_entry) {
  return verdict_of(snapshot.header(), lists_of(snapshot), matched, first_entry);
}

ListsAlone::ListsAlone(const Book& lists, weir_action default_action, weir_action unparsed_action, uint8_t tunnels)
    : book(lists) {
  header.default_action = static_cast<uint8_t>(default_action);
  header.unparsed_action = static_cast<uint8_t>(unparsed_action);
  header.tunnels = tunnels;
  for (unsigned l = 0; l < lists.size(); l++) {
    names.push_back(lists[l].name);
    filter::list_mask(header, lists[l].action, lists[l].mode)[l / 64] |= uint64_t{1} << l % 64;
  }
}

size_t shorten(std::vector<Origin>& origins) {
  const size_t all = origins.size();
  if (all > kMaxOrigins) origins.erase(origins.begin() + kMaxOrigins, origins.end());
  return all;
}

std::string condition_text(const weir_residual& residual, uint8_t family, uint64_t now) {
  const bool expired = (residual.asks & WEIR_ASKS_EXPIRES) != 0 && now >= residual.expires_unix_s;
  return flow_text(flow_of(residual, family)) + (expired ? " (expired)" : "");
}

}  // namespace weir::control
