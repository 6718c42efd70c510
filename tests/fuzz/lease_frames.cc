// What workers say to the ledger of leases: the bytes of one link, cut into frames and handled by a
// book, whose facts must restore another one that counts the same.

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/base/instant.h"
#include "paceline/data/lease/lease_book.h"
#include "parts.h"

namespace {

using paceline::Duration;
using paceline::Instant;
using paceline::LeaseActions;
using paceline::LeaseBook;
using paceline::LeaseFrame;
using paceline::fuzz::Demand;

constexpr uint64_t kStepMs = 250;  // so that deadlines pass

std::vector<LeaseFrame> FramesIn(std::string_view bytes) {
  std::vector<LeaseFrame> frames;
  const auto taken = paceline::TakeFrames(bytes, &frames);
  if (!taken.has_value()) return {};
  Demand(*taken <= bytes.size(), "no frame reads past the end");
  std::string written;
  for (const LeaseFrame& frame : frames) paceline::AppendFrame(frame, &written);
  std::vector<LeaseFrame> again;
  Demand(paceline::TakeFrames(written, &again) == written.size(), "what we write we read");
  Demand(again == frames, "and it is the same");
  return frames;
}

void CheckRestored(const LeaseBook& book, const LeaseActions& done) {
  LeaseBook restored;
  for (const paceline::LeaseFact& fact : done.facts) restored.Restore(fact);
  LeaseActions actions;
  restored.Boot(uint64_t{1} << 32, &actions);
  Demand(restored.Broken().empty(), "what facts restore is sound");
  const auto before = book.Views();
  const auto after = restored.Views();
  Demand(before.size() == after.size(), "every data set is restored");
  for (size_t i = 0; i < before.size(); ++i) {
    Demand(before[i].name == after[i].name, "by its name");
    Demand(before[i].done == after[i].done, "with what was acknowledged, and no more");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto frames = FramesIn(paceline::fuzz::AsText(data, size));
  LeaseBook book;
  LeaseActions actions;
  book.Boot(1, &actions);
  Instant now;
  for (const LeaseFrame& frame : frames) {
    now += Duration::Milliseconds(kStepMs);
    const paceline::LeasePeer peer{.link = frame.peer >> 4 & 1, .peer = frame.peer & 15};
    if (frame.op == paceline::LeaseOp::kGone) {
      book.PeerGone(now, peer, (frame.flags & LeaseFrame::kBlamed) != 0, &actions);
    } else if (frame.op == paceline::LeaseOp::kReset) {
      book.LinkBroken(now, peer.link, LeaseBook::kLinkPatience);
    } else {
      book.Handle(now, peer, frame, &actions);
    }
    if (book.NextDeadline() <= now) book.Tick(now, &actions);
    Demand(book.Broken().empty(), "no frame breaks the book");
  }
  CheckRestored(book, actions);
  return 0;
}
