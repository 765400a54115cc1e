#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "service/loop.h"

namespace verbatim::ulp::target {

/// What programs ask of a tree. The interposed calls of src/dropin/view send it: one byte, a path
/// below /sys/kernel/config, and for some behind a zero byte a second text. The answer is an errno
/// value of 4 bytes (0: done) and a text.
enum class TreeRequest : char {
  make = 'm',
  remove = 'r',
  link = 's',  // The second text: to what.
  unlink = 'u',
  read = 'g',         // Answered by the attribute's text.
  open = 'o',         // To write: each message that follows is a write(2), answered by its length.
  change_mode = 'c',  // The second text: the mode, in decimal.
  write = 'w',        // Not sent: what comes after `open`.
};

/// The socket of programs. A connection that has opened an attribute is a program's descriptor: a
/// shell gives it to a child, which writes without waiting for the answer.
class TreeSocket {
 public:
  struct Answer {
    int code = 0;
    std::string text;
  };
  /// For what is written to an opened attribute `asked` is `write`.
  using Handler =
      std::function<Answer(TreeRequest asked, const std::string& path, std::string_view second)>;
  static constexpr std::size_t kConnectionsMax = 256;
  static constexpr std::size_t kMessageBytes = 16384;

  /// The loop outlives it.
  static Result<std::unique_ptr<TreeSocket>> create(service::Loop& loop, const std::string& path,
                                                    Handler handler);
  ~TreeSocket();
  TreeSocket(const TreeSocket&) = delete;
  TreeSocket& operator=(const TreeSocket&) = delete;

 private:
  struct Connection {
    UniqueFd socket;
    std::string opened;  // An attribute's path.
  };
  TreeSocket(service::Loop& loop, std::string path, UniqueFd listener, Handler handler)
      : loop_(loop),
        path_(std::move(path)),
        listener_(std::move(listener)),
        handler_(std::move(handler)) {}
  void accept_all();
  void on_ready(int fd);
  void serve(Connection& connection, std::string_view message);

  service::Loop& loop_;
  const std::string path_;
  const UniqueFd listener_;
  const Handler handler_;
  std::map<int, Connection> connections_;
  std::string buffer_ = std::string(kMessageBytes, '\0');
};

}  // namespace verbatim::ulp::target
