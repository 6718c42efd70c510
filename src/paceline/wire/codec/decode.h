#pragma once

// Helpers for decoding single fields: bounds of numbers, names, addresses and text, and the macros
// for the lists in fields.h. Only for the from_proto files.

#include <cctype>
#include <string>
#include <string_view>
#include <type_traits>

#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/fields.h"
#include "paceline/wire/codec/from_proto.h"

namespace paceline::wire {

inline absl::Status Invalid(std::string_view field, std::string_view why) {
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    std::string(field) + " " + std::string(why));
}

template <class T>
requires std::is_arithmetic_v<T> absl::Status Decode(T from, std::string_view, T* to) {
  *to = from;
  return absl::OkStatus();
}
template <class Tag, class Rep>
absl::Status Decode(Rep from, std::string_view, StrongId<Tag, Rep>* to) {
  *to = StrongId<Tag, Rep>(from);
  return absl::OkStatus();
}
inline absl::Status Decode(uint64_t from, std::string_view field, Generation* to) {
  if (from > kGenerationMax) return Invalid(field, "is out of range");
  *to = Generation(from);
  return absl::OkStatus();
}
inline absl::Status Decode(uint32_t from, std::string_view field, Rank* to) {
  if (from > kTaskRankMax) return Invalid(field, "is out of range");
  *to = Rank(from);
  return absl::OkStatus();
}
inline absl::Status Decode(int64_t from, std::string_view field, Duration* to) {
  if (from < 0) return Invalid(field, "is negative");
  *to = Duration::Nanoseconds(from);
  return absl::OkStatus();
}
inline absl::Status Decode(const std::string& from, std::string_view field, std::string* to) {
  if (from.size() > kTextBytesMax) return Invalid(field, "is too long");
  *to = from;
  return absl::OkStatus();
}

template <class E>
absl::Status Shifted(int from, std::string_view field, E last, E* to) {
  if (from < 1 || from > static_cast<int>(last) + 1) return Invalid(field, "is unknown");
  *to = static_cast<E>(from - 1);
  return absl::OkStatus();
}
inline absl::Status Decode(pb::ExitCause::Kind from, std::string_view field, ExitCause::Kind* to) {
  return Shifted(from, field, ExitCause::Kind::kHung, to);
}
inline absl::Status Decode(pb::ExitCause::Role from, std::string_view field, ExitCause::Role* to) {
  if (from < 0 || from > static_cast<int>(ExitCause::Role::kAdvice)) {
    return Invalid(field, "is unknown");
  }
  *to = static_cast<ExitCause::Role>(from);
  return absl::OkStatus();
}
inline absl::Status Decode(pb::RankReport::State from, std::string_view field,
                           RankReport::State* to) {
  return Shifted(from, field, RankReport::State::kExited, to);
}
inline absl::Status Decode(pb::NodeCheck::State from, std::string_view field,
                           NodeCheck::State* to) {
  return Shifted(from, field, NodeCheck::State::kFailed, to);
}
inline absl::Status Decode(pb::Wish::Intent from, std::string_view field, Wish::Intent* to) {
  return Shifted(from, field, Wish::Intent::kDrain, to);
}
inline absl::Status Decode(pb::Assignment::Kind from, std::string_view field,
                           Assignment::Kind* to) {
  return Shifted(from, field, Assignment::Kind::kLeave, to);
}
inline absl::Status Decode(pb::RestoreOrder::From from, std::string_view field,
                           RestoreOrder::From* to) {
  return Shifted(from, field, RestoreOrder::From::kStorage, to);
}
inline absl::Status Decode(pb::RankPhase from, std::string_view field, RankPhase* to) {
  return Shifted(from, field, RankPhase::kRestore, to);
}
inline absl::Status Decode(pb::Rung from, std::string_view field, core::Rung* to) {
  return Shifted(from, field, core::Rung::kReplaceSlow, to);
}
inline absl::Status Decode(pb::NodeMemory::Bound from, std::string_view field, MemoryBound* to) {
  return Shifted(from, field, MemoryBound::kTold, to);
}
inline absl::Status Decode(pb::DrillLoss from, std::string_view field, DrillLoss* to) {
  return Shifted(from, field, DrillLoss::kNode, to);
}

inline absl::Status TakeTerm(uint64_t from, uint64_t* to) {
  if (from > kTermMax) return Invalid("term", "is out of range");
  *to = from;
  return absl::OkStatus();
}
inline absl::Status CheckName(std::string_view name, std::string_view field) {
  return IsName(name) ? absl::OkStatus() : Invalid(field, "is not a name");
}
inline absl::Status CheckPort(uint32_t port, std::string_view field) {
  return port <= 65535 ? absl::OkStatus() : Invalid(field, "is not a port");
}
// A host name or address. It is used in environment variables and log lines.
inline absl::Status CheckAddress(std::string_view address, std::string_view field) {
  if (address.size() > 255) return Invalid(field, "is too long");
  for (const unsigned char c : address) {
    if (!std::isalnum(c) &&
        std::string_view(".-_:[]%").find(static_cast<char>(c)) == std::string_view::npos) {
      return Invalid(field, "is not an address");
    }
  }
  return absl::OkStatus();
}

}  // namespace paceline::wire

#define TAKE(field) RETURN_IF_ERROR(Decode(from.field(), #field, &to->field));
#define TAKE_GIVEN(field) \
  if (from.has_##field()) RETURN_IF_ERROR(Decode(from.field(), #field, &to->field));
