#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "tests/catch.h"

// A server on loopback that lets anybody connect, and never answers.
struct SilentServer {
  SilentServer() {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof any;
    REQUIRE(bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0);
    REQUIRE(listen(socket.get(), 16) == 0);
    REQUIRE(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &length) == 0);
    url = "http://127.0.0.1:" + std::to_string(ntohs(any.sin_port)) + "/";
  }
  // Takes a connection that waits. False: none does.
  bool take() {
    weir::Fd one(accept4(socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!one) return false;
    connected.push_back(std::move(one));
    return true;
  }
  // The path that somebody asks for who has connected meanwhile; empty: nobody has.
  std::string asked() {
    if (!take()) return "";
    pollfd poll_one = {connected.back().get(), POLLIN, 0};
    char text[100] = {};
    if (poll(&poll_one, 1, 10'000) != 1 || recv(poll_one.fd, text, sizeof text - 1, 0) <= 0) return "";
    const std::string request = text;
    return request.substr(4, request.find(' ', 4) - 4);
  }
  // Whether somebody has connected since end().
  bool is_asked() {
    take();
    return !connected.empty();
  }
  void end() { connected.clear(); }

  weir::Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  std::string url;
  std::vector<weir::Fd> connected;
};
