#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "service/loop.h"

namespace verbatim::ulp::target {

/// As much of a D-Bus system bus as targetcli needs to start: it asks for tcmu-runner, and ends if
/// there is no bus. Who connects is welcome, and each call but Hello gets an error.
class SystemBus {
 public:
  /// The loop outlives it.
  static Result<std::unique_ptr<SystemBus>> create(service::Loop& loop, const std::string& path);
  ~SystemBus();
  SystemBus(const SystemBus&) = delete;
  SystemBus& operator=(const SystemBus&) = delete;

 private:
  static constexpr std::size_t kConnectionsMax = 32;
  static constexpr std::size_t kBytesMax = 65536;  // Of a message, or a line.
  struct Connection {
    UniqueFd socket;
    std::string in;
    bool is_authenticated = false;
    std::uint32_t serial = 0;
  };
  SystemBus(service::Loop& loop, std::string path, UniqueFd listener)
      : loop_(loop), path_(std::move(path)), listener_(std::move(listener)) {}
  void accept_all();
  void on_ready(int fd);

  service::Loop& loop_;
  const std::string path_;
  const UniqueFd listener_;
  std::map<int, Connection> connections_;
};

/// The answer to a line of the authentication (D-Bus specification, "Authentication Protocol");
/// empty after BEGIN.
std::string bus_line_answer(std::string_view line);
/// Takes a message off `in`, and returns the answer, empty if none is due. False: it isn't whole.
/// `number`: the answer's.
bool take_bus_message(std::string& in, std::uint32_t number, std::string& answer);

}  // namespace verbatim::ulp::target
