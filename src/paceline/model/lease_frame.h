#pragma once

// What a process that works on leases says to the ledger and hears from it, as bytes: between a
// process and its agent over a Unix socket, between agent and master over the lease channel. The
// specification is docs/formats/lease_frames.md.
//
// A frame is 48 bytes and a text, numbers little-endian. Everything here may come from a stranger:
// sizes are bounded before anything is kept.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

enum class LeaseOp : uint16_t {
  // A process says:
  // text: a LeaseOpen; begin: ordinals that it was granted since the rewind and did not give back.
  // The first frame of each connection
  kOpen = 1,
  kTake = 2,     // number: of the request
  kAck = 3,      // lease, end: all below is done; number: of the ack, rising
  kFail = 4,     // lease, begin, end: that part cannot be done; number as of an ack
  kPresent = 5,  // lease, begin, end, number: done and confirmed below. After a kReset
  kMark = 6,     // number: the step of a checkpoint that has all acks before this frame
  kRewind = 7,   // text: a position; number: which rewind of this generation, from 1
  kClose = 8,    // its leases come back, nobody is to blame
  kReturn = 9,   // lease: it does not have that one; it comes back, nobody is to blame
  // Of a loader, without a kOpen. text: its name; number: generation; lease: eight bytes of the
  // order that this rank reads; begin: rank; end: the place, as an epoch
  kAgree = 10,
  // It hears:
  kOpened = 32,   // begin: samples in quarantine
  kGranted = 33,  // number: of the request, lease, begin, end
  kWait = 34,     // number: of the request, which stays: a kGranted or kComplete follows
  // number: of the request; begin: samples in quarantine; text: which; end: ordinals that nobody
  // gets, because they are fewer than ranks
  kComplete = 35,
  kStale = 36,      // lease: it is somebody else's by now; number: of the ack
  kConfirmed = 37,  // number: that ack and all before it are durable
  kPresented = 38,  // lease, begin: it goes on from there; begin = end: all of it is done
  kMarked = 39,     // number: of the step; text: the position
  kRewound = 40,    // number
  kRefused = 41,    // text: what, why, fix, a line each. The last frame
  kFenced = 42,     // a newer process has its place. The last frame
  kDiffers = 43,    // text: the loader; number: the place; begin, end: ranks that differ there
  // Agents say and tell:
  kGone = 64,   // peer: it has ended; kBlamed in flags: by itself
  kReset = 65,  // there is a new connection to the master: open and present again
  kPing = 66,   // this agent lives
  // Commands ask, over a link of their own:
  kShow = 67,
  kShown = 68,  // text: a data set as JSON; the last frame has none
};

struct LeaseFrame {
  static constexpr uint16_t kBlamed = 1;

  LeaseOp op = LeaseOp::kPing;
  uint16_t flags = 0;
  uint32_t peer = 0;  // given by the agent
  uint64_t number = 0;
  uint64_t lease = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string text = {};
  bool operator==(const LeaseFrame&) const = default;
};

inline constexpr size_t kLeaseFrameHeadBytes = 48;
inline constexpr size_t kLeaseFrameBytesMax = 64 << 10;

void AppendFrame(const LeaseFrame& frame, std::string* bytes);

// Appends the whole frames at the front of `bytes` to `frames`; how many bytes those were. Nothing
// when what follows is no frame.
std::optional<size_t> TakeFrames(std::string_view bytes, std::vector<LeaseFrame>* frames);

// Who works on which data, and how.
struct LeaseOpen {
  std::string name;       // of the data set, unique in the job
  std::string terms;      // its order; must be the same for all
  uint64_t ordinals = 0;  // samples of all epochs
  uint64_t rank = 0;
  uint64_t world_size = 1;
  uint64_t generation = 0;
  uint64_t incarnation = 0;  // a later process of the same rank has a higher one
  uint64_t lease_min = 1;
  uint64_t lease_max = 1'000'000;
  uint64_t lease_first = 64;
  uint64_t lease_ms = 3'000;      // how long a worker should be busy with a lease
  uint64_t deadline_ms = 10'000;  // at least, without an ack
  uint64_t failures_max = 3;      // on so many workers before a range is suspect
  bool follows_checkpoints = false;
  bool is_even = false;  // follows checkpoints, and all ranks get equally many ordinals
  bool operator==(const LeaseOpen&) const = default;
};
std::string EncodeOpen(const LeaseOpen& open);
// Nothing when it is none, or its numbers are out of bounds.
std::optional<LeaseOpen> ParseOpen(std::string_view text);

}  // namespace paceline
