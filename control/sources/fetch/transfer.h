#pragma once

#include <cstddef>
#include <cstdint>

#include "common/confine/helpers.h"

// One answer of a server, fetched by a process of its own (common/confine/helpers.h) with libcurl: it may speak to the
// network and read what names and certificates take, and holds nothing of controld's. Whoever takes it over can make
// up what this one url says, which the guard of its list judges as any other content.
namespace weir::control {

extern const confine::Job kFetchJob;  // for confine::Helpers::start

constexpr size_t kMostUrl = 2048, kMostTag = 512, kMostDate = 64, kMostText = 256;
constexpr uint64_t kMostRedirects = 5;
constexpr uint64_t kLeastSpeed = 1000;  // bytes a second; slower than this for the time limit is a stall
constexpr uint64_t kMostTimeouts = 20;  // of which one transfer may take so many

// What is asked for. Texts end in NUL.
struct TransferRequest {
  char url[kMostUrl + 1], proxy[kMostUrl + 1], user_agent[kMostText + 1];
  char etag[kMostTag + 1], last_modified[kMostDate + 1];  // of what is there; both empty: nothing is
  uint64_t timeout_s, max_bytes;
  uint64_t may_be_private;     // 1: redirects may lead to private addresses (fetch: private)
  uint64_t certificate_bytes;  // at the begin of the shared memory, as PEM; 0: those of the system
};

enum class TransferResult : uint32_t { taken, same, failed };

// What became of it. The content is at the begin of the shared memory.
struct TransferAnswer {
  TransferResult result;
  uint32_t status;                                        // of HTTP; 0: no server answered
  uint64_t bytes;                                         // taken: of the content
  uint64_t retry_after_s;                                 // what the server asked for; 0: nothing
  char etag[kMostTag + 1], last_modified[kMostDate + 1];  // taken: of the content; empty: the server named none
  char error[kMostText + 1];                              // failed: why
};

}  // namespace weir::control
