#include "paceline/ps/frame/table_frame.h"

#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace paceline::ps {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

constexpr uint32_t kMagic = 0x31465450;  // "PTF1"
constexpr size_t kCheckedBytes = 40;     // of the head; the check follows

void Put(const void* from, size_t bytes, std::string* to) {
  if (bytes > 0) to->append(static_cast<const char*>(from), bytes);
}
template <class T>
void Put(T value, std::string* to) {
  Put(&value, sizeof(value), to);
}
template <class T>
void PutAll(std::span<const T> values, std::string* to) {
  Put(values.data(), values.size_bytes(), to);
}

// Takes views from the front of a body.
class Taker {
 public:
  explicit Taker(std::span<const std::byte> body) : rest_(body) {}

  template <class T>
  T Take() {
    T value{};
    if (rest_.size() < sizeof(T)) {
      is_short_ = true;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  template <class T>
  std::span<const T> TakeAll(uint64_t count) {
    if (count > rest_.size() / sizeof(T)) {
      is_short_ = true;
      return {};
    }
    const std::span<const T> all(reinterpret_cast<const T*>(rest_.data()), count);
    rest_ = rest_.subspan(count * sizeof(T));
    return all;
  }
  // Everything was there, and nothing is left.
  bool IsExact() const { return !is_short_ && rest_.empty(); }
  bool is_short() const { return is_short_; }

 private:
  std::span<const std::byte> rest_;
  bool is_short_ = false;
};

uint64_t CheckOf(std::span<const std::byte> head, std::span<const std::byte> body) {
  const uint64_t of_head = XXH3_64bits(head.data(), kCheckedBytes);
  return XXH3_64bits_withSeed(body.data(), body.size(), of_head);
}

// The largest body of that kind; none: there is no such kind.
std::optional<uint64_t> BodyMax(TableOp op) {
  constexpr uint64_t kText = 64 << 10;
  switch (op) {
    case TableOp::kHello:
    case TableOp::kWelcome: return 64;
    case TableOp::kOpen:
    case TableOp::kPushed:
    case TableOp::kRefused: return kText;
    case TableOp::kCounts:
    case TableOp::kExport:
    case TableOp::kRoute:
    case TableOp::kOpened:
    case TableOp::kInited: return 0;
    case TableOp::kChanged: return sizeof(uint64_t);
    case TableOp::kGive: return 2 * sizeof(uint64_t);
    case TableOp::kMoved: return sizeof(uint64_t) + kTablePartitions * sizeof(uint16_t);
    case TableOp::kCounted: return uint64_t{16} << 20;
    case TableOp::kPull:
    case TableOp::kInit:
    case TableOp::kPush:
    case TableOp::kRows:
    case TableOp::kChanges:
    case TableOp::kGiven:
    case TableOp::kExported: return kTableBodyMax;
  }
  return std::nullopt;
}

// Keys must fit into the body, and tables into a request.
bool IsCountPossible(const TableHead& head) {
  switch (head.op) {
    case TableOp::kPull:
    case TableOp::kPush: return head.count <= kReadsMax;
    case TableOp::kInit:
    case TableOp::kChanges:
    case TableOp::kGiven:
    case TableOp::kExported: return head.count <= head.bytes / sizeof(uint64_t);
    default: return true;
  }
}

}  // namespace

std::string EncodeFrame(TableHead head, std::string_view body) {
  head.bytes = body.size();
  std::string frame;
  frame.reserve(kTableHeadBytes + body.size());
  Put(kMagic, &frame);
  Put(static_cast<uint16_t>(head.op), &frame);
  Put(head.flags, &frame);
  Put(head.number, &frame);
  Put(head.table, &frame);
  Put(head.count, &frame);
  Put(head.bytes, &frame);
  Put(head.recovery, &frame);
  Put(CheckOf(std::as_bytes(std::span(frame)), std::as_bytes(std::span(body))), &frame);
  frame += body;
  return frame;
}

std::optional<HeadRead> ReadHead(std::span<const std::byte> bytes) {
  if (bytes.size() < kTableHeadBytes) return std::nullopt;
  Taker taker(bytes.first(kTableHeadBytes));
  if (taker.Take<uint32_t>() != kMagic) return std::nullopt;
  HeadRead read;
  TableHead& head = read.head;
  head.op = static_cast<TableOp>(taker.Take<uint16_t>());
  head.flags = taker.Take<uint16_t>();
  head.number = taker.Take<uint64_t>();
  head.table = taker.Take<uint32_t>();
  head.count = taker.Take<uint32_t>();
  head.bytes = taker.Take<uint64_t>();
  head.recovery = taker.Take<uint64_t>();
  read.check = taker.Take<uint64_t>();
  const std::optional<uint64_t> most = BodyMax(head.op);
  if (!most || head.bytes > *most || !IsCountPossible(head)) return std::nullopt;
  return read;
}

bool IsBodyOf(std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::optional<HeadRead> read = ReadHead(head);
  return read && read->head.bytes == body.size() && CheckOf(head, body) == read->check;
}

std::string EncodeHello(const TableHello& hello) {
  std::string body;
  Put(hello.version, &body);
  Put(hello.server, &body);
  Put(hello.servers, &body);
  Put(uint32_t{0}, &body);
  Put(hello.job, &body);
  Put(hello.incarnation, &body);
  return body;
}

std::optional<TableHello> DecodeHello(std::span<const std::byte> body) {
  Taker taker(body);
  TableHello hello;
  hello.version = taker.Take<uint32_t>();
  hello.server = taker.Take<uint32_t>();
  hello.servers = taker.Take<uint32_t>();
  taker.Take<uint32_t>();
  hello.job = taker.Take<uint64_t>();
  hello.incarnation = taker.Take<uint64_t>();
  if (!taker.IsExact()) return std::nullopt;
  return hello;
}

std::string EncodeReads(std::span<const TableKeys> reads) {
  std::string body;
  size_t keys = 0;
  for (const TableKeys& read : reads) keys += read.keys.size();
  body.reserve(reads.size() * 8 + keys * sizeof(uint64_t));
  for (const TableKeys& read : reads) {
    Put(read.table, &body);
    Put(static_cast<uint32_t>(read.keys.size()), &body);
  }
  for (const TableKeys& read : reads) PutAll(read.keys, &body);
  return body;
}

std::optional<std::vector<TableKeys>> DecodeReads(uint32_t count, std::span<const std::byte> body) {
  Taker taker(body);
  const auto sizes = taker.TakeAll<uint32_t>(uint64_t{count} * 2);
  if (taker.is_short()) return std::nullopt;
  std::vector<TableKeys> reads;
  for (size_t i = 0; i < count; ++i) {
    reads.push_back({sizes[2 * i], taker.TakeAll<uint64_t>(sizes[2 * i + 1])});
    if (taker.is_short()) return std::nullopt;
  }
  if (!taker.IsExact()) return std::nullopt;
  return reads;
}

std::string EncodeRows(std::span<const uint64_t> keys, std::span<const float> values) {
  std::string body;
  body.reserve(keys.size_bytes() + values.size_bytes());
  PutAll(keys, &body);
  PutAll(values, &body);
  return body;
}

std::optional<KeyedRows> DecodeRows(uint32_t keys, uint32_t dim, std::span<const std::byte> body) {
  Taker taker(body);
  KeyedRows rows;
  rows.keys = taker.TakeAll<uint64_t>(keys);
  rows.values = taker.TakeAll<float>(uint64_t{keys} * dim);
  if (!taker.IsExact()) return std::nullopt;
  return rows;
}

std::string EncodeRouting(const TableRouting& routing) {
  std::string body;
  Put(routing.version(), &body);
  PutAll(std::span(routing.servers()), &body);
  return body;
}

std::optional<TableRouting> DecodeRouting(std::span<const std::byte> body) {
  Taker taker(body);
  const auto version = taker.Take<uint64_t>();
  const auto servers = taker.TakeAll<uint16_t>(kTablePartitions);
  if (!taker.IsExact()) return std::nullopt;
  return TableRouting::Of(version, {servers.begin(), servers.end()});
}

std::string EncodeGive(const GiveRead& give) {
  std::string body;
  Put(give.id, &body);
  Put(give.to, &body);
  Put(uint32_t{0}, &body);
  return body;
}

std::optional<GiveRead> DecodeGive(std::span<const std::byte> body) {
  Taker taker(body);
  GiveRead give;
  give.id = taker.Take<uint64_t>();
  give.to = taker.Take<uint32_t>();
  taker.Take<uint32_t>();
  if (!taker.IsExact() || give.to >= kTableServersMax) return std::nullopt;
  return give;
}

std::string EncodeImages(const ImagesRead& images) {
  std::string body;
  size_t bytes = (images.images.size() + 1) * sizeof(uint64_t);
  for (const std::string& image : images.images) bytes += image.size();
  body.reserve(bytes);
  Put(images.snapshot, &body);
  for (const std::string& image : images.images) Put(uint64_t{image.size()}, &body);
  for (const std::string& image : images.images) body += image;
  return body;
}

std::optional<ImagesRead> DecodeImages(uint32_t count, std::span<const std::byte> body) {
  Taker taker(body);
  ImagesRead read;
  read.snapshot = taker.Take<uint64_t>();
  const auto sizes = taker.TakeAll<uint64_t>(count);
  for (const uint64_t size : sizes) {
    const auto image = taker.TakeAll<char>(size);
    if (taker.is_short()) return std::nullopt;
    read.images.emplace_back(image.data(), image.size());
  }
  if (!taker.IsExact()) return std::nullopt;
  return read;
}

std::string EncodePush(const PushTag& tag, std::span<const SentGradient> gradients) {
  std::string body;
  size_t bytes = 48 + tag.batch.size() * 16;
  for (const SentGradient& one : gradients) {
    bytes += 16 + one.gradient.keys.size_bytes() + one.gradient.values.size_bytes();
  }
  body.reserve(bytes);
  Put(tag.set, &body);
  Put(tag.worker.worker, &body);
  Put(tag.worker.incarnation, &body);
  Put(tag.recovery, &body);
  Put(uint64_t{tag.batch.size()}, &body);
  for (const OrdinalRange& range : tag.batch) {
    Put(range.begin, &body);
    Put(range.end, &body);
  }
  for (const SentGradient& one : gradients) {
    Put(one.gradient.table, &body);
    Put(one.dim, &body);
    Put(uint64_t{one.gradient.keys.size()}, &body);
  }
  for (const SentGradient& one : gradients) PutAll(one.gradient.keys, &body);
  for (const SentGradient& one : gradients) PutAll(one.gradient.values, &body);
  return body;
}

std::optional<PushRead> DecodePush(uint32_t count, std::span<const std::byte> body) {
  Taker taker(body);
  PushRead read;
  read.tag.set = taker.Take<uint64_t>();
  read.tag.worker.worker = taker.Take<uint64_t>();
  read.tag.worker.incarnation = taker.Take<uint64_t>();
  read.tag.recovery = taker.Take<uint64_t>();
  const auto ranges = taker.Take<uint64_t>();
  if (ranges > body.size() / 16) return std::nullopt;
  const auto borders = taker.TakeAll<uint64_t>(ranges * 2);
  for (size_t i = 0; i + 1 < borders.size(); i += 2) {
    read.tag.batch.push_back({borders[i], borders[i + 1]});
  }
  std::vector<uint64_t> keys;
  for (uint32_t i = 0; i < count && !taker.is_short(); ++i) {
    SentGradient& one = read.gradients.emplace_back();
    one.gradient.table = taker.Take<uint32_t>();
    one.dim = taker.Take<uint32_t>();
    keys.push_back(taker.Take<uint64_t>());
    if (one.dim == 0 || one.dim > kDimMax) return std::nullopt;
  }
  if (taker.is_short()) return std::nullopt;
  for (size_t i = 0; i < keys.size(); ++i) {
    read.gradients[i].gradient.keys = taker.TakeAll<uint64_t>(keys[i]);
    if (taker.is_short()) return std::nullopt;
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    // The number of keys fits into the body, and dim into 16 bits, so the product is no overflow.
    read.gradients[i].gradient.values = taker.TakeAll<float>(keys[i] * read.gradients[i].dim);
    if (taker.is_short()) return std::nullopt;
  }
  if (!taker.IsExact()) return std::nullopt;
  return read;
}

std::string EncodeOverlap(const Overlap& overlap) {
  std::string body;
  body.reserve(8 + overlap.parts.size() * 16 + overlap.why.size());
  Put(uint64_t{overlap.parts.size()}, &body);
  for (const OrdinalRange& part : overlap.parts) {
    Put(part.begin, &body);
    Put(part.end, &body);
  }
  return body + overlap.why;
}

std::optional<Overlap> DecodeOverlap(std::span<const std::byte> body) {
  Taker taker(body);
  const auto parts = taker.Take<uint64_t>();
  if (parts > body.size() / 16) return std::nullopt;
  const auto places = taker.TakeAll<uint64_t>(parts * 2);
  if (taker.is_short()) return std::nullopt;
  Overlap overlap;
  for (size_t i = 0; i + 1 < places.size(); i += 2) {
    if (places[i] >= places[i + 1]) return std::nullopt;
    overlap.parts.push_back({places[i], places[i + 1]});
  }
  const auto rest = body.subspan(8 + parts * 16);
  overlap.why.assign(reinterpret_cast<const char*>(rest.data()), rest.size());
  return overlap;
}

}  // namespace paceline::ps
