#pragma once

/// RDMA in C++: includes all headers.

#include <verbatim/completion.h>
#include <verbatim/connection.h>
#include <verbatim/context.h>
#include <verbatim/coroutine.h>
#include <verbatim/datagram.h>
#include <verbatim/error.h>
#include <verbatim/exchange.h>
#include <verbatim/memory.h>
#include <verbatim/queue_pair.h>
#include <verbatim/receive_queue.h>
#include <verbatim/request.h>
#include <verbatim/result.h>
