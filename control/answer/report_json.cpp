#include "control/answer/report_json.h"

#include <fmt/format.h>

#include "filter/layouts/layout.h"

namespace weir::control {

namespace {

Json directions(uint8_t mask) {
  Json names = Json::array();
  if (mask & WEIR_AS_SOURCE) names.push_back("src");
  if (mask & WEIR_AS_DESTINATION) names.push_back("dst");
  return names;
}

Json verdict_json(const Verdict& verdict) {
  return {{"action", verdict.action},
          {"reason", verdict.reason},
          {"matched", verdict.matched},
          {"monitored", verdict.monitored}};
}

Json feed_json(const FeedReport& feed) {
  Json samples = Json::array();
  for (const BadLine& bad : feed.samples) {
    samples.push_back({{"line", bad.line}, {"text", bad.text}, {"reason", bad.reason}});
  }
  return {{"path", feed.path},
          {"lines", feed.lines},
          {"entries", feed.entries},
          {"bad", feed.bad},
          {"samples", std::move(samples)}};
}

Json lines_json(const KeyPlace& place) {
  Json lines = Json::array();
  for (const LineBits& line : place.lines) lines.push_back({{"line", line.line}, {"bits", line.bits}});
  return lines;
}

}  // namespace

std::string to_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json to_json(wire::Generation generation) {
  return {{"epoch", fmt::format("{:016x}", generation.epoch)}, {"number", generation.number}};
}

Json to_json(const Diagnostics& diagnostics) {
  Json all = Json::array();
  for (const Diagnostic& d : diagnostics.kept()) {
    all.push_back({{"severity", d.severity == Severity::error ? "error" : "warning"},
                   {"file", d.where.file},
                   {"line", d.where.line},
                   {"column", d.where.column},
                   {"message", d.message},
                   {"hint", d.hint},
                   {"source", d.source_line}});
  }
  return all;
}

Json to_json(const ListSummary& list) {
  Json json = {{"name", list.name},
               {"action", list.action == WEIR_DROP ? "drop" : "pass"},
               {"mode", list.mode == WEIR_MONITOR ? "monitor" : "enforce"},
               {"match", directions(list.match)},
               {"entries", list.entries},
               {"v4", list.v4},
               {"v6", list.v6},
               {"flows", list.flows}};
  if (list.ipv6_aggregate != 128) {
    json["ipv6_aggregate"] = list.ipv6_aggregate;
    json["ipv6_widened"] = list.ipv6_widened;
  }
  if (!list.file.empty()) json["feed"] = feed_json(list.feed);
  return json;
}

namespace {

Json flow_fields(uint8_t fields) {
  Json names = Json::array();
  if ((fields & WEIR_FLOW_PROTOCOL) != 0) names.push_back("proto");
  if ((fields & WEIR_FLOW_SPORT) != 0) names.push_back("sport");
  if ((fields & WEIR_FLOW_DPORT) != 0) names.push_back("dport");
  return names;
}

}  // namespace

Json to_json(const ShapeReport& report) {
  const weir_shape& shape = report.shape;
  return {{"name", report.name},
          {"family", shape.family},
          {"addr_bits", shape.addr_bits},
          {"with_port", shape.with_port != 0},
          {"flow", shape.flow != 0},
          {"destination_bits", shape.destination_bits},
          {"flow_fields", flow_fields(shape.flow_fields)},
          {"layout", filter::layout_of(static_cast<weir_layout>(shape.layout)).name},
          {"layout_why", report.layout_why},
          {"k", shape.k},
          {"bits_per_key", report.bits_per_key},
          {"directions", directions(shape.directions)},
          {"keys", shape.n_keys},
          {"max_keys", shape.max_keys},
          {"filter_bytes", shape.filter.capacity_bytes},
          {"exact_bytes", shape.exact.capacity_bytes + shape.chunks.capacity_bytes},
          {"expected_fpr", report.expected_fpr},
          {"why", report.why}};
}

Json to_json(const Explanation& explanation) {
  Json probes = Json::array();
  for (const ShapeProbe& probe : explanation.probes) {
    Json conditions = Json::array();
    for (const ShapeCondition& condition : probe.conditions) {
      conditions.push_back({{"side", condition.side}, {"condition", condition.text}, {"lists", condition.lists}});
    }
    probes.push_back({{"shape", probe.shape},
                      {"key", probe.key},
                      {"hash", fmt::format("{:016x}", probe.hash)},
                      {"layout", probe.layout},
                      {"page", probe.place.page},
                      {"lines", lines_json(probe.place)},
                      {"filter_hit", probe.filter_hit},
                      {"rule", probe.rule},
                      {"source_lists", probe.source_lists},
                      {"destination_lists", probe.destination_lists},
                      {"conditions", std::move(conditions)}});
  }
  Json origins = Json::array();
  for (const OriginMatch& origin : explanation.origins) {
    origins.push_back({{"list", origin.list},
                       {"file", origin.file},
                       {"line", origin.line},
                       {"entry", origin.entry},
                       {"directions", directions(origin.directions)}});
  }
  return {{"key", explanation.key},
          {"probes", std::move(probes)},
          {"flow_shapes", explanation.flow_shapes},
          {"origins", std::move(origins)},
          {"n_origins", explanation.n_origins},
          {"as_source", verdict_json(explanation.as_source)},
          {"as_destination", verdict_json(explanation.as_destination)}};
}

}  // namespace weir::control
