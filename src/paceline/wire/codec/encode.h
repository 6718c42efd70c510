#pragma once

// Helpers for encoding single fields, and the macro for the lists in fields.h. Only for the
// to_proto files.

#include <string>
#include <type_traits>

#include "paceline/wire/codec/fields.h"
#include "paceline/wire/codec/to_proto.h"

namespace paceline::wire {

template <class T>
requires std::is_arithmetic_v<T> T Encode(T value) { return value; }
template <class Tag, class Rep>
Rep Encode(StrongId<Tag, Rep> id) {
  return id.value();
}
inline int64_t Encode(Duration duration) { return duration.nanoseconds(); }
inline std::string Encode(const std::string& text) { return CleanText(text); }

// Enums on the wire are ours plus one, because 0 means "unspecified" there.
template <class To, class From>
To Shifted(From value) {
  return static_cast<To>(static_cast<int>(value) + 1);
}
inline pb::GrowPolicy Encode(GrowPolicy value) { return Shifted<pb::GrowPolicy>(value); }
inline pb::ScaleMode Encode(ScaleMode value) { return Shifted<pb::ScaleMode>(value); }
inline pb::SlowAct Encode(SlowAct value) { return Shifted<pb::SlowAct>(value); }
inline pb::NodeCheck::State Encode(NodeCheck::State value) {
  return Shifted<pb::NodeCheck::State>(value);
}
inline pb::Wish::Intent Encode(Wish::Intent value) { return Shifted<pb::Wish::Intent>(value); }
inline pb::EntryKind Encode(EntryKind value) { return Shifted<pb::EntryKind>(value); }
inline pb::ExitCause::Kind Encode(ExitCause::Kind value) {
  return Shifted<pb::ExitCause::Kind>(value);
}
// Not shifted: records from before there were roles have none.
inline pb::ExitCause::Role Encode(ExitCause::Role value) {
  return static_cast<pb::ExitCause::Role>(value);
}
inline pb::RankReport::State Encode(RankReport::State value) {
  return Shifted<pb::RankReport::State>(value);
}
inline pb::Assignment::Kind Encode(Assignment::Kind value) {
  return Shifted<pb::Assignment::Kind>(value);
}
inline pb::RankPhase Encode(RankPhase value) { return Shifted<pb::RankPhase>(value); }
inline pb::Rung Encode(core::Rung value) { return Shifted<pb::Rung>(value); }

inline pb::NodeMemory::Bound Encode(MemoryBound value) {
  return Shifted<pb::NodeMemory::Bound>(value);
}
inline pb::DrillLoss Encode(DrillLoss value) { return Shifted<pb::DrillLoss>(value); }
inline pb::RestoreOrder::From Encode(RestoreOrder::From value) {
  return Shifted<pb::RestoreOrder::From>(value);
}

}  // namespace paceline::wire

#define PUT(field) to->set_##field(Encode(from.field));
