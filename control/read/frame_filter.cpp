#include "control/read/frame_filter.h"

#include <pcap/pcap.h>

namespace weir::control {

namespace {
constexpr int kLongestFrame = 65535;
constexpr int kOptimise = 1;
}  // namespace

void FrameFilter::Free::operator()(bpf_program* program) const {
  pcap_freecode(program);
  delete program;
}

Result<FrameFilter> FrameFilter::compile(const std::string& expression) {
  FrameFilter filter;
  if (expression.empty()) return filter;
  const std::unique_ptr<pcap_t, void (*)(pcap_t*)> pcap(pcap_open_dead(DLT_EN10MB, kLongestFrame), pcap_close);
  if (pcap == nullptr) return Error{"no memory for libpcap"};
  auto program = std::make_unique<bpf_program>();
  if (pcap_compile(pcap.get(), program.get(), expression.c_str(), kOptimise, PCAP_NETMASK_UNKNOWN) != 0) {
    return Error{pcap_geterr(pcap.get())};
  }
  filter.program_.reset(program.release());
  return filter;
}

bool FrameFilter::passes(std::span<const std::byte> captured, uint32_t frame_bytes) const {
  if (program_ == nullptr) return true;
  pcap_pkthdr header = {};
  header.caplen = static_cast<bpf_u_int32>(captured.size());
  header.len = frame_bytes;
  return pcap_offline_filter(program_.get(), &header, reinterpret_cast<const u_char*>(captured.data())) != 0;
}

}  // namespace weir::control
