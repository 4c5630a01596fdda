#include "control/policy/read/captured_frame.h"

#include <fmt/format.h>
#include <pcap/pcap.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "common/files.h"

namespace weir::control {

namespace {

using Capture = std::unique_ptr<pcap_t, void (*)(pcap_t*)>;

std::string link_type_text(int type) {
  const char* name = pcap_datalink_val_to_name(type);
  const char* about = pcap_datalink_val_to_description(type);
  if (name == nullptr) return std::to_string(type);
  return about == nullptr ? name : fmt::format("{} ({})", name, about);
}

}  // namespace

Result<CapturedFrame> read_captured_frame(const std::string& path, uint64_t number) {
  const std::string name = path == "-" ? "stdin" : path;
  std::unique_ptr<FILE, int (*)(FILE*)> file(path == "-" ? fdopen(dup(STDIN_FILENO), "rb") : fopen(path.c_str(), "rbe"),
                                             fclose);
  if (file == nullptr) return errno_error("cannot open " + name);
  char why[PCAP_ERRBUF_SIZE] = {};
  const Capture capture(pcap_fopen_offline(file.get(), why), pcap_close);
  if (capture == nullptr) {
    return Error{fmt::format(
        "{} is no capture: {}\nhint: give a file as tcpdump -w and Wireshark write it (pcap, pcapng)", name, why)};
  }
  (void)file.release();  // pcap_close() closes it
  if (const int type = pcap_datalink(capture.get()); type != DLT_EN10MB) {
    return Error{
        fmt::format("{} has frames of link type {}, not of Ethernet\nhint: capture on one Ethernet interface "
                    "(tcpdump -i eth0, not -i any)",
                    name, link_type_text(type))};
  }
  for (uint64_t read = 0;; read++) {
    pcap_pkthdr* header = nullptr;
    const u_char* bytes = nullptr;
    const int got = pcap_next_ex(capture.get(), &header, &bytes);
    if (got == PCAP_ERROR_BREAK) {
      return Error{fmt::format("{} has {} frame{}: there is no frame {}\nhint: the first is frame 1", name, read,
                               read == 1 ? "" : "s", number)};
    }
    if (got != 1) {
      return Error{fmt::format("{} cannot be read behind frame {}: {}\nhint: ask about frames in front of that", name,
                               read, pcap_geterr(capture.get()))};
    }
    if (read + 1 == number) return CapturedFrame{{bytes, bytes + header->caplen}, header->len};
  }
}

}  // namespace weir::control
