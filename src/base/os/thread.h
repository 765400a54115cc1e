#pragma once

#include <functional>
#include <thread>

#include "base/error.h"

namespace verbatim {

/// Starts a background thread in the program; all threads of the library are started here. Signals
/// belong to the program, so all are blocked in the thread, which may use memory whatever its
/// protection key. `name` has at most 15 characters; `body` does not throw. EAGAIN if a limit on
/// threads is reached.
Result<std::thread> start_thread(const char* name, std::function<void()> body);

}  // namespace verbatim
