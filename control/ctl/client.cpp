#include "control/ctl/client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "common/again.h"
#include "common/clock.h"
#include "common/files.h"
#include "common/log/progress_line.h"
#include "common/paths.h"
#include "common/unix_socket.h"
#include "control/ctl/command.h"
#include "control/ctl/line/out.h"
#include "control/tell/answer/status.h"

namespace weir::control::ctl {

bool is_forbidden(const std::string& socket) {
  return access(socket.c_str(), W_OK) != 0 && errno == EACCES;
}

namespace {

// Orders of the panic switch have a socket that nothing else can hold up.
bool is_panic(const Request& request) {
  return request.command == "bypass" || request.command == "detach";
}

int milliseconds_until(Clock::time_point at) {
  return std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(at - Clock::now()).count()));
}

// A failed send still reads: controld may have answered (request too long) before it closed.
Result<Fd> send_line(const std::string& path, const std::string& line, int timeout_ms) {
  Result<Fd> fd = unix_socket::connect(path, unix_socket::Kind::stream, timeout_ms);
  if (!fd) return fd;
  for (std::string_view left = line; !left.empty();) {
    const ssize_t put = not_interrupted([&] { return send(fd->get(), left.data(), left.size(), MSG_NOSIGNAL); });
    if (put < 0) break;
    left.remove_prefix(static_cast<size_t>(put));
  }
  return fd;
}

// What takes longer: on a terminal how far controld is with the policy that it compiles, else, once, that it is waited
// for.
class Waiting {
 public:
  Waiting(const Request& request, const Patience& patience)
      : is_quiet_(patience.is_quiet),
        has_line_(!is_quiet_ && makes_policy(request) && log::has_progress_line()),
        is_reload_(request.command == "reload") {}
  Waiting(const Waiting&) = delete;
  ~Waiting() {
    if (is_shown_ && has_line_) log::clear_progress();
  }
  bool has_line() const { return has_line_; }
  // It takes longer.
  void show(const std::string& socket) {
    if (is_quiet_) return;
    if (has_line_) {
      log::draw_progress("controld: " + log::progress_text(state(socket)));
      is_shown_ = true;
    } else if (!is_reload_ && !std::exchange(is_shown_, true)) {
      print(stderr, "controlctl: waiting for controld on {} (Ctrl-C gives up)\n", socket);
    }
  }

 private:
  static bool makes_policy(const Request& request) {
    constexpr std::string_view kNames[] = {"reload", "rollback", "accept", "fetch", "add", "del", "flush"};
    return std::find(std::begin(kNames), std::end(kNames), request.command) != std::end(kNames);
  }

  log::ProgressState state(const std::string& socket) {
    Patience at_once;
    at_once.is_quiet = true;
    at_once.most_ms = 500;
    const Result<Document> document = call_controld(socket, {"status"}, at_once);
    const Result<StatusAnswer> status = document ? read_json<StatusAnswer>(*document) : Error{document.error()};
    log::ProgressState state;
    state.phase = status && !status->reloading.empty() ? status->reloading : "at work";
    if (state.phase != phase_) phase_began_ = Clock::now();
    phase_ = state.phase;
    if (status && status->progress) {
      state.done = status->progress->done;
      state.of = status->progress->of;
      state.unit = status->progress->unit;
    }
    const auto seconds_since = [](Clock::time_point begin) {
      return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    state.phase_s = seconds_since(phase_began_);
    state.total_s = seconds_since(began_);
    return state;
  }

  const bool is_quiet_, has_line_;
  const bool is_reload_;
  bool is_shown_ = false;
  std::string phase_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point phase_began_ = began_;
};

// All that comes until the other side ends.
Result<std::string> receive_all(int fd, const std::string& socket, const Patience& patience, const Request& request) {
  constexpr int kLineFirstMs = 500, kLineEachMs = 150;
  Waiting waiting(request, patience);
  const std::chrono::milliseconds kEach{waiting.has_line() ? kLineEachMs : 1000};
  const Clock::time_point begin = Clock::now();
  const Clock::time_point soon =
      begin + std::chrono::milliseconds(waiting.has_line() ? kLineFirstMs : patience.soon_ms);
  Clock::time_point end = begin + std::chrono::milliseconds(patience.most_ms);
  bool is_late = false;
  std::string text;
  char chunk[65536];
  while (true) {
    pollfd ready = {fd, POLLIN, 0};
    const int n = poll(&ready, 1, milliseconds_until(std::min(is_late ? Clock::now() + kEach : soon, end)));
    if (n < 0 && errno != EINTR) return errno_error("no answer from controld on " + socket);
    if (n <= 0) {
      if (Clock::now() >= soon && !std::exchange(is_late, true) && patience.not_soon) {
        end = Clock::now() + std::chrono::milliseconds(patience.not_soon(fd));
      }
      if (is_late && !patience.not_soon) waiting.show(socket);
      if (Clock::now() >= end) return Error{"no answer from controld on " + socket + " in time"};
      continue;
    }
    const ssize_t got = not_interrupted([&] { return recv(fd, chunk, sizeof chunk, 0); });
    if (got < 0 && errno == EAGAIN) continue;
    // Closed without reading what was asked: of who may not ask.
    if (got == 0 || (got < 0 && errno == ECONNRESET && text.empty())) return text;
    if (got < 0) return errno_error("no answer from controld on " + socket);
    text.append(chunk, static_cast<size_t>(got));
  }
}

std::string not_yours(const std::string& what) {
  return fmt::format(
      "{}: be root, or ask an administrator to add you to the group {} (to look) or {} (to change); a new "
      "login takes it up",
      what, kReadGroup, kAdminGroup);
}

// What to do when nothing can be reached on the path, which belongs to that socket.
std::string way_out(const std::string& path, const std::string& socket) {
  if (is_forbidden(path)) return not_yours("the socket is not yours to use");
  const bool is_service = socket == "/run/weir/controld.sock" && access("/run/systemd/system", F_OK) == 0;
  if (is_service) return "start it with `systemctl start weir-controld`, or name its socket with --socket";
  return "start it with `controld --config weir.yaml --socket " + socket + "`, or name its socket with --socket";
}

}  // namespace

int fail(const Context& context, const std::string& error) {
  if (context.json) print("{}", failure_line(error));
  print(stderr, "controlctl: {}\n", error);
  return kUnreachable;
}

Result<Document> call_controld(const std::string& socket, const Request& request, const Patience& patience) {
  // Who may only look is told so on the other one.
  const bool is_told_no = request.command == "detach" && is_forbidden(panic_socket_of(socket));
  const bool is_to_panic = is_panic(request) && !is_told_no;
  const std::string path = is_to_panic ? panic_socket_of(socket) : socket;
  Result<Fd> fd = send_line(path, write_json(request).line(), patience.soon_ms);
  if (!fd) {
    return Error{"cannot reach controld: " + fd.error() + "\nhint: " + way_out(path, socket)};
  }
  const Result<std::string> text = receive_all(fd->get(), path, patience, request);
  if (!text) return Error{text.error()};
  if (text->empty()) {
    const std::string hint = geteuid() == 0 ? "" : "\nhint: " + not_yours("so it does with who may not ask");
    return Error{"controld on " + socket + " closed without an answer" + hint};
  }
  Result<Document> answer = Document::parse(*text);
  if (!answer) return Error{"controld on " + socket + " answered something that is not a JSON object"};
  return answer;
}

std::optional<Document> ask(const Context& context, const Request& request) {
  Patience patience;
  patience.is_quiet = context.quiet || context.json;
  Result<Document> answer = call_controld(context.socket, request, patience);
  if (answer) return std::move(*answer);
  (void)fail(context, answer.error());
  return std::nullopt;
}

bool is_printed(const Context& context, const Document& answer) {
  const std::string version = answer.text("version").value_or("");
  if (version != WEIR_VERSION && !context.quiet) {
    print(stderr, "controlctl: warning: this is version {}, controld is {}\n", WEIR_VERSION, version);
  }
  const std::optional<std::string> error = answer.text("error");
  if (context.json) {
    print("{}", answer.line());
  } else if (error && !answer.contains("ok")) {
    print(stderr, "controlctl: {}\n", *error);
  } else {
    return false;
  }
  return true;
}

int not_understood(const std::string& error) {
  print(stderr, "controlctl: the answer of controld is not understood: {}\n", error);
  return kFailed;
}

void warn_of_unknown(const std::vector<std::string>& members) {
  for (const std::string& member : members) {
    if (member == "version" || member == "error") continue;  // of every answer
    print(stderr, "controlctl: warning: the answer of controld is not understood: member {} is unknown\n", member);
  }
}

int exit_code(const Document& answer) {
  const bool has_ok = answer.contains("ok");
  if (!answer.flag("ok").value_or(true) && answer.has_elements("over_limits")) return kOverLimit;
  if (has_ok && answer.has_false("targets", "acknowledged")) return kNotAcknowledged;
  if (answer.contains("error") || !answer.flag("ok").value_or(true)) return kFailed;
  return has_ok && answer.has_elements("refused") ? kNotAcknowledged : kOk;
}

}  // namespace weir::control::ctl
