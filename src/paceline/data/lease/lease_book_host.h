#pragma once

// For tests: a host of a LeaseBook with a disk of adjustable speed, and two workers.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "paceline/data/lease/lease_book.h"

namespace paceline {

inline Instant At(int64_t milliseconds) {
  return Instant::FromNanoseconds(milliseconds * 1'000'000);
}

inline LeaseOpen OpenOf(uint64_t rank, uint64_t generation = 1) {
  return {.name = "train",
          .terms = "{}",
          .ordinals = 100,
          .rank = rank,
          .world_size = 2,
          .generation = generation,
          .incarnation = generation,
          .lease_max = 10,
          .lease_first = 10};
}

struct Host {
  LeaseBook book;
  std::vector<LeaseFact> journal;
  std::vector<LeaseFact> summary;
  std::vector<LeaseAnswer> answers;

  Host() { Boot(); }
  void Boot() {
    LeaseActions actions;
    book.Boot(book.first_lease() + 1'000, &actions);
    Keep(&actions);
  }
  void Keep(LeaseActions* actions) {
    for (LeaseFact& fact : actions->facts) journal.push_back(std::move(fact));
    for (LeaseAnswer& answer : actions->answers) answers.push_back(std::move(answer));
    EXPECT_EQ(book.Broken(), "");
  }
  std::vector<LeaseFrame> Say(LeasePeer from, const LeaseFrame& frame, int64_t at = 0) {
    answers.clear();
    LeaseActions actions;
    book.Handle(At(at), from, frame, &actions);
    Keep(&actions);
    return To(from);
  }
  std::vector<LeaseFrame> To(LeasePeer peer) const {
    std::vector<LeaseFrame> frames;
    for (const LeaseAnswer& answer : answers) {
      if (answer.to == peer) frames.push_back(answer.frame);
    }
    return frames;
  }
  LeaseFrame One(LeasePeer from, const LeaseFrame& frame, int64_t at = 0) {
    const std::vector<LeaseFrame> frames = Say(from, frame, at);
    EXPECT_EQ(frames.size(), 1u);
    return frames.empty() ? LeaseFrame{} : frames.front();
  }
  LeaseFrame Open(LeasePeer from, const LeaseOpen& open) {
    return One(from, {.op = LeaseOp::kOpen, .text = EncodeOpen(open)});
  }
  LeaseFrame Take(LeasePeer from, int64_t at = 0) {
    return One(from, {.op = LeaseOp::kTake, .number = 7}, at);
  }
  LeaseFrame Ack(LeasePeer from, const LeaseFrame& granted, uint64_t until, int64_t at = 0) {
    return One(from, {.op = LeaseOp::kAck, .number = 1, .lease = granted.lease, .end = until}, at);
  }
  std::string Mark(LeasePeer from, uint64_t step) {
    const LeaseFrame frame = One(from, {.op = LeaseOp::kMark, .number = step});
    EXPECT_EQ(frame.op, LeaseOp::kMarked);
    return frame.text;
  }
  LeaseFrame Rewind(LeasePeer from, const std::string& position, uint64_t number = 1) {
    return One(from, {.op = LeaseOp::kRewind, .number = number, .text = position});
  }
  void Tick(int64_t at) {
    answers.clear();
    LeaseActions actions;
    book.Tick(At(at), &actions);
    Keep(&actions);
  }
  void Gone(LeasePeer peer, bool is_blamed) {
    answers.clear();
    LeaseActions actions;
    book.PeerGone(At(0), peer, is_blamed, &actions);
    Keep(&actions);
  }
  // The master dies. The next one has only the first `count` facts.
  void Restart(size_t count) {
    journal.resize(std::min(count, journal.size()));
    book = LeaseBook();
    for (const LeaseFact& fact : summary) book.Restore(fact);
    for (const LeaseFact& fact : journal) book.Restore(fact);
    Boot();
  }
  uint64_t done() const { return book.Views().front().done; }
};

inline constexpr LeasePeer kAnn{1, 1};
inline constexpr LeasePeer kBob{1, 2};

inline LeaseOpen Following(uint64_t rank, uint64_t generation) {
  LeaseOpen open = OpenOf(rank, generation);
  open.follows_checkpoints = true;
  return open;
}

}  // namespace paceline
