#pragma once

// The nodes that the job asks of the platform (model/wish.h), and which nodes are accepted if there
// is a platform.
//
// The wish follows from the records alone: a node that is lost, leaves or is evicted is wished for
// in its next incarnation at once. After kReplacedMax replacements without progress, the next
// loss drops its index: further replacements would die, too. The job continues without it.

#include <optional>

#include "paceline/core/action.h"
#include "paceline/core/event.h"
#include "paceline/core/job_state.h"
#include "paceline/core/turn.h"
#include "paceline/model/wish.h"

namespace paceline::core {

inline constexpr uint32_t kReplacedMax = 8;

Wish WishOf(const JobState& state);

// True if a newer incarnation of the node was wished for, or the node was never wished for. Always
// false if nodes join by themselves.
bool IsFenced(const JobState& state, const std::string& name, uint32_t incarnation);

// True if the platform started this agent as a replacement for the present node of that name, so
// that there is no contest. A master that has not heard the present node yet takes the incarnation
// from its journal: that of the present node, or of the one that is to follow it.
bool IsSuccessor(const JobState& state, const NodeLink& link, const NodeReport& report);

// A refusal if the node is not wished for.
std::optional<RefuseNode> CheckWished(const Turn& turn, const NodeRegistered& event);

// The platform saw a node die before it registered: it is wished for again.
void OnGoneUnseen(Turn& turn, const NodeGone& event);

// The platform is about to take a node away: its next incarnation is wished for now. When the node
// leaves is decided in growth.h.
void OnNotice(Turn& turn, const NoticeCame& event);

// At the end of a step: sends the wish if it has changed.
void TellWishes(Turn& turn);

}  // namespace paceline::core
