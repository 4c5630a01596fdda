#include "control/ctl/client.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>

#include "common/files.h"
#include "common/unix_socket.h"
#include "control/ctl/command.h"

namespace weir::control::ctl {

namespace {

// A reload reads, compiles and then waits for targets; nothing takes minutes.
constexpr int kAnswerMs = 120'000;

}  // namespace

Result<Json> call_controld(const std::string& socket, const Json& request) {
  Result<Fd> fd = unix_socket::connect(socket, unix_socket::Kind::stream, kAnswerMs);
  if (!fd) {
    return Error{"cannot reach controld: " + fd.error() +
                 "\nhint: start it with `controld --config weir.yaml --socket " + socket +
                 "`, or name its socket with --socket"};
  }
  // A failed send still reads: controld may have answered (request too long) before it closed.
  const std::string line = to_line(request);
  for (std::string_view left = line; !left.empty();) {
    const ssize_t put = send(fd->get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (put < 0) break;
    left.remove_prefix(static_cast<size_t>(put));
  }
  std::string text;
  char chunk[65536];
  while (true) {
    const ssize_t got = recv(fd->get(), chunk, sizeof chunk, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("no answer from controld on " + socket);
    if (got == 0) break;
    text.append(chunk, static_cast<size_t>(got));
  }
  if (text.empty()) return Error{"controld on " + socket + " closed without an answer"};
  Json answer = Json::parse(text, nullptr, false);
  if (!answer.is_object()) return Error{"controld on " + socket + " answered something that is not a JSON object"};
  return answer;
}

int request(const Context& context, const Json& request, void (*show)(const Json& answer)) {
  const Result<Json> answer = call_controld(context.socket, request);
  if (!answer) {
    fmt::print(stderr, "controlctl: {}\n", answer.error());
    return kUnreachable;
  }
  return print_answer(context, *answer, show);
}

int print_answer(const Context& context, const Json& answer, void (*show)(const Json& answer)) {
  try {
    const std::string version = answer.at("version").get<std::string>();
    if (version != WEIR_VERSION) {
      fmt::print(stderr, "controlctl: warning: this is version {}, controld is {}\n", WEIR_VERSION, version);
    }
    if (context.json) {
      fmt::print("{}", to_line(answer));
    } else if (answer.contains("error") && !answer.contains("ok")) {
      fmt::print(stderr, "controlctl: {}\n", answer.at("error").get<std::string>());
    } else {
      show(answer);
    }
    return exit_code(answer);
  } catch (const nlohmann::json::exception& e) {
    fmt::print(stderr, "controlctl: the answer of controld is not understood: {}\n", e.what());
    return kFailed;
  }
}

int exit_code(const Json& answer) {
  if (answer.contains("ok") && answer.contains("targets")) {
    for (const Json& target : answer.at("targets")) {
      if (!target.at("acknowledged").get<bool>()) return kNotAcknowledged;
    }
  }
  return answer.contains("error") || !answer.value("ok", true) ? kFailed : kOk;
}

}  // namespace weir::control::ctl
