#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/fd.h"

// An HTTP server on the loopback, one thread, one connection after the other: says what the test wants, also what no
// server should.
class HttpServer {
 public:
  struct Asked {
    std::string head, body;
    size_t connection = 0;  // 0 is the first one

    std::string path() const {
      const size_t begin = head.find(' ') + 1;
      return head.substr(begin, head.find(' ', begin) - begin);
    }
  };
  // What is sent, byte by byte; more(text) sends before that, false: nobody is there any more. Empty: the connection
  // ends.
  using Send = std::function<bool(std::string_view text)>;
  using Answer = std::function<std::string(const Asked& asked, const Send& more)>;

  static std::string ok(const std::string& body, const std::string& status = "200 OK") {
    return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  explicit HttpServer(Answer answer) : answer_(std::move(answer)) {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof any;
    if (bind(socket_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || listen(socket_.get(), 16) != 0 ||
        getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&any), &length) != 0) {
      abort();
    }
    port_ = ntohs(any.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  HttpServer(const HttpServer&) = delete;
  ~HttpServer() {
    is_over_ = true;
    thread_.join();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<Asked> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  bool is_over() const { return is_over_; }

 private:
  bool is_ready(int fd) const {
    while (!is_over_) {
      pollfd one = {fd, POLLIN, 0};
      if (poll(&one, 1, 10) == 1) return true;
    }
    return false;
  }

  void serve() {
    for (size_t n = 0; is_ready(socket_.get()); n++) {
      const weir::Fd one(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::string text;
      while (take(one.get(), n, text)) {
      }
    }
  }

  // One request of the connection, and its answer. False: the connection is over.
  bool take(int fd, size_t connection, std::string& text) {
    const auto read_more = [&] {
      char chunk[65536];
      const ssize_t got = is_ready(fd) ? recv(fd, chunk, sizeof chunk, 0) : 0;
      if (got > 0) text.append(chunk, static_cast<size_t>(got));
      return got > 0;
    };
    size_t end = 0;
    while ((end = text.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) return false;
    }
    Asked asked = {text.substr(0, end + 4), "", connection};
    const size_t named = asked.head.find("Content-Length: ");
    const size_t n_body = named == std::string::npos ? 0 : std::strtoul(asked.head.c_str() + named + 16, nullptr, 10);
    while (text.size() < end + 4 + n_body) {
      if (!read_more()) return false;
    }
    asked.body = text.substr(end + 4, n_body);
    text.erase(0, end + 4 + n_body);
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(asked);
    }
    const Send say = [&](std::string_view what) {
      while (!what.empty()) {
        const ssize_t sent = send(fd, what.data(), what.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        what.remove_prefix(static_cast<size_t>(sent));
      }
      return true;
    };
    const std::string last = answer_(asked, say);
    return !last.empty() && say(last);
  }

  const Answer answer_;
  weir::Fd socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  uint16_t port_ = 0;
  std::atomic<bool> is_over_ = false;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Asked> asked_;
  std::thread thread_;
};
