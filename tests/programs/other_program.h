#pragma once

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "endpoint.h"

/// Tests with several programs: each is a separate process, connected to the one that started it.
namespace programs {

using endpoint::Buffer;
using endpoint::check;
using endpoint::Device;
using endpoint::post_send;

inline constexpr int kSilenceMs = 20'000;

/// A message between programs.
struct Message {
  std::uint64_t a = 0, b = 0, c = 0;
};

/// A separate process, connected to the one that started it.
class Child {
 public:
  template <typename Run>
  Child(const char* name, Run run) : name_(name) {
    int line[2];
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) == 0, "socketpair");
    pid_ = fork();
    check(pid_ >= 0, "fork");
    line_ = line[pid_ == 0 ? 1 : 0];
    close(line[pid_ == 0 ? 0 : 1]);
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run(*this);
    std::exit(0);
  }
  void send_value(const Message& word) const {
    check(send(line_, &word, sizeof word, MSG_NOSIGNAL) == sizeof word, name_ + ": send");
  }
  Message receive_value() const {
    Message word;
    pollfd ready{.fd = line_, .events = POLLIN, .revents = 0};
    check(poll(&ready, 1, kSilenceMs) == 1, name_ + " says nothing");
    check(recv(line_, &word, sizeof word, 0) == sizeof word, name_ + " has ended");
    return word;
  }
  pid_t process_id() const { return pid_; }
  void kill() const {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(line_);
  }
  void end() const {
    close(line_);
    int status = 0;
    check(waitpid(pid_, &status, 0) == pid_ && status == 0, name_ + " failed");
  }
  /// Waits for a message. Returns false if the other end is closed.
  bool has_more() const {
    Message word;
    return recv(line_, &word, sizeof word, MSG_PEEK) == sizeof word;
  }

 private:
  std::string name_;
  pid_t pid_ = 0;
  int line_ = -1;
};

}  // namespace programs
