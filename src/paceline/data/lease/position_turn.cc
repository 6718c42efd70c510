// The turn of a mark or a rewind: positions of data sets that follow checkpoints.
#include <string>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/base/text.h"
#include "paceline/data/lease/lease_turn.h"

namespace paceline {

using Kind = LeaseFact::Kind;

void LeaseBook::Turn::Mark(const Place& at, const LeaseFrame& frame) {
  if (!at.set.follows_checkpoints) {
    return Refuse(at.from, Concat("the data set ", at.set.name, " does not follow checkpoints"),
                  "it was opened with resume=\"acks\"", "resume=\"checkpoint\"");
  }
  BeginGeneration(at);
  if (!IsCurrent(at)) return Answer(at.from, {.op = LeaseOp::kFenced});
  const uint64_t step = frame.number;
  // Its checkpoint has samples that the position lacks. It was told `stale`. If that answer is lost
  // and the next master accepts its lease, the step must not be marked.
  if (at.session.has_lost) {
    return Answer(at.from, {.op = LeaseOp::kMarked, .number = step, .text = "lost"});
  }
  const std::string position = at.set.PositionOf(step);
  const auto cut = at.set.cuts.find(step);
  const bool is_marked = at.set.positions.contains(position) ||
                         (cut != at.set.cuts.end() && cut->second.marked.contains(at.session.rank));
  const auto before = at.session.acked_at_mark.find(step);
  if (!is_marked) {
    Note({.kind = Kind::kMarked,
          .set = at.set.number,
          .worker = at.session.worker,
          .begin = step,
          .end = at.session.world_size});
    at.session.acked_at_mark = {{step, at.session.acked}};
  } else if (before != at.session.acked_at_mark.end() && before->second != at.session.acked) {
    return Refuse(at.from, Concat("step ", step, " was saved twice"),
                  "samples were read between the two, so they are different positions",
                  "save each step once, or under another number");
  }
  Promise(at.from, {.op = LeaseOp::kMarked, .number = step, .text = position});
}

void LeaseBook::Turn::Rewind(const Place& at, const LeaseFrame& frame) {
  if (!at.set.follows_checkpoints) return Mark(at, frame);  // which refuses it
  const Lineage wanted{at.session.lineage.generation, frame.number};
  // The other lines say where the position may be known; the host has looked there.
  const std::string position = frame.text.substr(0, frame.text.find('\n'));
  if (wanted < at.set.lineage) return Answer(at.from, {.op = LeaseOp::kFenced});
  // Its older requests are from before the rewind, so it does not wait for them.
  at.session.requests.clear();
  at.session.recalled.clear();
  at.set.waiting.erase(at.from);
  at.session.lineage = wanted;
  at.session.has_lost = false;
  if (wanted > at.set.lineage) {
    if (!position.empty() && !at.set.positions.contains(position)) {
      return Refuse(
          at.from, Concat("the ledger of ", at.set.name, " does not know this position"),
          Concat("the checkpoint stands at ", position,
                 ", which is too old, or of a job whose run directory the master cannot read"),
          "resume the job that saved it (paceline run --resume), or leave the data out "
          "of the state to begin anew");
    }
    Note({.kind = Kind::kRewound,
          .set = at.set.number,
          .begin = wanted.generation,
          .end = wanted.number,
          .text = position});
  }
  Promise(
      at.from,
      {.op = LeaseOp::kRewound, .number = frame.number, .end = at.set.stream.partitions().size()});
  Settle(&at.set);
}

}  // namespace paceline
