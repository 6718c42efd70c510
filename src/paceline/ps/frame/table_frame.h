#pragma once

// The messages between a worker and a table server, as bytes. The specification is
// docs/formats/table_frames.md.
//
// A frame is a head of 48 bytes and a body; numbers are little-endian. The input is not trusted: a
// reader checks the head's sizes before it keeps a byte of the body, and the hash before it reads
// what the body says.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/model/table_routing.h"
#include "paceline/ps/push.h"

namespace paceline::ps {

enum class TableOp : uint16_t {
  // Sent by a worker.
  kHello = 1,   // the first frame; body: a TableHello
  kOpen = 2,    // body: EncodeSpec
  kPull = 3,    // count: of reads; kTraining; body: an EncodeReads
  kInit = 4,    // table, count: of keys; body: keys, then their values
  kPush = 5,    // count: of gradients; body: an EncodePush
  kCounts = 6,  // no body
  kExport = 7,  // table, count: of a partition; no body
  // table, count: of a page of changed keys, from 0; body: the number of a version
  kChanged = 8,
  kRoute = 9,  // no body. Answered with kMoved
  kGive = 10,  // by another server; body: the move's id, and that server's number
  // Sent by a server. `number` is that of the request.
  kWelcome = 65,   // body: a TableHello, of the server
  kOpened = 66,    // table
  kRows = 67,      // body: the rows of all reads, as floats
  kInited = 68,    // count: of rows that were missing
  kPushed = 69,    // count: a PushAnswer; body: why, of a refusal
  kCounted = 70,   // body: JSON
  kExported = 71,  // count: of keys; body: keys, then their values
  kRefused = 72,   // count: a TableRefusal; body: why
  // count: of keys; body: keys, then their values. Flags: kMore, kAll
  kChanges = 73,
  kMoved = 74,  // the worker knows older routing; body: an EncodeRouting
  // To another server. count: of partitions, 0: not now; body: an EncodeImages
  kGiven = 75,
};

enum class TableRefusal : uint32_t {
  kMalformed = 1,  // the frame breaks its format. The last frame
  kDiffers = 2,    // the table is open with another dim or optimizer
  kInvalid = 3,    // the table's spec breaks a rule
  kUnknownTable = 4,
  kOtherServer = 5,  // another server, job or version. The last frame
};

struct TableHead {
  static constexpr uint16_t kTraining = 1;
  static constexpr uint16_t kMore = 2;  // other changed keys follow; ask again
  static constexpr uint16_t kAll = 4;   // which keys have changed is not known

  TableOp op = TableOp::kHello;
  uint16_t flags = 0;
  uint64_t number = 0;  // of the request; rises in each connection
  uint32_t table = 0;   // as the server numbers it
  uint32_t count = 0;
  uint64_t bytes = 0;  // of the body
  // In an answer: the server's recovery number. In a request for rows or with rows: the version of
  // the routing that the worker knows.
  uint64_t recovery = 0;
  bool operator==(const TableHead&) const = default;
};

inline constexpr size_t kTableHeadBytes = 48;
inline constexpr uint64_t kTableBodyMax = uint64_t{256} << 20;
// Changed keys of a page, for a table of that dim: about 16 MiB of rows.
constexpr size_t ChangesAtOnce(uint32_t dim) { return (size_t{4} << 20) / dim + 1; }
inline constexpr uint32_t kReadsMax = 4'096;  // tables of one pull or push
inline constexpr uint32_t kTableFramesVersion = 2;

// A whole frame. `head.bytes` is set to the body's size. The body has at most kTableBodyMax bytes.
std::string EncodeFrame(TableHead head, std::string_view body);

struct HeadRead {
  TableHead head;
  uint64_t check = 0;
};
// The head of a frame, from its first 48 bytes. None: it is no head, or its sizes are out of
// bounds for its kind.
std::optional<HeadRead> ReadHead(std::span<const std::byte> bytes);
// Whether the body is the one that was sent with this head.
bool IsBodyOf(std::span<const std::byte> head, std::span<const std::byte> body);

// The data set of a push, as servers know it: snapshots outlive a job, and two jobs may have equal
// names.
constexpr uint64_t SetOfJob(uint64_t job, uint64_t set) { return set ^ job * 0x9E3779B97F4A7C15u; }

// ---- bodies ----
// Decoders get a body whose memory is aligned to eight bytes, and return views of it. None: it is
// malformed.

struct TableHello {
  uint32_t version = kTableFramesVersion;
  uint32_t server = 0;       // which server the worker expects, and which one answers
  uint32_t servers = 0;      // of the job
  uint64_t job = 0;          // hash of its id
  uint64_t incarnation = 0;  // of a server: higher in each new process
  bool operator==(const TableHello&) const = default;
};
std::string EncodeHello(const TableHello& hello);
std::optional<TableHello> DecodeHello(std::span<const std::byte> body);

// The keys of one table that are read.
struct TableKeys {
  uint32_t table = 0;
  std::span<const uint64_t> keys;
};
std::string EncodeReads(std::span<const TableKeys> reads);
std::optional<std::vector<TableKeys>> DecodeReads(uint32_t count, std::span<const std::byte> body);

// Keys with the values of their rows, keys × dim floats.
std::string EncodeRows(std::span<const uint64_t> keys, std::span<const float> values);
struct KeyedRows {
  std::span<const uint64_t> keys;
  std::span<const float> values;
};
std::optional<KeyedRows> DecodeRows(uint32_t keys, uint32_t dim, std::span<const std::byte> body);

std::string EncodeRouting(const TableRouting& routing);
std::optional<TableRouting> DecodeRouting(std::span<const std::byte> body);

struct GiveRead {
  uint64_t id = 0;  // of the move
  uint32_t to = 0;  // the server that asks
};
std::string EncodeGive(const GiveRead& give);
std::optional<GiveRead> DecodeGive(std::span<const std::byte> body);

// Images of partitions, and the number of the giver's next snapshot.
struct ImagesRead {
  uint64_t snapshot = 0;
  std::vector<std::string> images;
};
std::string EncodeImages(const ImagesRead& images);
std::optional<ImagesRead> DecodeImages(uint32_t count, std::span<const std::byte> body);

// A push. The dim of each table is in the body, so that it can be read without knowing the tables.
struct SentGradient {
  TableGradient gradient;
  uint32_t dim = 0;
};
std::string EncodePush(const PushTag& tag, std::span<const SentGradient> gradients);
struct PushRead {
  PushTag tag;
  std::vector<SentGradient> gradients;
};
std::optional<PushRead> DecodePush(uint32_t count, std::span<const std::byte> body);

// The answer to a push that overlaps.
struct Overlap {
  std::vector<OrdinalRange> parts;  // Holding::PartsOf
  std::string why;
};
std::string EncodeOverlap(const Overlap& overlap);
std::optional<Overlap> DecodeOverlap(std::span<const std::byte> body);

}  // namespace paceline::ps
