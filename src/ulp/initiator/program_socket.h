#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "service/loop.h"

namespace verbatim::ulp::initiator {

/// A file that a program has open: a connection to us, by the interposed calls of src/dropin/view.
enum class OpenFile : std::uint64_t {};

/// What programs' calls come to.
class ProgramHandler {
 public:
  /// open(2): 0, or an errno value.
  virtual int on_open(const std::string& path) = 0;
  /// write(2), or an ioctl (device_request.h): answered by `ProgramSocket::answer`, now or later.
  virtual void on_message(OpenFile file, const std::string& path, std::string_view message) = 0;
  virtual void on_close(OpenFile file) = 0;

 protected:
  ~ProgramHandler() = default;
};

/// The socket of programs. A connection's first message is 'o' and a path, the others are what is
/// written; each is answered by an errno value of 4 bytes (0: done) and a text: the bytes that were
/// taken, or what an ioctl returns. One message of a file is served at a time.
class ProgramSocket {
 public:
  static constexpr std::size_t kConnectionsMax = 256;
  static constexpr std::size_t kMessageBytes = 128 << 10;

  /// Loop and handler outlive it.
  static Result<std::unique_ptr<ProgramSocket>> create(service::Loop& loop, const std::string& path,
                                                       ProgramHandler& handler);
  ~ProgramSocket();
  ProgramSocket(const ProgramSocket&) = delete;
  ProgramSocket& operator=(const ProgramSocket&) = delete;

  /// The program may have ended. `more`: what its next read(2) returns; "": nothing.
  void answer(OpenFile file, int code, std::string_view text = {}, std::string_view more = {});
  std::size_t connection_count() const { return connections_.size(); }

 private:
  struct Connection {
    OpenFile file{};
    UniqueFd socket;
    std::string opened;  // A path.
    bool is_busy = false;
  };
  ProgramSocket(service::Loop& loop, std::string path, UniqueFd listener, ProgramHandler& handler)
      : loop_(loop), path_(std::move(path)), listener_(std::move(listener)), handler_(handler) {}
  void accept_all();
  void on_ready(int fd);
  void serve(int fd, std::string_view message);

  service::Loop& loop_;
  const std::string path_;
  const UniqueFd listener_;
  ProgramHandler& handler_;
  std::map<int, Connection> connections_;
  std::uint64_t last_ = 0;
  std::string buffer_ = std::string(kMessageBytes, '\0');
};

}  // namespace verbatim::ulp::initiator
