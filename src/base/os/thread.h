#pragma once

#include <functional>
#include <thread>

#include "base/error.h"

namespace verbatim {

/// Starts a thread of the library's in the program: every thread of ours begins here. Signals are
/// the program's, so none is delivered to it. `name` has at most 15 characters; `body` does not
/// throw. EAGAIN if the system or the user's limit has room for no other thread.
Result<std::thread> start_thread(const char* name, std::function<void()> body);

}  // namespace verbatim
