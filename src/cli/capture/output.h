#pragma once

#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim::cli {

/// Where a capture or a drawing goes: a file, or standard output.
class Output {
 public:
  /// "-": standard output. EINVAL if that is a terminal.
  static Result<Output> open(const std::string& path);

  /// EPIPE: the reader of a pipe has ended. ECANCELED: `stop` is readable, and the reader does not
  /// read.
  Result<void> write(ByteSpan bytes, int stop);
  /// "capture.pcapng", "standard output".
  const std::string& name() const { return name_; }

 private:
  Output(UniqueFd fd, std::string name, bool is_pipe)
      : fd_(std::move(fd)), name_(std::move(name)), is_pipe_(is_pipe) {}
  Result<void> await_reader(int stop) const;

  UniqueFd fd_;
  std::string name_;
  bool is_pipe_ = false;
};

}  // namespace verbatim::cli
