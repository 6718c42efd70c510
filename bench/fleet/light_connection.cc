#include "fleet/light_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace paceline::bench {
namespace {

constexpr size_t kFrameHeader = 9;
constexpr size_t kMessageHeader = 5;
enum Type : uint8_t {
  kData = 0,
  kHeaders = 1,
  kResetStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
};
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kAck = 1;
constexpr uint8_t kEndHeaders = 4;

void AddNumber(uint32_t number, int bytes, std::string* to) {
  for (int i = bytes - 1; i >= 0; --i) *to += static_cast<char>(number >> (8 * i));
}

uint32_t Number(std::string_view bytes) {
  uint32_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

// A literal header field, never indexed, without Huffman's code; both texts below 127 bytes.
void AddHeader(std::string_view name, std::string_view value, std::string* to) {
  *to += '\0';
  *to += static_cast<char>(name.size());
  *to += name;
  *to += static_cast<char>(value.size());
  *to += value;
}

}  // namespace

LightConnection::LightConnection(int fd, Listener* listener) : fd_(fd), listener_(listener) {
  out_ = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::string settings;
  AddNumber(4, 2, &settings);  // SETTINGS_INITIAL_WINDOW_SIZE
  AddNumber(1u << 30, 4, &settings);
  AddFrame({.type = kSettings, .payload = settings});
  std::string update;
  AddNumber(1u << 30, 4, &update);
  AddFrame({.type = kWindowUpdate, .payload = update});
}

LightConnection::~LightConnection() { close(fd_); }

void LightConnection::AddFrame(const Frame& frame) {
  AddNumber(static_cast<uint32_t>(frame.payload.size()), 3, &out_);
  out_ += static_cast<char>(frame.type);
  out_ += static_cast<char>(frame.flags);
  AddNumber(frame.stream, 4, &out_);
  out_ += frame.payload;
}

uint32_t LightConnection::OpenStream(std::string_view path, std::string_view token) {
  const uint32_t stream = next_stream_;
  next_stream_ += 2;
  std::string headers;
  AddHeader(":method", "POST", &headers);
  AddHeader(":scheme", "http", &headers);
  AddHeader(":path", path, &headers);
  AddHeader(":authority", "localhost", &headers);
  AddHeader("te", "trailers", &headers);
  AddHeader("content-type", "application/grpc", &headers);
  AddHeader("authorization", "Bearer " + std::string(token), &headers);
  AddFrame({.type = kHeaders, .flags = kEndHeaders, .stream = stream, .payload = headers});
  return stream;
}

void LightConnection::Send(uint32_t stream, const std::string& message) {
  std::string data(1, '\0');
  AddNumber(static_cast<uint32_t>(message.size()), 4, &data);
  data += message;
  held_.emplace_back(stream, std::move(data));
  SendHeld();
}

// The server widens each stream's own window as it reads, long before an agent has filled it.
void LightConnection::SendHeld() {
  while (!held_.empty() && window_ >= static_cast<int64_t>(held_.front().second.size())) {
    const auto& [stream, data] = held_.front();
    window_ -= static_cast<int64_t>(data.size());
    AddFrame({.type = kData, .stream = stream, .payload = data});
    held_.pop_front();
  }
}

void LightConnection::Reset(uint32_t stream) {
  std::string code;
  AddNumber(8, 4, &code);  // CANCEL
  AddFrame({.type = kResetStream, .stream = stream, .payload = code});
}

bool LightConnection::Flush() {
  while (sent_ < out_.size()) {
    const ssize_t sent = send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
    sent_ += static_cast<size_t>(sent);
  }
  out_.clear();
  sent_ = 0;
  return true;
}

bool LightConnection::Read() {
  char bytes[64 * 1024];
  for (;;) {
    const ssize_t size = recv(fd_, bytes, sizeof(bytes), 0);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    if (size == 0) return false;
    in_.append(bytes, static_cast<size_t>(size));
    in_.erase(0, TakeFrames());
    if (static_cast<size_t>(size) < sizeof(bytes)) return true;
  }
}

// Bytes of whole frames.
size_t LightConnection::TakeFrames() {
  size_t at = 0;
  while (in_.size() - at >= kFrameHeader) {
    const std::string_view header = std::string_view(in_).substr(at, kFrameHeader);
    const size_t size = Number(header.substr(0, 3));
    if (in_.size() - at - kFrameHeader < size) break;
    Take({.type = static_cast<uint8_t>(header[3]),
          .flags = static_cast<uint8_t>(header[4]),
          .stream = Number(header.substr(5)) & 0x7fffffff,
          .payload = std::string_view(in_).substr(at + kFrameHeader, size)});
    at += kFrameHeader + size;
  }
  return at;
}

void LightConnection::Take(const Frame& frame) {
  is_accepted_ = true;
  switch (frame.type) {
    case kData: TakeData(frame); break;
    case kHeaders:
      if (!std::exchange(opened_[frame.stream], true)) listener_->Opened(frame.stream);
      break;
    case kSettings:
    case kPing:
      if ((frame.flags & kAck) != 0) break;
      AddFrame({.type = frame.type,
                .flags = kAck,
                .payload = frame.type == kPing ? frame.payload : std::string_view()});
      break;
    case kWindowUpdate:
      if (frame.stream != 0) break;
      window_ += Number(frame.payload);
      SendHeld();
      break;
    case kResetStream:
    case kGoAway: listener_->Ended(frame.stream); return;
    default: break;
  }
  const bool is_end = frame.type == kData || frame.type == kHeaders;
  if (is_end && (frame.flags & kEndStream) != 0) listener_->Ended(frame.stream);
}

void LightConnection::TakeData(const Frame& frame) {
  std::string& partial = partial_[frame.stream];
  partial += frame.payload;
  size_t at = 0;
  while (partial.size() - at >= kMessageHeader) {
    const size_t size = Number(std::string_view(partial).substr(at + 1, 4));
    if (partial.size() - at - kMessageHeader < size) break;
    listener_->Heard(frame.stream, std::string_view(partial).substr(at + kMessageHeader, size));
    at += kMessageHeader + size;
  }
  partial.erase(0, at);
}

}  // namespace paceline::bench
