#include "common/yaml/apart.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "common/clock.h"

namespace weir::yaml {

namespace {

constexpr size_t kPartBytes = size_t{64} << 10;  // that go at once
// yaml-cpp keeps all of a `[...]` as tokens until it knows that no `:` follows: two of 88 bytes for `1,`.
constexpr uint64_t kLeastMemory = uint64_t{64} << 20, kMostMemory = uint64_t{2} << 30, kMemoryPerByte = 96;
// Far more than it takes: 4 MB of policy are a second.
constexpr std::chrono::seconds kLeastTime{60}, kTimePerMiB{2};

// --- in the process that parses ---

class Writer {
 public:
  explicit Writer(int socket) : socket_(socket) { part_.reserve(kPartBytes); }
  void put(const Event& event) {
    const EventHead head = head_of(event);
    put_bytes({reinterpret_cast<const char*>(&head), sizeof head});
    put_bytes(event.text);
  }
  void flush() {
    if (part_.empty()) return;
    // Nobody listens any more: what was wrong so far was enough.
    if (!confine::tell(socket_, std::as_bytes(std::span(part_)))) throw Gone{};
    part_.clear();
  }
  struct Gone {};

 private:
  void put_bytes(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view now = bytes.substr(0, kPartBytes - part_.size());
      part_.append(now);
      bytes.remove_prefix(now.size());
      if (part_.size() == kPartBytes) flush();
    }
  }

  const int socket_;
  std::string part_;
};

void parse(int socket, std::span<std::byte> shared) {
  std::byte begin{};
  if (confine::hear(socket, {&begin, 1}) != 1) return;
  Writer writer(socket);
  try {
    try {
      (void)parse_here({reinterpret_cast<const char*>(shared.data()), shared.size()},
                       [&](const Event& event) { writer.put(event); });
    } catch (const std::bad_alloc&) {
      writer.put({Event::Kind::no_memory});
    }
    writer.flush();
  } catch (const Writer::Gone&) {
  }
}

}  // namespace

constexpr uint32_t kCpuSeconds = 600;  // more than any deadline
const confine::Job kParseJob = {"weir-yaml", kCpuSeconds, parse};

// --- in the program, which believes nothing: what the events say together is the Builder's to judge (yaml.cpp) ---

Result<void> take_events(const confine::Helper& helper, size_t text_bytes, Clock::time_point deadline,
                         const TakeEvent& take) {
  constexpr size_t kLongestError = 1024;
  bool is_over = false;
  EventReader reader(2 * text_bytes + kLongestError, [&](const Event& event) {
    is_over = is_over || event.kind >= Event::Kind::end;
    take(event);
  });
  std::vector<std::byte> part(kPartBytes);
  const std::byte begin{};
  if (const Result<void> asked = confine::ask(helper, {&begin, 1}); !asked) return asked;
  while (!is_over) {
    const Result<size_t> got = confine::receive(helper, part, deadline);
    if (!got) return Error{got.error()};
    if (!reader.read(std::span(part).first(*got))) return Error{kNoEvents};
  }
  return {};
}

Parse parse_apart(const confine::Helpers& helpers) {
  return [&helpers](std::string_view text, const TakeEvent& take) -> Result<void> {
    if (text.empty()) return take({Event::Kind::end}), Result<void>();
    const uint64_t memory = std::min(kLeastMemory + kMemoryPerByte * text.size(), kMostMemory);
    Result<confine::Helper> helper = helpers.make(kParseJob, text.size(), memory);
    if (!helper) return Error{helper.error()};
    memcpy(helper->shared.bytes().data(), text.data(), text.size());
    const auto time = kLeastTime + kTimePerMiB * (text.size() >> 20);
    return take_events(*helper, text.size(), Clock::now() + time, take);
  };
}

}  // namespace weir::yaml
