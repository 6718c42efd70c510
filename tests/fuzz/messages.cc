// Everything that arrives over gRPC: the first byte says which message, the rest is its bytes. What
// is let through must survive the way back and be let through again.

#include "parts.h"

#include "google/protobuf/stubs/logging.h"
#include "paceline/wire/codec/from_proto.h"
#include "paceline/wire/codec/ring_part.h"
#include "paceline/wire/codec/size_proto.h"
#include "paceline/wire/codec/supervise_proto.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {
namespace {

template <class Message>
Message Parsed(std::string_view bytes) {
  Message message;
  (void)message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));  // a part stays
  return message;
}

// For messages that fill a value.
template <class Message, class Value>
void Try(std::string_view bytes) {
  Value value;
  if (!FromProto(Parsed<Message>(bytes), &value).ok()) return;
  Message back;
  if constexpr (requires { ToProto(value, &back); }) {
    ToProto(value, &back);
    Value again;
    fuzz::Demand(FromProto(back, &again).ok(), "what was let through is let through again");
  }
}

// For messages that are one.
template <class Message>
void Try(std::string_view bytes) {
  const auto value = FromProto(Parsed<Message>(bytes));
  if (!value.ok()) return;
  Message back;
  if constexpr (requires { ToProto(*value, &back); }) {
    ToProto(*value, &back);
    fuzz::Demand(FromProto(back).ok(), "what was let through is let through again");
  }
}

void TryRingPart(std::string_view bytes) {
  const auto part = DecodeRingPart(bytes);
  if (!part.ok()) return;
  const std::string back = EncodeRingPart(*part);
  // Bytes that no agent encodes may be shorter than their texts, each of which is told only once.
  const bool is_long = back.size() > kRingPartBytesMax;
  fuzz::Demand(is_long || DecodeRingPart(back).ok(), "what was let through is let through again");
}

void TryOne(uint8_t kind, std::string_view bytes) {
  switch (kind) {
    case '0': return Try<pb::AgentMessage>(bytes);
    case '1': return Try<pb::MasterMessage>(bytes);
    case '2': return Try<pb::SupervisorMessage>(bytes);
    case '3': return Try<pb::SupervisorOrder>(bytes);
    case '4': return Try<pb::StopRequest, StopRequest>(bytes);
    case 'a': return Try<pb::ScaleRequest, ScaleRequest>(bytes);
    case '5': return Try<pb::JobStatus, JobStatus>(bytes);
    case '6': return Try<pb::JobEvent, JobEvent>(bytes);
    case '7': return Try<pb::JobSpec, JobSpec>(bytes);
    case '8': return Try<pb::LaunchSpec, LaunchSpec>(bytes);
    case '9': return Try<pb::Assignment, Assignment>(bytes);
    case 'b': return TryRingPart(bytes);
    default: return;
  }
}

}  // namespace
}  // namespace paceline::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer silent;
  if (size == 0) return 0;
  paceline::wire::TryOne(data[0], paceline::fuzz::AsText(data + 1, size - 1));
  return 0;
}
