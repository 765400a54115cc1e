#include <limits>
#include <mutex>

#include <arpa/inet.h>
#include <infinity/core/Context.h>
#include <infinity/memory/Atomic.h>
#include <infinity/memory/Buffer.h>
#include <infinity/queues/QueuePair.h>
#include <infinity/requests/RequestToken.h>

#include "infinity/device.h"
#include "infinity/failure.h"

namespace infinity::core {

using detail::fail;
using detail::refuse;
using detail::warn;

Context::Context(uint16_t device, uint16_t devicePort)
    : device_(std::make_unique<detail::Device>(device, devicePort)) {
  ibvContext = device_->context;
  ibvDevice = ibvContext->device;
  ibvDevicePort = devicePort;
  ibvLocalDeviceId = device_->port.lid;
  ibvProtectionDomain = device_->domain.get();
  ibvSendCompletionQueue = device_->send_completions.get();
  ibvReceiveCompletionQueue = device_->receive_completions.get();
  ibvSharedReceiveQueue = device_->receives.get();
  auto token = std::make_unique<requests::RequestToken>(this);
  defaultAtomic = new memory::Atomic(this);
  defaultRequestToken = token.release();
}

Context::~Context() {
  delete defaultRequestToken;
  delete defaultAtomic;
  if (!queuePairMap.empty())
    warn("a Context is deleted before its queue pairs: it stays open until the program ends");
}

void Context::postReceiveBuffer(memory::Buffer* buffer) {
  if (buffer->getSizeInBytes() > std::numeric_limits<uint32_t>::max()) {
    refuse("Context::postReceiveBuffer: the buffer has ", buffer->getSizeInBytes(),
           " bytes; a message has less than 4 GiB");
  }
  ibv_sge element{.addr = buffer->getAddress(),
                  .length = static_cast<uint32_t>(buffer->getSizeInBytes()),
                  .lkey = buffer->getLocalKey()};
  ibv_recv_wr request{};
  request.wr_id = reinterpret_cast<uintptr_t>(buffer);
  request.sg_list = &element;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int code = ibv_post_srq_recv(ibvSharedReceiveQueue, &request, &bad); code != 0) {
    fail(code,
         "Context::postReceiveBuffer: the shared receive queue takes no more: messages have to be "
         "received first");
  }
}

bool Context::receive(receive_element_t* element) {
  return receive(&element->buffer, &element->bytesWritten, &element->immediateValue,
                 &element->immediateValueValid, &element->queuePair);
}

bool Context::receive(memory::Buffer** buffer, uint32_t* bytesWritten, uint32_t* immediateValue,
                      bool* immediateValueValid, queues::QueuePair** queuePair) {
  ibv_wc completion;
  for (;;) {
    if (ibv_poll_cq(ibvReceiveCompletionQueue, 1, &completion) <= 0) return false;
    auto* const posted = reinterpret_cast<memory::Buffer*>(completion.wr_id);
    const bool is_message = completion.status == IBV_WC_SUCCESS;
    const bool is_write = is_message && completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    if (!is_message) report(completion);
    if (!is_message || is_write) postReceiveBuffer(posted);
    if (!is_message) continue;

    const bool has_immediate = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
    *buffer = is_write ? nullptr : posted;
    *bytesWritten = completion.byte_len;
    *immediateValue = has_immediate ? ntohl(completion.imm_data) : 0;
    *immediateValueValid = has_immediate;
    if (queuePair != nullptr) *queuePair = find(completion.qp_num);
    return true;
  }
}

bool Context::pollSendCompletionQueue() {
  ibv_wc completion;
  if (ibv_poll_cq(ibvSendCompletionQueue, 1, &completion) <= 0) return false;
  if (completion.status != IBV_WC_SUCCESS) report(completion);
  auto* const token = reinterpret_cast<requests::RequestToken*>(completion.wr_id);
  if (token != nullptr) token->setCompleted(completion.status == IBV_WC_SUCCESS);
  return true;
}

namespace {

const char* usual_cause(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:
      return "the message is longer than the buffer that was posted for it";
    case IBV_WC_LOC_PROT_ERR:
      return "the buffer was deleted, or is another context's";
    case IBV_WC_REM_ACCESS_ERR:
      return "the region token is wrong: the peer's buffer was deleted or is smaller, or is not an "
             "Atomic";
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer's buffer is smaller than the message";
    case IBV_WC_REM_OP_ERR:
      return "the peer could not take it";
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer does not answer: its program has ended, or a network lies dead between";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer has posted no buffer";
    case IBV_WC_WR_FLUSH_ERR:
      return "the connection has ended";
    default:
      return "see ibv_poll_cq(3)";
  }
}

}  // namespace

/// Reports a queue pair's first failure; later ones are its consequence.
void Context::report(const ibv_wc& completion) {
  queues::QueuePair* const failed = find(completion.qp_num);
  if (failed != nullptr && failed->isReported_.exchange(true)) return;
  warn("a request of queue pair ", completion.qp_num,
       " failed: ", ibv_wc_status_str(completion.status), ": ", usual_cause(completion.status));
}

void Context::registerQueuePair(queues::QueuePair* queuePair) {
  enroll(queuePair->getQueuePairNumber(), queuePair);
}

void Context::enroll(uint32_t number, queues::QueuePair* queuePair) {
  const std::unique_lock lock(device_->queue_pairs_lock);
  queuePairMap[number] = queuePair;
}

void Context::forget(queues::QueuePair* queuePair) {
  const std::unique_lock lock(device_->queue_pairs_lock);
  std::erase_if(queuePairMap, [&](const auto& entry) { return entry.second == queuePair; });
}

queues::QueuePair* Context::find(uint32_t number) {
  const std::shared_lock lock(device_->queue_pairs_lock);
  const auto found = queuePairMap.find(number);
  return found == queuePairMap.end() ? nullptr : found->second;
}

bool Context::isIwarp() { return device_->is_iwarp; }
ibv_context* Context::getInfiniBandContext() { return ibvContext; }
uint16_t Context::getLocalDeviceId() { return ibvLocalDeviceId; }
uint16_t Context::getDevicePort() { return ibvDevicePort; }
ibv_pd* Context::getProtectionDomain() { return ibvProtectionDomain; }
ibv_cq* Context::getSendCompletionQueue() { return ibvSendCompletionQueue; }
ibv_cq* Context::getReceiveCompletionQueue() { return ibvReceiveCompletionQueue; }
ibv_srq* Context::getSharedReceiveQueue() { return ibvSharedReceiveQueue; }

}  // namespace infinity::core
