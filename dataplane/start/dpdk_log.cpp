#include "dataplane/start/dpdk_log.h"

#include <rte_log.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "common/log/log.h"

namespace weir::dataplane {

namespace {

// DPDK counts from RTE_LOG_EMERG = 1, syslog(3) from 0.
log::Level level_of(int dpdk) {
  return static_cast<log::Level>(
      std::clamp(dpdk - 1, static_cast<int>(log::Level::error), static_cast<int>(log::Level::debug)));
}

// "EAL: text\n", whole lines, as the stream is buffered by lines.
ssize_t take(void*, const char* text, size_t size) {
  std::string_view left(text, size);
  while (!left.empty()) {
    const size_t end = std::min(left.find('\n'), left.size());
    const std::string_view line = left.substr(0, end);
    if (!line.empty()) log::write({level_of(rte_log_cur_msg_loglevel()), "DPDK", {{"text", line}}});
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return static_cast<ssize_t>(size);
}

}  // namespace

void take_dpdk_log() {
  cookie_io_functions_t functions = {};
  functions.write = take;
  FILE* stream = fopencookie(nullptr, "w", functions);
  if (stream == nullptr) return;  // then it writes to stderr by itself
  setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
  rte_openlog_stream(stream);
}

}  // namespace weir::dataplane
