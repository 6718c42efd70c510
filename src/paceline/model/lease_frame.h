#pragma once

// The messages between a process with leases and the ledger, as bytes: between the process and its
// agent over a Unix socket, between agent and master over the lease channel. The specification is
// docs/formats/lease_frames.md.
//
// A frame is 48 bytes and a text; numbers are little-endian. The input is not trusted: sizes are
// checked before anything is kept.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

enum class LeaseOp : uint16_t {
  // Sent by a process.
  // The first frame of each connection. text: a LeaseOpen; begin: ordinals granted to it since the
  // rewind, without returned ones
  kOpen = 1,
  kTake = 2,  // number: of the request
  // lease, end: all below is done; number: of the ack, rising; begin: of a stream, the end of the
  // partition as this process sees it, or 0
  kAck = 3,
  kFail = 4,     // lease, begin, end: that part cannot be done; number as of an ack
  kPresent = 5,  // after a kReset: lease, begin, end; number: confirmed up to here
  kMark = 6,     // number: the step; its checkpoint has all acks before this frame
  kRewind = 7,   // text: a position; number: of the rewind in this generation, from 1
  kClose = 8,    // returns all leases, without blame
  kReturn = 9,   // lease: not held by this process; returned without blame
  // From a loader, without a kOpen. text: its name; number: generation; lease: eight bytes of the
  // order that this rank reads; begin: rank; end: the place, as an epoch
  kAgree = 10,
  // Of a stream. text: name of a partition that this process sees; begin: the offset at which the
  // stream's first run begins there; end: how many records it has, 0 if it has no end. begin = end:
  // the stream begins after this partition
  kFound = 11,
  // Of a stream. lease, begin, end: records there that nobody trains on; text: why. kBlamed: decode
  // refused them; else retention has eaten them
  kGap = 12,
  // From a table server at its start, without a kOpen. number: the server; begin: how often it
  // was started again; text: the batches that its tables have, by data set. All others of data sets
  // that train tables are free again. kMore: the text goes on in the next frame; lease: number of
  // this frame, from 0
  kTablesHave = 13,
  kWhere = 14,  // number: of the question, how far the data set is done
  // From a table server, without a kOpen. number: the server. It is told the routing now, and
  // whenever it changes
  kTablesWatch = 15,
  kTablesTaken = 16,  // from a table server, without a kOpen. text: PartitionsTaken
  // Sent to a process.
  kOpened = 32,   // begin: samples in quarantine; end: known partitions of a stream
  kGranted = 33,  // number: of the request, lease, begin, end; text: of a stream: base, name
  kWait = 34,     // number: of the request, which stays open: a kGranted or kComplete follows
  // number: of the request; begin: samples in quarantine; text: the first of them, as many as fit;
  // end: ordinals for no rank, because they are fewer than the ranks
  kComplete = 35,
  kStale = 36,      // lease: another process has it; number: of the ack
  kConfirmed = 37,  // number: that ack and all before it are durable
  kPresented = 38,  // lease, begin: continues there; begin = end: all is done
  kMarked = 39,     // number: of the step; text: the position
  kRewound = 40,    // number; end: known partitions of a stream
  kRefused = 41,    // text: what, why, fix, one a line. The last frame
  kFenced = 42,     // a newer process has replaced it. The last frame
  kDiffers = 43,    // text: the loader; number: the place; begin, end: the differing ranks
  kRecall = 44,     // lease of a stream: to be returned; another process has fewer, or has it
  // To a table server. number: the server; begin: ordinals that are free again; text: which, of
  // data sets that end
  kUndone = 45,
  // number: of the question; begin: another number after each loss of a table server; end:
  // partitions of a stream that are done whole; text: of a stream, the others, "offset name" a
  // line, as many as fit; else ranges
  kStands = 46,
  kRouting = 47,  // to a table server. text: RoutingNews
  // Sent and received by agents.
  kGone = 64,   // peer: the process has ended; kBlamed in flags: by itself
  kReset = 65,  // new connection to the master: open and present again
  kPing = 66,   // the agent lives
  // Sent by commands, over their own link.
  kShow = 67,
  kShown = 68,  // text: a data set as JSON; the last frame has none
};

struct LeaseFrame {
  static constexpr uint16_t kBlamed = 1;
  static constexpr uint16_t kMore = 2;

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
inline constexpr size_t kLeaseFrameTextMax = kLeaseFrameBytesMax - kLeaseFrameHeadBytes;

// The text has at most kLeaseFrameTextMax bytes. A peer would hang up at a larger frame, and then
// receive the same one again.
void AppendFrame(const LeaseFrame& frame, std::string* bytes);

// Appends the complete frames in `bytes` to `frames`; returns their size. Returns nullopt if
// `bytes` has anything that is no frame.
std::optional<size_t> TakeFrames(std::string_view bytes, std::vector<LeaseFrame>* frames);

// A worker's opening of a data set.
struct LeaseOpen {
  std::string name;       // name of the data set, unique in the job
  std::string terms;      // its order; must be equal on all ranks
  uint64_t ordinals = 0;  // samples of all epochs
  uint64_t rank = 0;
  uint64_t world_size = 1;
  uint64_t generation = 0;
  uint64_t incarnation = 0;  // a later process of the same rank has a higher one
  uint64_t lease_min = 1;
  uint64_t lease_max = 1'000'000;
  uint64_t lease_first = 64;
  uint64_t lease_ms = 3'000;      // how long a lease should keep a worker busy
  uint64_t deadline_ms = 10'000;  // at least; without an ack
  uint64_t failures_max = 3;      // workers on which a range fails before it is suspect
  bool follows_checkpoints = false;
  bool is_even = false;    // follows checkpoints, and all ranks get equally many ordinals
  bool is_stream = false;  // its partitions are found while it is read
  // Ordinals of a batch that nobody divides, and of an epoch, which no batch crosses. 0: none; not
  // for equal shares. 1 and 0 for a stream that trains tables, whose batches may be divided.
  uint64_t unit = 0;
  uint64_t epoch = 0;
  bool operator==(const LeaseOpen&) const = default;
};
std::string EncodeOpen(const LeaseOpen& open);
// None if the text is malformed or a number is out of bounds.
std::optional<LeaseOpen> ParseOpen(std::string_view text);

}  // namespace paceline
