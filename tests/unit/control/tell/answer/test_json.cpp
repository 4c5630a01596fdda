// Every answer that is described is written, read back and written again: the same text. What is missing or wrong is
// named.
#include <algorithm>

#include "control/base/json/json.h"
#include "control/base/json/table.h"
#include "control/enforce/targets/target.h"
#include "control/tell/answer/drops.h"
#include "control/tell/answer/explain.h"
#include "control/tell/answer/list.h"
#include "control/tell/answer/request.h"
#include "control/tell/answer/stats.h"
#include "control/tell/answer/status.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

Document document_of(const std::string& text) {
  Result<Document> document = Document::parse(text);
  REQUIRE(document);
  return std::move(*document);
}

// Reads it back, and returns that.
template <class Answer>
Answer there_and_back(const Answer& answer) {
  const Document written = write_json(answer);
  std::vector<std::string> unknown;
  const Result<Answer> read = read_json<Answer>(written, &unknown);
  INFO(written.line());
  REQUIRE(read);
  CHECK(unknown.empty());
  CHECK(write_json(*read).line() == written.line());
  return *read;
}

TargetStatus target() {
  TargetStatus target;
  target.socket = "xdp:eth0";
  target.generation = {0xfedc'ba98'7654'3210, 7};
  target.interfaces = {{{"eth0", 3, true, "native", ""}, {"eth1", 0, false, "", "there is none"}}};
  return target;
}

StatusAnswer status() {
  StatusAnswer answer;
  answer.config = "weir.yaml";
  answer.targets = {TargetStatus{}, target()};
  answer.fleet = FleetStanding{"edge", "n1", "rest", 12, 8, 9, "refused", "why", "", 3};
  answer.shapes.resize(2);
  answer.shapes[1].shape.directions = WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
  answer.last_reload.phases = {{"read", 1.5}, {"merge", 0}};
  answer.last_reload.diagnostics.add({Severity::warning, {"weir.yaml", 3, 4}, "message", "source", "hint"});
  answer.capture.files.emplace();
  answer.capture.files->targets = {{"/a", "away"}};
  answer.limits = {{"lists", {3, 256}}, {"snapshot_bytes", {1, 0}}};
  return answer;
}

template <class Answer>
std::string error_of(const std::string& text) {
  const Result<Answer> read = read_json<Answer>(document_of(text));
  return read ? "" : read.error();
}

}  // namespace

TEST_CASE("what is written is read") {
  const StatusAnswer read = there_and_back(status());
  CHECK(read.targets.at(1).generation == wire::Generation{0xfedc'ba98'7654'3210, 7});
  CHECK_FALSE(read.targets.at(0).interfaces);
  CHECK(read.targets.at(1).interfaces->at(1).error == "there is none");
  CHECK(read.shapes.at(1).shape.directions == (WEIR_AS_SOURCE | WEIR_AS_DESTINATION));
  CHECK(read.last_reload.phases.at(0).name == "read");
  CHECK(read.last_reload.phases.at(0).milliseconds == 1.5);
  CHECK(read.last_reload.diagnostics.warnings() == 1);
  CHECK(read.last_reload.diagnostics.kept().at(0).severity == Severity::warning);
  CHECK(read.capture.files->targets.at(0).error == "away");
  CHECK(read.limits.at(0).second.max == 256);
  CHECK(read.fleet->state == "refused");
  CHECK_FALSE(there_and_back(StatusAnswer{}).fleet);

  there_and_back(StatusAnswer{});
  there_and_back(ReloadAnswer{});
  there_and_back(ShapesAnswer{});
  ShapesAnswer shapes;
  shapes.shapes.resize(1);
  weir_shape& shape = shapes.shapes[0].shape;
  shape.layout = WEIR_LAYOUT_RIBBON;
  shape.flow = 1;
  shape.flow_fields = WEIR_FLOW_PROTOCOL | WEIR_FLOW_DPORT;
  shape.exact.size_bytes = 4096;
  shape.chunks.size_bytes = 1024;
  shapes.gates.resize(2);
  shapes.gates[1].side = WEIR_SIDE_DESTINATION;
  shapes.gates[1].gate.kind = WEIR_GATE_TABLES;
  shapes.gates[1].gate.n_tables = 1;
  shapes.gates[1].gate.table[0].prefix_bits = 24;
  const ShapesAnswer read_shapes = there_and_back(shapes);
  CHECK(read_shapes.shapes.at(0).shape.layout == WEIR_LAYOUT_RIBBON);
  CHECK(exact_bytes_of(read_shapes.shapes[0]) == 5120);
  CHECK(read_shapes.gates.at(1).side == WEIR_SIDE_DESTINATION);
  CHECK(tables_of(read_shapes.gates[1]).front().prefix_bits == 24);
  ListDetails widened;
  widened.widened = {{64, 3}};
  widened.feed = FeedReport{};
  there_and_back(ListAnswer{{1, 2}, {ListDetails{}, widened}});
  there_and_back(BypassAnswer{true, true, std::nullopt, "no"});
  there_and_back(BypassAnswer{true, false, BypassAnswer::Told{true, {{"/a", true, ""}}}, ""});
  there_and_back(DetachAnswer{true, false, {"eth0"}});
  Explanation explanation;
  explanation.probes.resize(1);
  explanation.probes[0].hash = ~uint64_t{0};
  explanation.probes[0].place.lines = {{5, {1, 511}}};
  explanation.origins = {{"l", "f", 1, "192.0.2.1", WEIR_AS_SOURCE}};
  const ExplainAnswer of_key = there_and_back(ExplainAnswer{explanation, {}, {}, {1, 2}});
  REQUIRE(of_key.of_key);
  CHECK(of_key.of_key->probes[0].place.lines[0].bits[1] == 511);
  PacketExplanation packet;
  packet.packet = "src 192.0.2.1 dst 192.0.2.2";
  const ExplainAnswer of_packet = there_and_back(ExplainAnswer{{}, packet, {}, {1, 2}});
  CHECK_FALSE(of_packet.of_key);
  REQUIRE(of_packet.of_packet);
  CHECK(of_packet.of_packet->packet == packet.packet);
  FrameWalk walk;
  walk.outcome = "ip";
  walk.layers.resize(2);
  walk.layers[0].keys.resize(1);
  walk.layers[0].keys[0].conditions = {{"udp", true, {"l"}}};
  walk.layers[1].tunnel = "gre";
  walk.layers[1].gates = {{"source", false, true}, {"destination", true, false}};
  walk.layer = 2;
  const ExplainAnswer of_frame = there_and_back(ExplainAnswer{{}, {}, walk, {1, 2}});
  CHECK_FALSE((of_frame.of_key || of_frame.of_packet));
  REQUIRE(of_frame.of_frame);
  CHECK(of_frame.of_frame->layer == 2);
  CHECK(of_frame.of_frame->layers[0].keys[0].conditions[0].holds);
  CHECK(of_frame.of_frame->layers[0].tunnel.empty());
  CHECK(of_frame.of_frame->layers[1].tunnel == "gre");
  CHECK_FALSE(of_frame.of_frame->layers[1].gates[1].lets_through);
}

TEST_CASE("the first error is told with its place") {
  Diagnostics diagnostics;
  CHECK(first_error_text(diagnostics).empty());
  diagnostics.add({Severity::warning, {"weir.yaml", 1, 1}, "a warning", "", ""});
  CHECK(first_error_text(diagnostics).empty());
  diagnostics.add({Severity::error, {"weir.yaml", 3, 4}, "no such list", "", ""});
  CHECK(first_error_text(diagnostics) == "weir.yaml:3: no such list");
  CHECK(first_error_text(Diagnostics({{Severity::error, {"weir.yaml", 0, 0}, "too much", "", ""}}, 1, 0)) ==
        "weir.yaml: too much");
}

TEST_CASE("counters of every size are read as they were") {
  StatsAnswer stats;
  for (const TotalRow& row : totals_rows()) stats.totals.*row.member = ~uint64_t{0};
  list_of(stats.lists, "l").matched = uint64_t{1} << 63;
  TargetStats target;
  target.socket = "/a";
  target.taken_us = ~0u;
  add(stats, target);
  CHECK(there_and_back(stats).totals.rx_missed == ~uint64_t{0} + stats.targets[0].totals.rx_missed);
  TelemetryAnswer telemetry;
  telemetry.targets.resize(1);
  telemetry.targets[0].workers.resize(1);
  telemetry.targets[0].workers[0].burst_sizes.assign(65, 3);
  telemetry.targets[0].workers[0].histograms.pass_cycles = {{127, 1}, {1 << 20, 2}};
  CHECK(there_and_back(telemetry).targets[0].workers[0].histograms.pass_cycles[1].upper == 1 << 20);
  telemetry.targets[0].workers[0].queue_packets = {{1, 2, 3}};
  telemetry.targets[0].workers[0].sources = {{"2001:db8::/64", 0.5}};
  CHECK(there_and_back(telemetry).targets[0].workers[0].queue_packets[0].packets == 3);
  CHECK(there_and_back(telemetry).targets[0].workers[0].sources[0].source == "2001:db8::/64");
}

TEST_CASE("what is missing or something else is named with its place") {
  CHECK(error_of<TargetOutcome>("{}") == "member socket is missing");
  CHECK(error_of<TargetOutcome>(R"({"socket": "/a", "acknowledged": 1})") ==
        "member acknowledged is neither true nor false");
  const std::string begin = R"({"ok": true, "controld": true, "targets": )", end = R"(, "bypass": true})";
  CHECK(error_of<BypassAnswer>(begin + "5" + end) == "member targets is not an array");
  CHECK(error_of<BypassAnswer>(begin + "[7]" + end) == "member targets[0] is not an object");
  CHECK(error_of<BypassAnswer>(begin + R"([{"socket": "/a"}])" + end) == "member targets[0].acknowledged is missing");
  CHECK(error_of<wire::Generation>(R"({"epoch": "xyz", "number": 1})") == "member epoch is not in hexadecimal digits");
  CHECK(error_of<wire::Generation>(R"({"epoch": "1", "number": -1})") ==
        "member number is not a whole number from 0 on");
  CHECK(error_of<InterfaceStatus>(R"({"name": "e", "index": 4294967296})") == "member index is too large a number");
  CHECK(error_of<Request>(R"({"command": "bypass", "on": "yes"})") == "member on is neither true nor false");
}

TEST_CASE("a member that nobody knows is told, not taken for an error") {
  const Document document = document_of(
      R"({"ok": true, "bypass": true, "controld": true, "colour": 1, "targets": [{"socket": "/a", "acknowledged": true,
                      "error": "", "shade": 2}, {"socket": "/b", "acknowledged": true, "error": "", "shade": 3}]})");
  std::vector<std::string> unknown;
  REQUIRE(read_json<BypassAnswer>(document, &unknown));
  CHECK(unknown == std::vector<std::string>{"targets[].shade", "colour"});
}

TEST_CASE("text that is no UTF-8 is written, too") {
  CHECK(write_json(TargetOutcome{"\xff", true, ""}).line().find("\xef\xbf\xbd") != std::string::npos);
  const std::string hidden = "\x1b\x7f\xc2\x9b\xe2\x80\xae";
  const std::string line = write_json(TargetOutcome{hidden, true, ""}).line();
  CHECK(line.find("\"\\u001b\\u007f\\u009b\\u202e\"") != std::string::npos);
  CHECK(Document::parse(line)->text("socket") == hidden);
  CHECK_FALSE(Document::parse("[1]"));
  CHECK_FALSE(Document::parse("{"));
}

TEST_CASE("the table lists every member once, with what it is") {
  MemberTable table;
  table.add<StatusAnswer>("status");
  table.add<ReloadAnswer>("reload");
  table.add<StatsAnswer>("stats");
  size_t rows = 0;
  std::vector<std::string> names;
  for (const MemberTable::Object& object : table.objects()) {
    names.push_back(object.name);
    for (const MemberTable::Row& row : object.rows) {
      INFO(object.name << " " << row.member);
      CHECK_FALSE(row.meaning.empty());
      CHECK_FALSE(row.type.empty());
      rows++;
    }
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(rows > 100);
  const std::string text = markdown(table.objects());
  CHECK(text.find("| **reload** | `error` | text; may be missing |") != std::string::npos);
  CHECK(text.find("| target | `interfaces` | array of interface; may be missing |") != std::string::npos);
  CHECK(text.find("| target | `start_time` | number | Unix seconds |") != std::string::npos);
}

TEST_CASE("a target has acknowledged what runs, and nothing before anything runs") {
  TargetState state;
  CHECK_FALSE(status_of(state, {}).acknowledged);
  state.acknowledged = {7, 1};
  CHECK(status_of(state, {7, 1}).acknowledged);
  CHECK_FALSE(status_of(state, {7, 2}).acknowledged);
}
