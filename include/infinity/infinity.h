#pragma once

/// Infinity's interface (github.com/claudebarthels/infinity), implemented by Verbatim: a program
/// written for Infinity compiles with this include path and links libinfinity. Names, values and
/// overloads are Infinity's; docs/infinity.md says what differs. C++11 and later.
#include <infinity/core/Configuration.h>
#include <infinity/core/Context.h>
#include <infinity/memory/Atomic.h>
#include <infinity/memory/Buffer.h>
#include <infinity/memory/Region.h>
#include <infinity/memory/RegionToken.h>
#include <infinity/memory/RegionType.h>
#include <infinity/memory/RegisteredMemory.h>
#include <infinity/queues/QueuePair.h>
#include <infinity/queues/QueuePairFactory.h>
#include <infinity/requests/RequestToken.h>
#include <infinity/utils/Address.h>
#include <infinity/utils/Debug.h>
#include <infinity/utils/Error.h>
