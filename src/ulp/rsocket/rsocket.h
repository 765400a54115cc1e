#pragma once

/// The C interface of rsocket(7): librdmacm's own header. Everything declared here is visible
/// outside the library.
#pragma GCC visibility push(default)
#include <rdma/rsocket.h>
#pragma GCC visibility pop
