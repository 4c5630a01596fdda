#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "control/policy/read/frame_filter.h"
#include "control/policy/read/policy.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

std::optional<Policy> policy_with(const std::string& section) {
  Diagnostics diagnostics;
  auto policy = parse_policy("dir/weir.yaml", "version: 1\n" + section + "\nlists: []\n", diagnostics);
  INFO(format(diagnostics));
  CHECK(policy.has_value());
  return policy;
}

bool passes(const std::string& expression, const std::vector<uint8_t>& frame) {
  const Result<FrameFilter> filter = FrameFilter::compile(expression);
  REQUIRE(filter);
  return filter->passes(std::as_bytes(std::span(frame)), 1500);
}

}  // namespace

TEST_CASE("capture is off unless the policy has the section") {
  CHECK_FALSE(policy_with("")->capture);
  CHECK_FALSE(policy_with("capture:")->capture);
  CHECK(policy_with("capture: {}")->capture == CaptureSettings{});
}

TEST_CASE("every key of capture is read; a folder begins at the policy's") {
  const auto policy = policy_with(
      "capture: {folder: drops, one_in: 1, per_list_per_second: 7, snap_bytes: 64, filter: udp, file_size: 1MiB,"
      " file_age: 2m, files: 3}");
  CHECK(policy->capture == CaptureSettings{"dir/drops", 1, 7, 64, "udp", 1 << 20, 120, 3});
  CHECK(policy_with("capture: {folder: /var/drops}")->capture->folder == "/var/drops");
}

TEST_CASE("configs/weir.yaml names the defaults of capture") {
  std::ifstream file("configs/weir.yaml");
  std::string section;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#capture:") || (!section.empty() && line.starts_with("#  "))) {
      section += line.substr(1) + "\n";
    } else if (!section.empty()) {
      break;
    }
  }
  const auto policy = policy_with(section);
  REQUIRE(policy->capture);
  CaptureSettings settings = *policy->capture;
  CHECK(settings.folder == "/var/lib/weir/capture");
  settings.folder.clear();
  CHECK(settings == CaptureSettings{});
  size_t keys = 0;
  for (const char* key :
       {"folder:", "one_in:", "per_list_per_second:", "snap_bytes:", "filter:", "file_size:", "file_age:", "files:"}) {
    keys += section.find(std::string("  ") + key) != std::string::npos;
  }
  CHECK(keys == 8);
}

TEST_CASE("a filter sees a frame's first bytes and its whole length") {
  std::vector<uint8_t> udp = {1, 2,  3,  4, 5, 6,   7, 8,   9, 10,  11, 12,  8, 0, 0x45, 0, 1,   0, 0, 0, 0,
                              0, 64, 17, 0, 0, 203, 0, 113, 7, 198, 51, 100, 9, 0, 53,   1, 187, 0, 8, 0, 0};
  CHECK(passes("", udp));
  CHECK(passes("udp port 53", udp));
  CHECK(passes("src net 203.0.113.0/24 and greater 1500", udp));
  CHECK_FALSE(passes("tcp", udp));
  udp.resize(34);
  CHECK_FALSE(passes("udp port 53", udp));  // the ports are not there
  CHECK(passes("ip host 203.0.113.7", udp));
  const Result<FrameFilter> bad = FrameFilter::compile("tcp prt 443");
  REQUIRE_FALSE(bad);
  CHECK(bad.error().find("syntax error") != std::string::npos);
}

TEST_CASE("a compiled filter goes as text, and is checked where it comes") {
  std::vector<uint8_t> udp = {1, 2,  3,  4, 5, 6,   7, 8,   9, 10,  11, 12,  8, 0, 0x45, 0, 1,   0, 0, 0, 0,
                              0, 64, 17, 0, 0, 203, 0, 113, 7, 198, 51, 100, 9, 0, 53,   1, 187, 0, 8, 0, 0};
  const auto passes_by = [&](const FrameFilter& filter) { return filter.passes(std::as_bytes(std::span(udp)), 1514); };
  for (const auto& [expression, wanted] : {std::pair{"", true}, std::pair{"udp port 53", true}, std::pair{"tcp", false},
                                           std::pair{"greater 1500 and ip[8] == 64", true}}) {
    CAPTURE(expression);
    const Result<FrameFilter> compiled = FrameFilter::compile(expression);
    REQUIRE(compiled);
    const Result<FrameFilter> carried = FrameFilter::of_program(compiled->program_text());
    REQUIRE(carried);
    CHECK(passes_by(*carried) == wanted);
    CHECK(passes_by(*compiled) == wanted);
  }
  CHECK(passes_by(*FrameFilter::of_program("1,6 0 0 1,")));  // as `tcpdump -ddd | tr` leaves it
  // Memory that nothing was stored in is 0.
  CHECK_FALSE(passes_by(*FrameFilter::of_program("2,96 0 0 3,22 0 0 0")));
  for (const char* bad : {"0", "x", "1", "1,6 0 0", "2,6 0 0 1", "1,6 0 0 1,6 0 0 1", "1,65536 0 0 1", "4097,6 0 0 1",
                          "1,6 0 0 -1", "1,0 0 0 1", "2,5 0 0 9,6 0 0 1", "2,2 0 0 16,6 0 0 1",
                          "3,0 0 0 7,52 0 0 0,22 0 0 0", "2,49 0 0 1,6 0 0 1", "2,5 0 0 4294967295,6 0 0 1"}) {
    CAPTURE(bad);
    const Result<FrameFilter> refused = FrameFilter::of_program(bad);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().find("filter") != std::string::npos);
  }
  // libpcap ends the process at an instruction that it does not know.
  size_t known = 0;
  for (unsigned code = 0; code <= UINT16_MAX; code++) {
    const Result<FrameFilter> taken = FrameFilter::of_program(fmt::format("2,{} 0 0 1,6 0 0 1", code));
    known += taken ? 1 : 0;
    if (taken) passes_by(*taken);
  }
  CHECK(known == 48);
}
