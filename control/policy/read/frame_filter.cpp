#include "control/policy/read/frame_filter.h"

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <vector>

namespace weir::control {

namespace {
constexpr int kLongestFrame = 65535;
constexpr int kOptimise = 1;
constexpr size_t kMostInstructions = 4096;  // BPF_MAXINSNS of Linux

// Takes a number from the front, and what separates it from the next one.
template <class Number>
bool take_number(std::string_view& text, char separator, Number& number) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{}) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.empty()) return true;
  const bool is_separated = text.front() == separator;
  text.remove_prefix(1);
  return is_separated;
}

bool take_instruction(std::string_view& text, bpf_insn& instruction) {
  return take_number(text, ' ', instruction.code) && take_number(text, ' ', instruction.jt) &&
         take_number(text, ' ', instruction.jf) && take_number(text, ',', instruction.k);
}

// The instructions of classic BPF. libpcap ends the process at another one, and bpf_validate() lets some of those
// through.
bool is_known(uint16_t code) {
  switch (code) {
    case BPF_LD | BPF_W | BPF_ABS:
    case BPF_LD | BPF_H | BPF_ABS:
    case BPF_LD | BPF_B | BPF_ABS:
    case BPF_LD | BPF_W | BPF_IND:
    case BPF_LD | BPF_H | BPF_IND:
    case BPF_LD | BPF_B | BPF_IND:
    case BPF_LD | BPF_W | BPF_LEN:
    case BPF_LDX | BPF_W | BPF_LEN:
    case BPF_LDX | BPF_B | BPF_MSH:
    case BPF_LD | BPF_IMM:
    case BPF_LDX | BPF_IMM:
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
    case BPF_ST:
    case BPF_STX:
    case BPF_ALU | BPF_NEG:
    case BPF_JMP | BPF_JA:
    case BPF_RET | BPF_K:
    case BPF_RET | BPF_A:
    case BPF_MISC | BPF_TAX:
    case BPF_MISC | BPF_TXA:
      return true;
    default:
      break;
  }
  const uint16_t operation = code & 0xf0;
  const bool has_operand = (code & ~(0xf0 | BPF_X)) == BPF_ALU || (code & ~(0xf0 | BPF_X)) == BPF_JMP;
  if (!has_operand) return false;
  if (BPF_CLASS(code) == BPF_JMP) return operation >= BPF_JEQ && operation <= BPF_JSET;
  return operation <= BPF_XOR && operation != BPF_NEG;
}

// A jump that goes back: bpf_validate() lets it through, since libpcap makes some for `protochain`; it may never end.
bool goes_back(const bpf_insn& instruction) {
  return instruction.code == (BPF_JMP | BPF_JA) && instruction.k > kMostInstructions;
}

// What a program begins with that somebody else wrote: 0 in every word of its memory, which libpcap leaves as it is.
std::vector<bpf_insn> clearing() {
  std::vector<bpf_insn> instructions = {bpf_insn{BPF_LD | BPF_IMM, 0, 0, 0}};
  for (bpf_u_int32 word = 0; word < BPF_MEMWORDS; word++) instructions.push_back({BPF_ST, 0, 0, word});
  return instructions;
}
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

std::string FrameFilter::program_text() const {
  if (program_ == nullptr) return "";
  std::string text = std::to_string(program_->bf_len);
  for (const bpf_insn* i = program_->bf_insns; i != program_->bf_insns + program_->bf_len; i++) {
    text += fmt::format(",{} {} {} {}", i->code, i->jt, i->jf, i->k);
  }
  return text;
}

Result<FrameFilter> FrameFilter::of_program(std::string_view text) {
  FrameFilter filter;
  if (text.empty()) return filter;
  if (text.back() == ',') text.remove_suffix(1);
  size_t n = 0;
  if (!take_number(text, ',', n) || n == 0 || n > kMostInstructions) {
    return Error{"a filter begins with the number of its instructions, 1 to " + std::to_string(kMostInstructions)};
  }
  std::vector<bpf_insn> instructions = clearing();
  const size_t first = instructions.size();
  for (size_t i = 0; i < n; i++) {
    bpf_insn& instruction = instructions.emplace_back();
    if (text.empty() || !take_instruction(text, instruction)) {
      return Error{"instruction " + std::to_string(i) + " of the filter is not four numbers"};
    }
    if (!is_known(instruction.code)) {
      return Error{fmt::format("instruction {} of the filter is none of classic BPF: {:#x}", i, instruction.code)};
    }
    if (goes_back(instruction)) {
      return Error{fmt::format("instruction {} of the filter jumps back: it might never end (protochain does so)", i)};
    }
  }
  if (!text.empty()) return Error{"the filter has more instructions than it says"};
  if (bpf_validate(instructions.data() + first, static_cast<int>(n)) == 0) {
    return Error{"the filter is no program that ends and reads only frames"};
  }
  auto program = std::make_unique<bpf_program>();
  program->bf_len = static_cast<u_int>(instructions.size());
  program->bf_insns = static_cast<bpf_insn*>(malloc(instructions.size() * sizeof(bpf_insn)));  // pcap_freecode() frees
  if (program->bf_insns == nullptr) return Error{"no memory for a filter"};
  std::copy(instructions.begin(), instructions.end(), program->bf_insns);
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
