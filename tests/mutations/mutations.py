"""Deliberate errors in product code, one a row: (file, what stands there, what is to stand there, the tests that should notice).

`scripts/mutate` makes them one at a time. Each is a fault that somebody could write: a bound off by one, a check left out, a
side, a byte order or an order of steps mixed up. Tests are asked in their order, until one fails.
"""

PARSE = ("dataplane-frame", "agreement")
STAGES = ("dataplane", "agreement")
SENT = ("smoke replay_once", "smoke send_expect")
FILTER = ("filter-kernels", "filter-lookup", "filter-builder", "compile", "compile-reference")
XDP_GATES = ("xdp-gate-tables", "xdp-gates")
XDP = ("xdp-on-host-kernel", "smoke send_expect_xdp", "xdp-enforcer")

MUTATIONS = (
    # What a frame means, on the data plane.
    ("dataplane/frame/frame.cpp", "header_bytes < WEIR_IPV4_BYTES || header_bytes > length - at", "header_bytes > length - at", PARSE),
    ("dataplane/frame/frame.cpp", "if (total != 0 && total < header_bytes) return false;", "if (total < header_bytes) return false;", PARSE),
    ("dataplane/frame/frame.cpp", "if (headers.fragment == WEIR_FRAGMENT_LATER) return;\n    at += bytes;", "at += bytes;", PARSE),
    ("dataplane/frame/frame.cpp", "if (walked == WEIR_MAX_EXTENSIONS || bytes > end - at) {", "if (walked > WEIR_MAX_EXTENSIONS || bytes > end - at) {", PARSE),
    ("dataplane/frame/frame.cpp", "if (++tags > WEIR_MAX_TAGS || length - at < WEIR_TAG_BYTES) return Outcome::malformed;\n    type", "if (tags++ > WEIR_MAX_TAGS || length - at < WEIR_TAG_BYTES) return Outcome::malformed;\n    type", PARSE),
    ("dataplane/frame/frame.cpp", "      ipv4_checksum_holds(frame + at, (frame[at] & 15u) * 4)) {", "      true) {", PARSE),
    ("dataplane/frame/frame.cpp", "headers.dscp = static_cast<uint8_t>((load_be16(ip) & 0x0fff) >> 6);", "headers.dscp = static_cast<uint8_t>((load_be16(ip) & 0x0fff) >> 4);", PARSE),
    ("dataplane/frame/tunnel.cpp", "if (extensions == WEIR_MAX_GTP_EXTENSIONS || payload.at", "if (extensions > WEIR_MAX_GTP_EXTENSIONS || payload.at", PARSE),
    ("filter/format/frame_rules.h", "#define WEIR_MAX_TAGS 8", "#define WEIR_MAX_TAGS 7", PARSE),
    # The burst.
    ("dataplane/burst/match.cpp", "burst.matched[slot];", "burst.matched[0];", STAGES),
    ("dataplane/burst/match.cpp", "const bool as_source = batch.side == kSource;", "const bool as_source = batch.side != kSource;", STAGES),
    ("dataplane/burst/match.cpp", "before.lists[w] | set.lists[w];", "set.lists[w];", STAGES),
    ("dataplane/burst/keys.cpp", "port_shift = lookup.side == kSource ? 0 : 16;", "port_shift = lookup.side == kSource ? 16 : 0;", STAGES),
    ("dataplane/burst/keys.cpp", "  if constexpr (asks_ports(kKind)) slots &= burst.v4_ports;\n", "", STAGES),
    ("dataplane/burst/tx.cpp", "n_passed += 1 - drops;", "n_passed += drops;", SENT),
    ("dataplane/burst/gate.cpp", "| burst.in_line) & received", ") & received", STAGES),
    ("dataplane/burst/take_out.cpp", "kept_.v6 |= moved(burst_.v6, from, to);", "kept_.v6 |= moved(burst_.v6, to, to);", STAGES),
    ("dataplane/burst/passage.h", "  finish(watch);\n  gate_watch_.ask_again();", "  gate_watch_.ask_again();", STAGES),
    ("dataplane/burst/verdict.cpp", "  if (pass_list != kNoList) {\n    snapshot.lists[pass_list].passed", "  if (pass_list != kNoList && first_of(matched, header.drop_lists) == kNoList) {\n    snapshot.lists[pass_list].passed", STAGES),
    ("dataplane/burst/verdict.cpp", "  tally_each(matched, header.monitor_lists, snapshot.lists, &ListCounters::would_drop, frames);\n", "", STAGES),
    ("dataplane/burst/verdict.cpp", "if (is_one(matched, header.drop_lists)) credited", "if (drop_list != kNoList) credited", STAGES),
    ("dataplane/burst/verdict.cpp", "    if (dropped && is_one(drops, kAllLists)) {", "    if (dropped) {", STAGES),
    ("filter/format/residual.h", "now >= residual->expires_unix_s) return 0;", "now > residual->expires_unix_s) return 0;", STAGES),
    ("filter/format/residual.h", "(high < last[0] || (high == last[0] && low <= last[1]));", "(high < last[0] || (high == last[0] && low < last[1]));", STAGES),
    # Swaps.
    ("dataplane/snapshot/ledger.cpp", "if (!is_new) add(place->second, list);", "if (!is_new) place->second = list;", ("dataplane", "dataplane-swap")),
    ("dataplane/snapshot/snapshot_slot.cpp", "return rte_rcu_qsbr_check(rcu_.get(), token_, false) == 1;", "return rte_rcu_qsbr_check(rcu_.get(), token_, false) >= 0;", ("dataplane-swap", "smoke swap")),
    ("filter/read/receive.cpp", "if (digest_of(bytes) == digest) return {};", "if (digest_of(bytes)[0] == digest[0]) return {};", ("dataplane", "xdp-enforcer")),
    ("filter/read/receive.cpp", "    if (is_same(*current, what)) return {};", "    return {};", ("dataplane", "xdp-enforcer")),
    # Overlays.
    ("filter/read/overlay.cpp", "(of_base->directions & ~shape.directions) != 0", "of_base->directions == 0", ("filter-overlay",)),
    ("filter/read/overlay.cpp", "      joined += bits * overlay.header().shapes[i].n_keys;", "      joined += bits;", ("filter-overlay",)),
    ("dataplane/burst/match.cpp", "  if (replaced == 0) return found;", "  if (replaced != 1) return found;", ("dataplane",)),
    ("dataplane/snapshot/lookups.cpp", "is_asked(shape, side) && !is_replacing", "is_asked(shape, side) && of_base == nullptr", ("dataplane",)),
    ("dataplane/snapshot/saved.cpp", "    if (Result<void> saved = state_.save_overlay(base, bytes, overlay->digest()); !saved) return saved;", "", ("dataplane-overlays",)),
    ("dataplane/snapshot/snapshot.cpp", "    for (const Copy& copy : base->all()) filter::join_gates(overlay->view(), base->bytes_of(copy));\n", "", ("agreement-sequences",)),
    ("control/compile/overlay.cpp", "        if (!all && (residual.asks & ~unsigned{WEIR_ASKS_EXPIRES}) == 0) return;\n", "", ("agreement-sequences",)),
    ("filter/read/validate.cpp", "if (rule >= header_.n_rules) return bad(name + \", bucket", "if (rule > header_.n_rules) return bad(name + \", bucket", ("filter-view",)),
    ("filter/read/sections.cpp", "  if (section.offset < end_) {", "  if (false) {", ("filter-view",)),
    ("filter/read/validate_gates.cpp", "if (n_set != table.n_set)", "if (n_set < table.n_set)", ("filter-view-gates",)),
    ("filter/read/validate.cpp", "  if (in_chain != 0) return broken(", "  if (in_chain > 1) return broken(", ("filter-view",)),
    ("filter/read/validate.cpp", "if (chunk_of[slot] >= n_chunks) {", "if (chunk_of[slot] > n_chunks) {", ("filter-view",)),
    # Filters and tables.
    ("filter/build/builder.cpp", "first_hash_of(first + n * i / threads, places)", "first_hash_of(first + n / threads * i, places)", ("filter-partition",)),
    ("filter/build/partition.cpp", "size_t{counts_[p] - left} * kRecord", "size_t{counts_[p]} * kRecord", ("filter-partition",)),
    ("filter/kernels/find.h", "page[(home + step) % kPerPage]", "page[(home + 1) % kPerPage]", ("filter-kernels",)),
    ("filter/format/rules.h", "tables[t + 1].prefix_bits <= bits", "tables[t + 1].prefix_bits <= bits + 1", ("filter-gates",)),
    ("filter/build/gates.cpp", "(table.shape.flow && table.gate_side != side)", "(table.shape.flow && side != WEIR_SIDE_SOURCE)", ("filter-gates",)),
    ("filter/build/gates.cpp", "~uint64_t{0} >> (63 - last % 64)", "~uint64_t{0} >> (64 - last % 64)", ("filter-gates",)),
    ("filter/format/siphash.h", "v2 ^= 0xff", "v2 ^= 0xfe", ("filter-siphash", "filter-kernels")),
    ("filter/probe/exact.cpp", "chunk_of[index / kChunkRules] * kChunkRules + index % kChunkRules", "chunk_of[index / kChunkRules] * kChunkRules + index / kChunkRules % kChunkRules", FILTER),
    # From text to the policy.
    ("control/read/feeds/reading.cpp", "  if (text.starts_with(\"\\xef\\xbb\\xbf\")) text.remove_prefix(3);\n", "", ("policy",)),
    ("control/read/feeds/take.cpp", "if (parsed.is_any && !options.allow_any) return kAnyRefused;", "", ("policy",)),
    ("control/read/feeds/entry_text.cpp", "if (*mask != prefix_mask<Ipv4>(length)) return kNetmask;", "", ("policy",)),
    ("bpf/enforce/gates.cpp", "these &= ~uint64_t{0} >> (63 - values.last % 64);", "these &= ~uint64_t{0} >> (64 - values.last % 64);", XDP_GATES),
    ("bpf/enforce/gates.cpp", "if (same_sides_[family == 6]) sides = WEIR_AS_SOURCE;", "sides = WEIR_AS_SOURCE;", XDP_GATES),
    ("bpf/program/gate.bpf.h", "if (t >= gate->n_tables) break;", "if (t + 1 >= gate->n_tables) break;", XDP_GATES),
    ("bpf/enforce/group.cpp", "if (rule.source_chain == 0) group", "group", XDP),
    ("bpf/enforce/group.cpp", "      lookup.replaces = uint32_t{1} << base_index;\n", "", ("xdp-overlay",)),
    ("bpf/enforce/gates.cpp", "is_overlay ? WEIR_AS_SOURCE | WEIR_AS_DESTINATION : filter", "filter", ("xdp-overlay", "xdp-gate-tables")),
    # Merge, rules, proofs.
    ("control/compile/merge/merge.cpp", "claims[end].port == first.port; end++)", "true; end++)", ("compile", "compile-reference", "agreement")),
    ("control/compile/merge/merge.cpp", "    return !(other.claim < claim) && expires > other.expires;", "    return !(other.claim < claim) && expires < other.expires;", ("compile", "compile-reference", "agreement")),
    ("control/compile/merge/rule_book.cpp", "united.back().set = unite_sets(united.back().set, link.set);", "united.back().set = link.set;", ("compile", "compile-reference", "agreement")),
    ("control/compile/merge/rule_book.cpp", "  input.residuals.back().last = 1;", "  input.residuals.back().last = 0;", ("compile", "compile-reference", "agreement")),
    ("control/compile/overlay.cpp", "if (rows.last_of(row) < last || ", "if (", ("compile-reference",)),
    ("control/compile/overlay.cpp", "rule = rule == 0 ? nothing : rule;", "rule = rule == 0 ? 1 : rule;", ("compile-reference",)),
    ("control/compile/overlay.cpp", "if (shape.of_base != nullptr) rule = book().unite(rule, rule_of_base(*shape.of_base, words, false));", "", ("compile-reference",)),
    # Daemon and what it keeps.
    ("control/daemon/panic.cpp", "  on_ = on;\n  wanted_ = on;", "  on_ = on;", ("daemon",)),
    ("control/daemon/panic.cpp", "(status->bypass != 0) != *wanted_", "false", ("daemon",)),
    ("control/publish/targets/target.cpp", "  wanted_is_news_ = wanted_ != nullptr;  // tried again on the next connection", "  wanted_is_news_ = false;", ("publish", "daemon")),
    ("control/book/claims.cpp", "(entry.port == 0 || entry.port == port_of(packet, side));", "true;", ("answer", "book")),
    # The panic switch, and what is asked to stop.
    ("control/daemon/daemon.cpp", "  if (options_.opened) {\n    if", "  begin_reload();\n  loop_.run_until([this] { return !is_reloading_; }, Clock::time_point::max());\n  if (options_.opened) {\n    if", ("smoke bypass_at_once",)),
    ("control/daemon/api.cpp", "  if (unix_socket::has_gone(client.fd.get())) return", "  if (client.text.empty() && unix_socket::has_gone(client.fd.get())) return", ("smoke bypass_at_once",)),
    ("dataplane/serve/server.cpp", "  if (unix_socket::has_gone(client.fd.get())) return", "  if (clients_.empty() && unix_socket::has_gone(client.fd.get())) return", ("smoke bypass_at_once",)),
    ("control/ctl/client.cpp", "if (Clock::now() >= soon && !std::exchange(is_late, true) && patience.not_soon) {", "if (Clock::now() >= end && !std::exchange(is_late, true) && patience.not_soon) {", ("smoke bypass_at_once",)),
    ("dataplane/serve/bypass.cpp", "    const Result<void> saved = state_.save_bypass(on, is_newest);\n", "    lock.lock();\n    const Result<void> saved = state_.save_bypass(on, {});\n    lock.unlock();\n", ("dataplane", "smoke bypass_situations")),
    ("control/main.cpp", "  if (daemon->is_busy()) give_up();\n", "", ("smoke stop_at_once",)),
    ("dataplane/main.cpp", "    if (waited >= kMostLastWrite) return false;\n", "    if (waited >= kMostLastWrite && done()) return false;\n", ("smoke stop_at_once",)),
    # What lists hold of each other.
    ("control/book/overlap.cpp", "(from <= last || from - 1 == last)", "from <= last", ("book",)),
    ("control/book/overlap.cpp", "open_.top().last <= end", "open_.top().last < end", ("book",)),
    ("control/book/overlap.cpp", "        } else if (!has_another(holders, first)) {", "        } else if (false) {", ("book",)),
    ("control/book/overlap.cpp", "      holders = holders & here;", "      holders = here;", ("book",)),
    ("control/answer/economics.cpp", " || !does_the_same(by, list) ||", " ||", ("answer",)),
    ("control/answer/economics.cpp", "      weir_set alone = {};\n      if (sharers.size() == 1) {", "      weir_set alone = {};\n      if (!sharers.empty()) {", ("answer",)),
    ("control/answer/advice.cpp", "list.dropped_alone != 0 || !was_there(facts, list)) continue;", "list.dropped_alone != 0) continue;", ("answer",)),
    # In the kernel.
    ("bpf/program/verdict.bpf.h", "    if (verdict->passed_by == NO_LIST) verdict->passed_by = passed_by;\n    return 0;", "    if (verdict->passed_by == NO_LIST) verdict->passed_by = passed_by;", XDP),
    ("bpf/program/verdict.bpf.h", "  if (would_drop) {\n", "  if (!would_drop) {\n", XDP),
    ("bpf/program/verdict.bpf.h", "    if (list == verdict->dropped_by) add(", "    if (verdict->dropped) add(", ("agreement-sequences",)),
    ("bpf/program/verdict.bpf.h", "    if (verdict->dropped_by == NO_LIST) add(", "    if (!verdict->dropped) add(", ("agreement-sequences",)),
    ("bpf/program/frame.bpf.h", "if (frame->packet.fragment == WEIR_FRAGMENT_LATER) return 1;", "", XDP),
    # Samples of what is dropped.
    ("bpf/program/sample.bpf.h", "rest = stratum->run - 1 - stratum->place;", "rest = 0;", ("xdp-samples",)),
    ("bpf/program/sample.bpf.h", "    totals->drops.limited++;\n", "", ("xdp-samples",)),
    ("bpf/program/verdict.bpf.h", "    if (verdict->keeps) weir_keep_drop(frame, dropped_by);\n", "", ("xdp-samples",)),
    ("bpf/program/sample.bpf.h", "  if (used < half || one_in >= most) return one_in;\n", "  if (used < 2 * half) return one_in;\n", ("xdp-samples",)),
    ("bpf/enforce/samples.cpp", "> kMostBytes ? -1 : 0;", "> kMostBytes ? 0 : 0;", ("xdp-samples",)),
    ("control/capture/drop_log.cpp", "page.missed = after < gone ? gone - after : 0;", "page.missed = 0;", ("capture",)),
    ("control/read/frame_filter.cpp", "  if (bpf_validate(instructions.data() + first, static_cast<int>(n)) == 0) {", "  if (false) {", ("policy",)),
    ("bpf/program/frame.bpf.h", "if (number != 44) return bytes;", "if (number != 43) return bytes;", XDP),
    ("bpf/program/table.bpf.h", "((const weir_u32*)page->word)[high & 1023];", "((const weir_u32*)page->word)[high & 511];", XDP),
    ("bpf/program/filter.bpf.h", "return group->unparsed_action == WEIR_DROP ? WEIR_MALFORMED_DROPPED : WEIR_MALFORMED_PASSED;", "return WEIR_MALFORMED_PASSED;", XDP),
    ("bpf/program/tunnel.bpf.h", "for (weir_u32 w = 0; w < WEIR_LIST_WORDS; w++) frame->matched.lists[w] = 0;", "", XDP),
    ("bpf/program/filter.bpf.h", "  if (state->bypass) {\n    reason = WEIR_BYPASSED;\n    frame.samples = 0;\n  } else if", "  if", ("xdp-enforcer", "smoke xdp_target")),
    # What the kernel refuses.
    ("bpf/enforce/attach.cpp", "if (!link_ && errno != ENOENT) return errno_error(\"cannot open \" + pin_);", "", ("xdp-faults",)),
    ("bpf/enforce/attach.cpp", "  if (!info) return Error{info.error()};\n", "", ("xdp-faults",)),
    ("bpf/enforce/publish.cpp", "  if (Result<void> freed = free_idle(); !freed) return Refusal{Step::grace, freed.error()};\n", "", ("xdp-faults",)),
    ("common/confine/helpers.cpp", "  if (came != descriptors.size()) descriptors = {};\n  return true;", "  return came == descriptors.size();", ("helpers", "smoke faults")),
    ("control/publish/targets/target.cpp", "return step == wire::Step::receive || step == wire::Step::map ||", "return step == wire::Step::map ||", ("publish", "smoke faults")),
    # What is said, and when an order is sent.
    ("control/answer/make.cpp", "running.epoch != 0 && ", "", ("answer-json",)),
    ("control/daemon/panic.cpp", "if (newest_order_ == 0) continue;", "continue;", ("daemon",)),
    ("common/unix_socket.cpp", "  const std::lock_guard lock(taking);\n  connection.reset();", "  connection.reset();", ("common-wire",)),
    # The page.
    ("control/page/html.cpp", "code < kLeast[bytes] || is_surrogate", "is_surrogate", ("page",)),
    ("control/page/html.cpp", "next.bytes == 0 || turns_direction(next.code) || ", "next.bytes == 0 || ", ("page",)),
    ("control/page/looks.cpp", "is_same && after.fresh && before", "is_same && before", ("page",)),
    # Samples of the traffic, and what a change would do to it.
    ("dataplane/burst/one_in.h", "skip_ = uint64_t{rest} + place_;", "skip_ = place_;", ("dataplane",)),
    ("dataplane/burst/traffic.cpp", "used < kHalf ? 0 : (used - kHalf) / kStep + 1", "0", ("dataplane",)),
    ("control/traffic/reservoir.cpp", "frame.weight = std::max(frame.weight, slice.forgotten);\n", "", ("preview",)),
    ("control/preview/radius.cpp", "if (header.tunnels == 0) return {false, outer_credit};\n", "", ("preview",)),
    ("control/preview/lists.cpp", "(entry.directions & ~other.directions) == 0 && ", "", ("preview",)),
    ("control/daemon/plan.cpp", "  if (cause.wish.is_forced || !cause.accepted_feeds.empty()) {", "  if (!cause.accepted_feeds.empty()) {", ("daemon",)),
    ("control/daemon/plan.cpp", "    hold_back(*was, why, now, *list);\n", "", ("daemon",)),
    # A shadow beside what runs.
    ("dataplane/burst/shadow.cpp", "const auto place = static_cast<uint32_t>(std::countr_zero(places));", "const uint32_t place = their_slot;", ("dataplane",)),
    ("dataplane/burst/shadow.cpp", "if (!run.is_beside(worker_, running)) return;", "", ("dataplane",)),
    ("dataplane/burst/shadow.cpp", "counts->passed_by[place_of(by_running,", "counts->passed_by[place_of(by_candidate,", ("dataplane",)),
    ("dataplane/burst/shadow.cpp", "return --counts.batches_left == counts.chosen;", "return counts.batches_left-- == counts.chosen;", ("dataplane",)),
    ("dataplane/snapshot/shadow.cpp", "if (held_bytes + more_bytes <= 2 * limit_bytes_) return;", "return;", ("dataplane",)),
    ("dataplane/snapshot/shadow.cpp", "swap_bytes = 2 * current->size_bytes();", "swap_bytes = current->size_bytes();", ("dataplane",)),
    ("dataplane/snapshot/shadow.cpp", "former_shadow_ = slot_.exchange_shadow(std::move(renewed));\n  if (!is_enforced) return;", "former_shadow_ = slot_.exchange_shadow(std::move(renewed));\n  return;", ("dataplane",)),
    ("control/daemon/publication.cpp", "if (!is_newest || !judged || next.inputs != judged) return make_overlay(next, base);", "", ("daemon",)),
    ("control/publish/targets/target.cpp", "body.ok == 0 || (is_its && body.on == 0)", "body.ok == 0", ("daemon",)),
    ("control/publish/targets/target.cpp", "return state_.status->shadow != wanted;", "return candidate_ != nullptr && state_.status->shadow != wanted;", ("daemon",)),
)
