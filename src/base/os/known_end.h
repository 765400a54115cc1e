#pragma once

#include "base/os/process_token.h"

namespace verbatim {

/// Scope object: in this thread, `process_lives` returns false for the process meanwhile. A pidfd
/// has shown that the process has ended, but another process may have its number by now.
class KnownEnd {
 public:
  explicit KnownEnd(ProcessToken ended);
  ~KnownEnd();
  KnownEnd(const KnownEnd&) = delete;
  KnownEnd& operator=(const KnownEnd&) = delete;
};

}  // namespace verbatim
