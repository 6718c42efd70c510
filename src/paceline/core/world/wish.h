#pragma once

// What the job asks of the platform that starts its nodes (model/wish.h), and who is taken in when
// a platform does.
//
// The wish follows from the records alone: whoever is lost, leaves or is evicted is wished for in
// its next incarnation, at once. After kReplacedMax times without progress an index is wished for
// no more: where its nodes die, more of them would die too. The job goes on without it.

#include <optional>

#include "paceline/core/action.h"
#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/core/turn.h"
#include "paceline/model/wish.h"

namespace paceline::core {

inline constexpr uint32_t kReplacedMax = 8;

Wish WishOf(const JobState& state);

// True if a newer incarnation of the node was wished for, or the node never was. Always false where
// nodes join by themselves.
bool IsFenced(const JobState& state, const std::string& name, uint32_t incarnation);

// A refusal for a node that is not wished for.
std::optional<RefuseNode> CheckWished(const Turn& turn, const NodeRegistered& event);

// The platform saw a node die that never registered: it is wished for anew.
void OnGoneUnseen(Turn& turn, const NodeGone& event);

// At the end of a step: tells the wish if it changed.
void TellWishes(Turn& turn);

}  // namespace paceline::core
