#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <vector>

#include <arpa/inet.h>
#include <infinity/queues/QueuePair.h>

#include "infinity/failure.h"
#include "infinity/request.h"

namespace infinity::queues {

using detail::fail;
using detail::refuse;
using memory::Atomic;
using memory::Buffer;
using memory::RegionToken;
using requests::RequestToken;

namespace {

constexpr uint64_t kMessageMax = std::numeric_limits<uint32_t>::max();

bool is_within(uint64_t offset, uint64_t bytes, uint64_t whole) {
  return offset <= whole && bytes <= whole - offset;
}

}  // namespace

void QueuePair::send(Buffer* buffer, RequestToken* token) {
  transfer({"QueuePair::send", IBV_WR_SEND, OperationFlags(), token}, buffer, 0,
           buffer->getSizeInBytes());
}
void QueuePair::send(Buffer* buffer, uint32_t size, RequestToken* token) {
  send(buffer, 0, size, OperationFlags(), token);
}
void QueuePair::send(Buffer* buffer, uint64_t localOffset, uint32_t size, OperationFlags flags,
                     RequestToken* token) {
  transfer({"QueuePair::send", IBV_WR_SEND, flags, token}, buffer, localOffset, size);
}

void QueuePair::write(Buffer* buffer, RegionToken* destination, RequestToken* token) {
  transfer({"QueuePair::write", IBV_WR_RDMA_WRITE, OperationFlags(), token, destination}, buffer, 0,
           buffer->getSizeInBytes());
}
void QueuePair::write(Buffer* buffer, RegionToken* destination, uint32_t size,
                      RequestToken* token) {
  write(buffer, 0, destination, 0, size, OperationFlags(), token);
}
void QueuePair::write(Buffer* buffer, uint64_t localOffset, RegionToken* destination,
                      uint64_t remoteOffset, uint32_t size, OperationFlags flags,
                      RequestToken* token) {
  transfer({"QueuePair::write", IBV_WR_RDMA_WRITE, flags, token, destination, remoteOffset}, buffer,
           localOffset, size);
}

void QueuePair::read(Buffer* buffer, RegionToken* source, RequestToken* token) {
  transfer({"QueuePair::read", IBV_WR_RDMA_READ, OperationFlags(), token, source}, buffer, 0,
           buffer->getSizeInBytes());
}
void QueuePair::read(Buffer* buffer, RegionToken* source, uint32_t size, RequestToken* token) {
  read(buffer, 0, source, 0, size, OperationFlags(), token);
}
void QueuePair::read(Buffer* buffer, uint64_t localOffset, RegionToken* source,
                     uint64_t remoteOffset, uint32_t size, OperationFlags flags,
                     RequestToken* token) {
  transfer({"QueuePair::read", IBV_WR_RDMA_READ, flags, token, source, remoteOffset}, buffer,
           localOffset, size);
}

void QueuePair::multiWrite(Buffer** buffers, uint32_t* sizes, uint64_t* localOffsets,
                           uint32_t numberOfElements, RegionToken* destination,
                           uint64_t remoteOffset, OperationFlags flags, RequestToken* token) {
  writeElements(
      {"QueuePair::multiWrite", IBV_WR_RDMA_WRITE, flags, token, destination, remoteOffset},
      buffers, sizes, localOffsets, numberOfElements);
}
void QueuePair::multiWriteWithImmediate(Buffer** buffers, uint32_t* sizes, uint64_t* localOffsets,
                                        uint32_t numberOfElements, RegionToken* destination,
                                        uint64_t remoteOffset, uint32_t immediateValue,
                                        OperationFlags flags, RequestToken* token) {
  writeElements({"QueuePair::multiWriteWithImmediate", IBV_WR_RDMA_WRITE_WITH_IMM, flags, token,
                 destination, remoteOffset, immediateValue},
                buffers, sizes, localOffsets, numberOfElements);
}
void QueuePair::sendWithImmediate(Buffer* buffer, uint64_t localOffset, uint32_t size,
                                  uint32_t immediateValue, OperationFlags flags,
                                  RequestToken* token) {
  transfer({"QueuePair::sendWithImmediate", IBV_WR_SEND_WITH_IMM, flags, token, nullptr, 0,
            immediateValue},
           buffer, localOffset, size);
}
void QueuePair::writeWithImmediate(Buffer* buffer, uint64_t localOffset, RegionToken* destination,
                                   uint64_t remoteOffset, uint32_t size, uint32_t immediateValue,
                                   OperationFlags flags, RequestToken* token) {
  transfer({"QueuePair::writeWithImmediate", IBV_WR_RDMA_WRITE_WITH_IMM, flags, token, destination,
            remoteOffset, immediateValue},
           buffer, localOffset, size);
}

void QueuePair::compareAndSwap(RegionToken* destination, uint64_t compare, uint64_t swap,
                               RequestToken* token) {
  compareAndSwap(destination, context->defaultAtomic, compare, swap, OperationFlags(), token);
}
void QueuePair::compareAndSwap(RegionToken* destination, Atomic* previousValue, uint64_t compare,
                               uint64_t swap, OperationFlags flags, RequestToken* token) {
  atomic({"QueuePair::compareAndSwap", IBV_WR_ATOMIC_CMP_AND_SWP, flags, token, destination, 0,
          std::nullopt, compare, swap},
         previousValue);
}
void QueuePair::fetchAndAdd(RegionToken* destination, uint64_t add, RequestToken* token) {
  fetchAndAdd(destination, context->defaultAtomic, add, OperationFlags(), token);
}
void QueuePair::fetchAndAdd(RegionToken* destination, Atomic* previousValue, uint64_t add,
                            OperationFlags flags, RequestToken* token) {
  atomic({"QueuePair::fetchAndAdd", IBV_WR_ATOMIC_FETCH_AND_ADD, flags, token, destination, 0,
          std::nullopt, add},
         previousValue);
}

void QueuePair::writeElements(const Request& wanted, Buffer** buffers, const uint32_t* sizes,
                              const uint64_t* localOffsets, uint32_t numberOfElements) {
  if (numberOfElements == 0 || numberOfElements > sendElements_) {
    refuse(wanted.call, ": ", numberOfElements, " elements; this device takes 1 to ",
           sendElements_);
  }
  std::vector<ibv_sge> elements(numberOfElements);
  for (uint32_t i = 0; i < numberOfElements; ++i) {
    const uint64_t offset = localOffsets == nullptr ? 0 : localOffsets[i];
    const uint64_t size = sizes == nullptr ? buffers[i]->getSizeInBytes() : sizes[i];
    if (!is_within(offset, size, buffers[i]->getSizeInBytes()) || size > kMessageMax) {
      refuse(wanted.call, ": element ", i, ": ", size, " bytes from ", offset,
             " on are not within the buffer's ", buffers[i]->getSizeInBytes());
    }
    elements[i] = {.addr = buffers[i]->getAddressWithOffset(offset),
                   .length = static_cast<uint32_t>(size),
                   .lkey = buffers[i]->getLocalKey()};
  }
  if (wanted.token != nullptr) {
    wanted.token->reset();
    wanted.token->setRegion(buffers[0]);
  }
  post(wanted, elements.data(), numberOfElements);
}

void QueuePair::transfer(const Request& wanted, Buffer* buffer, uint64_t localOffset,
                         uint64_t size) {
  if (size > kMessageMax) {
    refuse(wanted.call, ": the buffer has ", size,
           " bytes; a request moves less than 4 GiB: give a size");
  }
  if (!is_within(localOffset, size, buffer->getSizeInBytes())) {
    refuse(wanted.call, ": ", size, " bytes from ", localOffset, " on are not within the buffer's ",
           buffer->getSizeInBytes());
  }
  if (wanted.token != nullptr) {
    wanted.token->reset();
    wanted.token->setRegion(buffer);
  }
  ibv_sge element{.addr = buffer->getAddressWithOffset(localOffset),
                  .length = static_cast<uint32_t>(size),
                  .lkey = buffer->getLocalKey()};
  post(wanted, &element, 1);
}

void QueuePair::atomic(const Request& wanted, Atomic* previousValue) {
  if (wanted.remote->getMemoryRegionType() == memory::BUFFER) {
    refuse(wanted.call, ": the token names a Buffer; only an Atomic can be changed so");
  }
  if (wanted.token != nullptr) {
    wanted.token->reset();
    wanted.token->setRegion(previousValue);
  }
  ibv_sge element{.addr = previousValue->getAddress(),
                  .length = static_cast<uint32_t>(previousValue->getSizeInBytes()),
                  .lkey = previousValue->getLocalKey()};
  post(wanted, &element, 1);
}

void QueuePair::post(const Request& wanted, ibv_sge* elements, uint32_t numberOfElements) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < numberOfElements; ++i) bytes += elements[i].length;
  ibv_send_wr request{};
  request.wr_id = reinterpret_cast<uintptr_t>(wanted.token);
  request.sg_list = elements;
  request.num_sge = static_cast<int>(numberOfElements);
  request.opcode = wanted.opcode;
  OperationFlags flags = wanted.flags;
  if (wanted.token != nullptr) flags.signaled = true;
  if (flags.inlined && bytes > inlineBytes_) {
    refuse(wanted.call, ": ", bytes, " bytes inlined; this device takes ", inlineBytes_);
  }
  if (wanted.immediate) {
    request.imm_data = htonl(*wanted.immediate);
    if (wanted.token != nullptr) wanted.token->setImmediateValue(*wanted.immediate);
  }
  if (wanted.remote != nullptr) {
    RegionToken& remote = *wanted.remote;
    if (!is_within(wanted.remote_offset, bytes, remote.getSizeInBytes())) {
      refuse(wanted.call, ": ", bytes, " bytes from ", wanted.remote_offset,
             " on are not within the ", remote.getSizeInBytes(), " that the region token names");
    }
    const uint64_t address = remote.getAddressWithOffset(wanted.remote_offset);
    if (wanted.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
        wanted.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic = {.remote_addr = address,
                           .compare_add = wanted.compare_or_add,
                           .swap = wanted.swap,
                           .rkey = remote.getRemoteKey()};
    } else {
      request.wr.rdma = {.remote_addr = address, .rkey = remote.getRemoteKey()};
    }
  }
  // A slot of the send queue becomes free when a later request completes, so some requests must
  // complete even if the program waits for none of them.
  if (!flags.signaled &&
      (unsignaled_.fetch_add(1, std::memory_order_relaxed) + 1) % std::max(sendRequests_ / 4, 1u) ==
          0) {
    flags.signaled = true;
  }
  request.send_flags = static_cast<unsigned>(flags.ibvFlags());
  postWithRoom(wanted, &request);
}

void QueuePair::postWithRoom(const Request& wanted, ibv_send_wr* request) {
  constexpr std::chrono::seconds kTimeout(10);
  ibv_send_wr* bad = nullptr;
  int code = ibv_post_send(ibvQueuePair, request, &bad);
  if (code == ENOMEM) {
    const auto start = std::chrono::steady_clock::now();
    do {
      context->pollSendCompletionQueue();
      code = ibv_post_send(ibvQueuePair, request, &bad);
    } while (code == ENOMEM && std::chrono::steady_clock::now() - start < kTimeout);
  }
  if (code == 0) return;
  if (code == ENOMEM)
    fail(code, wanted.call, ": the send queue is full, and for 10 s no request has ended");
  if (context->isIwarp() && wanted.opcode == IBV_WR_SEND_WITH_IMM)
    fail(code, wanted.call, ": SEND has no immediate data over iWARP: writeWithImmediate has");
  fail(code, wanted.call, ": the request cannot be posted");
}

}  // namespace infinity::queues
