// The files of captures: their bytes, rotation, limits, and what happens when they cannot be written.
#include <sys/stat.h>

#include "control/enforce/capture/capture_comment.h"
#include "control/enforce/capture/capture_files.h"
#include "tests/unit/control/support/support.h"

using namespace weir;
using namespace weir::control;
using std::chrono::seconds;

namespace {

const CaptureFiles::Now kStart = CaptureFiles::Now(seconds(1'764'547'200));  // 2025-12-01T00:00:00Z

std::vector<std::string> names_of_files(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder)) names.push_back(file.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

CaptureFiles::Settings settings_for(const std::string& folder) {
  return {folder, 65536, 3600, 3, {{"dp.sock", "what is dropped", "", 256}}};
}

pcapng::Statistics none(uint32_t) {
  return {};
}

uint32_t u32(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Types of the blocks; every length is checked.
std::vector<uint32_t> blocks(const std::string& file) {
  std::vector<uint32_t> types;
  size_t at = 0;
  while (at < file.size()) {
    REQUIRE(file.size() - at >= 12);
    const uint32_t length = u32(file, at + 4);
    REQUIRE(length % 4 == 0);
    REQUIRE(length <= file.size() - at);
    REQUIRE(u32(file, at + length - 4) == length);
    types.push_back(u32(file, at));
    at += length;
  }
  return types;
}

constexpr uint32_t kSection = 0x0a0d0d0a, kInterface = 1, kStatistics = 5, kPacket = 6;

struct Frame {
  std::vector<std::byte> bytes = std::vector<std::byte>(200, std::byte{7});
  pcapng::Packet packet() const { return {0, 1'000'000'007, bytes, 1500, 3, "why"}; }
};

}  // namespace

TEST_CASE("the blocks are those of the format, byte by byte") {
  std::string file;
  pcapng::append_section(file, "abc");
  CHECK(file == std::string("\x0a\x0d\x0d\x0a\x28\0\0\0\x4d\x3c\x2b\x1a\1\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"
                            "\4\0\3\0abc\0\0\0\0\0\x28\0\0\0",
                            40));
  file.clear();
  pcapng::append_interface(file, {"if", "d", "tcp", 96});
  CHECK(file == std::string("\1\0\0\0\x38\0\0\0\1\0\0\0\x60\0\0\0\2\0\2\0if\0\0\3\0\1\0d\0\0\0\x09\0\1\0\x09\0\0\0"
                            "\x0b\0\4\0\0tcp\0\0\0\0\x38\0\0\0",
                            56));  // times in 10^-9 s; a filter of libpcap
  file.clear();
  const std::byte frame[] = {std::byte{0xaa}, std::byte{0xbb}, std::byte{0xcc}};
  pcapng::append_packet(file, {1, 0x1122334455667788, frame, 60, 9, "hi"});
  CHECK(file == std::string("\6\0\0\0\x40\0\0\0\1\0\0\0\x44\x33\x22\x11\x88\x77\x66\x55\3\0\0\0\x3c\0\0\0"
                            "\xaa\xbb\xcc\0\1\0\2\0hi\0\0\2\0\4\0\1\0\0\0\6\0\4\0\x09\0\0\0\0\0\0\0\x40\0\0\0",
                            64));
  file.clear();
  pcapng::append_statistics(file, 0, {10, 4, 6, 5}, {1, 2});
  CHECK(file.size() <= pcapng::kStatisticsBytes);
  CHECK(file.find(std::string("\5\0\x08\0\4\0\0\0\0\0\0\0", 12)) != std::string::npos);  // isb_ifdrop
}

TEST_CASE("a file begins with the program and ends with the statistics; it is for its owner alone") {
  const Folder folder;
  const std::string captures = folder / "captures";
  const Frame frame;
  {
    uint64_t received = 100;
    CaptureFiles files(settings_for(captures), [&](uint32_t) { return pcapng::Statistics{received, 7, 90, 0}; });
    files.add(frame.packet(), kStart);
    CHECK(files.waiting() == 1);
    files.flush(kStart);
    CHECK(files.waiting() == 0);
    CHECK(files.written() == 1);
    CHECK(files.current().ends_with("weir-20251201T000000.000000Z.pcapng.part"));
    CHECK(blocks(folder.read("captures/" + names_of_files(captures)[0])) ==
          std::vector<uint32_t>{kSection, kInterface, kPacket});
    received = 105;
    files.add(frame.packet(), kStart);
    files.finish(kStart + seconds(1));
  }
  CHECK(names_of_files(captures) == std::vector<std::string>{"weir-20251201T000000.000000Z.pcapng"});
  const std::string file = folder.read("captures/weir-20251201T000000.000000Z.pcapng");
  CHECK(blocks(file) == std::vector<uint32_t>{kSection, kInterface, kPacket, kPacket, kStatistics});
  CHECK(file.find("weir controld " WEIR_VERSION) != std::string::npos);
  CHECK(file.find(std::string("\4\0\x08\0\x69\0\0\0\0\0\0\0", 12)) != std::string::npos);  // isb_ifrecv
  CHECK(file.find(std::string("\5\0\x08\0\7\0\0\0\0\0\0\0", 12)) != std::string::npos);    // isb_ifdrop
  CHECK(file.find(std::string("\x08\0\x08\0\2\0\0\0\0\0\0\0", 12)) != std::string::npos);  // isb_usrdeliv
  struct stat status = {};
  REQUIRE(stat((captures + "/weir-20251201T000000.000000Z.pcapng").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  REQUIRE(stat(captures.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
}

TEST_CASE("files rotate by size and by age, the oldest go, and nothing else in the folder does") {
  const Folder folder;
  std::filesystem::create_directory(folder / "captures");
  folder.write("captures/weir-notes.pcapng", "mine");
  folder.write("captures/weir-20200101T000000.000000Z.pcapng.part", "left behind");
  const std::string captures = folder / "captures";
  CaptureFiles files(settings_for(captures), none);
  CHECK(names_of_files(captures)[0] == "weir-20200101T000000.000000Z.pcapng");
  const Frame frame;
  for (int i = 0; i < 3000; i++) files.add(frame.packet(), kStart + std::chrono::milliseconds(i));  // 280 bytes each
  files.flush(kStart + seconds(3));
  std::vector<std::string> names = names_of_files(captures);
  CHECK(names.size() == 3 + 1);
  CHECK(names[2].ends_with(".part"));
  CHECK(names[3] == "weir-notes.pcapng");
  CHECK(names[0] > "weir-2025");
  for (const std::string& name : names) CHECK(std::filesystem::file_size(captures + "/" + name) <= 65536);
  CHECK(std::filesystem::file_size(captures + "/" + names[0]) > 60000);
  files.flush(kStart + seconds(3600 + 2));
  CHECK(names_of_files(captures)[2].ends_with(".part"));
  files.flush(kStart + seconds(3600 + 3));
  CHECK(names_of_files(captures)[2].ends_with(".pcapng"));
  CHECK(files.current().empty());
  CHECK(files.written() == 3000);
  CHECK(files.lost() == 0);
}

TEST_CASE("what cannot be written is lost and counted, said, and tried again") {
  const Folder folder;
  folder.write("captures", "a file is in the way");
  CaptureFiles files(settings_for(folder / "captures"), none);
  const Frame frame;
  files.add(frame.packet(), kStart);
  files.flush(kStart);
  CHECK(files.lost() == 1);
  CHECK(files.error().find("captures") != std::string::npos);
  std::filesystem::remove(folder / "captures");
  files.add(frame.packet(), kStart);
  files.flush(kStart + seconds(4));  // not yet
  CHECK(files.lost() == 2);
  files.add(frame.packet(), kStart);
  files.flush(kStart + seconds(5));
  CHECK(files.written() == 1);
  CHECK(files.error().empty());

  std::filesystem::remove_all(folder / "captures");  // by somebody else
  files.add(frame.packet(), kStart);
  files.flush(kStart + seconds(6));
  CHECK(files.written() == 2);
  CHECK(names_of_files(folder / "captures").size() == 1);
}

TEST_CASE("a clock that was ahead, and is set back, ends no capture") {
  const Folder folder;
  folder.write("captures", "a file is in the way");
  const std::string captures = folder / "captures";
  const CaptureFiles::Now ahead = kStart + std::chrono::hours(24 * 365);
  CaptureFiles files(settings_for(captures), none);
  const Frame frame;
  const auto write_one = [&](CaptureFiles::Now now) {
    files.add(frame.packet(), now);
    files.flush(now);
  };
  write_one(ahead);
  CHECK(files.lost() == 1);
  std::filesystem::remove(captures);
  write_one(kStart);  // not in a year
  CHECK(files.written() == 1);

  for (int hour = 0; hour < 6; hour++) write_one(ahead + std::chrono::hours(hour * 2));
  files.finish(ahead + std::chrono::hours(24));
  for (int hour = 0; hour < 6; hour++) write_one(kStart + std::chrono::hours(hour * 2));
  files.finish(kStart + std::chrono::hours(24));
  CHECK(files.written() == 13);
  for (const std::string& name : names_of_files(captures)) CHECK(name < "weir-2026");
}

TEST_CASE("a comment tells generation, list, entry and its place") {
  wire::Sample sample;
  sample.generation = {0xabc, 7};
  wire::set_text(sample.list, "c2");
  const Origin entry = {"c2", "feeds/c2.txt", 17, "203.0.113.0/24", 1};
  CHECK(capture_comment(sample, &entry) ==
        "generation 0000000000000abc/7, list c2, entry 203.0.113.0/24, feeds/c2.txt:17, port 0");
  sample.layer = 1;
  sample.port = 3;
  CHECK(capture_comment(sample, nullptr) == "generation 0000000000000abc/7, list c2, entry not known, layer 2, port 3");
  sample.layer = 0;
  sample.dropped_by = wire::DroppedBy::unparsed;
  CHECK(capture_comment(sample, nullptr) == "generation 0000000000000abc/7, policy.unparsed, port 3");
  sample.dropped_by = wire::DroppedBy::default_action;
  CHECK(capture_comment(sample, nullptr) == "generation 0000000000000abc/7, policy.default, port 3");
  sample.dropped_by = wire::DroppedBy::no_snapshot;
  sample.generation = {};
  CHECK(capture_comment(sample, nullptr) == "generation none, no_snapshot, port 3");
}
